from __future__ import annotations

import pytest

from reasoning_env.errors import ConfigError
from reasoning_env.library_facts import KNOWN_TASKS, gameable_tasks
from reasoning_env.records import TaskInfo
from reasoning_env.tasks.selection import composite_members, resolve_patterns, select_tasks, without_gameable

NAMES = ["sudoku", "composite", "chain_sum", "mini_sudoku"]
AVAILABLE = [
    TaskInfo("sudoku", "games"),
    TaskInfo("composite", "other"),
    TaskInfo("chain_sum", "arithmetic"),
    TaskInfo("mini_sudoku", "games"),
]


@pytest.mark.parametrize("wanted", [[], ["all"], ["sudoku", "all"]])
def test_nothing_and_all_select_every_task(wanted: list[str]) -> None:
    assert select_tasks(AVAILABLE, wanted) == ("chain_sum", "composite", "mini_sudoku", "sudoku")


def test_selection_is_in_name_order_without_repeats() -> None:
    assert select_tasks(AVAILABLE, ["sudoku", "chain_sum", "sudoku"]) == ("chain_sum", "sudoku")


def test_unknown_name_is_refused_with_the_nearest_ones() -> None:
    with pytest.raises(ConfigError, match=r"there is no task 'sudoko'; did you mean sudoku, mini_sudoku\?"):
        select_tasks(AVAILABLE, ["chain_sum", "sudoko"])


def test_unknown_name_like_no_other_is_refused_without_a_guess() -> None:
    with pytest.raises(
        ConfigError,
        match=r"there is no task 'xyz' \(`tasks` lists all 4 names; the categories are arithmetic, games, other\)",
    ):
        select_tasks(AVAILABLE, ["xyz"])


def test_library_without_tasks_is_refused() -> None:
    with pytest.raises(ConfigError, match="no task at all"):
        select_tasks([], ["chain_sum"])


def test_composite_is_made_of_the_other_selected_tasks() -> None:
    assert composite_members(NAMES, ["sudoku", "composite", "chain_sum"]) == ("sudoku", "chain_sum")


def test_composite_alone_is_made_of_all_other_tasks() -> None:
    assert composite_members(NAMES, ["composite"]) == ("chain_sum", "mini_sudoku", "sudoku")


def test_unwanted_tasks_are_excluded_and_told() -> None:
    assert without_gameable(("a", "b", "c"), (), {"b", "x"}) == (("a", "c"), ("b",))


def test_unwanted_task_that_was_named_stays() -> None:
    assert without_gameable(("a", "b", "c"), ("b", "c"), {"b"}) == (("a", "b", "c"), ())


def test_fewer_tasks_are_gameable_under_strict_rewards() -> None:
    strict, plain = (gameable_tasks(strict_rewards=strict) for strict in (True, False))
    assert strict.keys() < plain.keys()
    assert plain["coin_flip"] == "0 is a prefix of every probability"


def test_gameable_tasks_are_tasks() -> None:
    assert gameable_tasks(strict_rewards=False).keys() <= KNOWN_TASKS


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("sudoku", ("sudoku",)),
        ("*sudoku", ("mini_sudoku", "sudoku")),
        ("games/*", ("mini_sudoku", "sudoku")),
        ("games/mini*", ("mini_sudoku",)),
        ("*/chain_sum", ("chain_sum",)),
        ("category:games", ("mini_sudoku", "sudoku")),
        ("category:g*", ("mini_sudoku", "sudoku")),
        ("[cm]*", ("chain_sum", "composite", "mini_sudoku")),
    ],
)
def test_patterns_select_by_name_and_category(pattern: str, names: tuple[str, ...]) -> None:
    assert select_tasks(AVAILABLE, [pattern]) == names


def test_excluded_patterns_are_taken_out() -> None:
    assert select_tasks(AVAILABLE, [], ["category:games"]) == ("chain_sum", "composite")
    assert select_tasks(AVAILABLE, ["games/*"], ["sudoku"]) == ("mini_sudoku",)


@pytest.mark.parametrize(
    ("pattern", "hint"),
    [
        ("category:gamess", r"no task that matches 'category:gamess'; did you mean category:games\?"),
        ("game/*", r"no task that matches 'game/\*'; did you mean games/\*"),
        ("*_sorting", r"no task that matches '\*_sorting'"),
    ],
)
def test_pattern_that_matches_nothing_is_refused_with_the_nearest(pattern: str, hint: str) -> None:
    with pytest.raises(ConfigError, match="tasks: there is " + hint):
        select_tasks(AVAILABLE, [pattern])
    with pytest.raises(ConfigError, match="exclude_tasks: there is " + hint):
        select_tasks(AVAILABLE, [], [pattern])


def test_excluding_everything_is_refused() -> None:
    with pytest.raises(ConfigError, match="every task of `tasks` is excluded"):
        select_tasks(AVAILABLE, ["sudoku"], ["games/*"])


def test_values_by_pattern_let_a_name_win_over_globs_and_the_later_glob_over_the_earlier() -> None:
    values = {"sudoku": 3.0, "*": 1.0, "games/*": 2.0}
    assert resolve_patterns(AVAILABLE, NAMES, values, "task_weights") == {
        "sudoku": 3.0,
        "mini_sudoku": 2.0,
        "chain_sum": 1.0,
        "composite": 1.0,
    }


def test_values_for_unselected_and_unknown_tasks_are_refused() -> None:
    with pytest.raises(ConfigError, match="task_weights: 'sudoku' matches none of the selected tasks"):
        resolve_patterns(AVAILABLE, ["chain_sum"], {"sudoku": 1.0}, "task_weights")
    with pytest.raises(ConfigError, match="task_weights: there is no task 'sudokoo'; did you mean sudoku"):
        resolve_patterns(AVAILABLE, NAMES, {"sudokoo": 1.0}, "task_weights")
