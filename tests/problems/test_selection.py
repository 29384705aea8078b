from __future__ import annotations

import pytest

from reasoning_env.errors import ConfigError
from reasoning_env.problems.selection import resolve_patterns, select_tasks
from reasoning_env.records import TaskInfo

NAMES = ["sudoku", "composite", "chain_sum", "mini_sudoku"]
AVAILABLE = [
    TaskInfo("sudoku", "games"),
    TaskInfo("composite", "other"),
    TaskInfo("chain_sum", "arithmetic"),
    TaskInfo("mini_sudoku", "games"),
]


@pytest.mark.parametrize("wanted", [[], ["all"], ["sudoku", "ALL"], ["*"]])
def test_empty_task_selection_matches_all_tasks(wanted: list[str]) -> None:
    assert select_tasks(AVAILABLE, wanted) == tuple(sorted(NAMES))


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("sudoku", ("sudoku",)),
        ("*sudoku", ("mini_sudoku", "sudoku")),
        ("games/*", ("mini_sudoku", "sudoku")),
        ("games/mini*", ("mini_sudoku",)),
        ("category:games", ("mini_sudoku", "sudoku")),
        ("[cm]*", ("chain_sum", "composite", "mini_sudoku")),
        ("games", ("mini_sudoku", "sudoku")),
        ("Category:GAMES", ("mini_sudoku", "sudoku")),
        ("Chain_Sum", ("chain_sum",)),
    ],
)
def test_task_patterns_match_names_and_categories(pattern: str, names: tuple[str, ...]) -> None:
    assert select_tasks(AVAILABLE, [pattern]) == names
    assert select_tasks(AVAILABLE, [], [pattern]) == tuple(sorted(set(NAMES) - set(names)))


def test_selected_tasks_have_the_order_of_the_selection_patterns() -> None:
    assert select_tasks(AVAILABLE, ["sudoku", "chain_sum", "games"]) == ("sudoku", "chain_sum", "mini_sudoku")


def test_pattern_that_names_both_a_task_and_a_category_selects_the_task() -> None:
    available = [TaskInfo("logic", "puzzles"), TaskInfo("syllogism", "logic")]
    assert select_tasks(available, ["logic"]) == ("logic",)
    assert select_tasks(available, ["category:logic"]) == ("syllogism",)


@pytest.mark.parametrize(
    ("pattern", "hint"),
    [
        ("sudoko", "'sudoko'; did you mean sudoku"),
        ("gamez", "'gamez'.* games"),
        ("xyz", r"'xyz'.*\b4\b.* arithmetic, games, other"),
        ("category:gamess", r"'category:gamess'.* category:games\b"),
        ("game/*", r"'game/\*'.* games/\*"),
        ("*_sorting", r"'\*_sorting'"),
    ],
)
def test_task_pattern_without_a_match_raises(pattern: str, hint: str) -> None:
    for field, patterns in (("tasks", ([pattern],)), ("exclude_tasks", ([], [pattern]))):
        with pytest.raises(ConfigError, match=f"{field}: .*{hint}"):
            select_tasks(AVAILABLE, *patterns)


@pytest.mark.parametrize(("available", "excluded"), [([], []), (AVAILABLE, ["*"])])
def test_task_selection_that_leaves_no_task_raises(available: list[TaskInfo], excluded: list[str]) -> None:
    with pytest.raises(ConfigError):
        select_tasks(available, [], excluded)


def test_task_name_overrides_patterns_and_a_later_pattern_overrides_an_earlier_one() -> None:
    values = {"Sudoku": 3.0, "*": 1.0, "games/*": 2.0}
    assert resolve_patterns(AVAILABLE, NAMES, values, "task_weights") == {
        "sudoku": 3.0,
        "mini_sudoku": 2.0,
        "chain_sum": 1.0,
        "composite": 1.0,
    }


@pytest.mark.parametrize("pattern", ["sudoku", "sudokoo"])
def test_setting_for_an_unselected_task_raises(pattern: str) -> None:
    with pytest.raises(ConfigError, match=f"task_weights: .*'{pattern}'"):
        resolve_patterns(AVAILABLE, ["chain_sum"], {pattern: 1.0}, "task_weights")


@pytest.mark.parametrize("pattern", ["rlve/Sorting", "RLVE/sorting", "rlve/*", "*sort*", "rlve", "category:rlve"])
def test_task_pattern_matches_a_name_with_slash(pattern: str) -> None:
    available = [TaskInfo("gcd", "arithmetic"), TaskInfo("rlve/Sorting", "rlve")]
    assert select_tasks(available, [pattern]) == ("rlve/Sorting",)
