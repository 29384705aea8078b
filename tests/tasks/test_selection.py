from __future__ import annotations

import pytest

from reasoning_env.errors import ConfigError
from reasoning_env.tasks import composite_members, exclude_tasks, gameable_tasks, select_tasks
from reasoning_env.workers.task_names import KNOWN_TASKS

AVAILABLE = ["sudoku", "composite", "chain_sum", "mini_sudoku"]


@pytest.mark.parametrize("wanted", [[], ["all"], ["sudoku", "all"]])
def test_nothing_and_all_select_every_task(wanted: list[str]) -> None:
    assert select_tasks(AVAILABLE, wanted) == ("chain_sum", "composite", "mini_sudoku", "sudoku")


def test_selection_is_in_name_order_without_repeats() -> None:
    assert select_tasks(AVAILABLE, ["sudoku", "chain_sum", "sudoku"]) == ("chain_sum", "sudoku")


def test_unknown_name_is_refused_with_the_nearest_ones() -> None:
    with pytest.raises(ConfigError, match=r"there is no task 'sudoko'; did you mean sudoku, mini_sudoku\?"):
        select_tasks(AVAILABLE, ["chain_sum", "sudoko"])


def test_unknown_name_like_no_other_is_refused_without_a_guess() -> None:
    with pytest.raises(ConfigError, match=r"there is no task 'xyz' \(`tasks` lists all 4 names\)"):
        select_tasks(AVAILABLE, ["xyz"])


def test_library_without_tasks_is_refused() -> None:
    with pytest.raises(ConfigError, match="no task at all"):
        select_tasks([], ["chain_sum"])


def test_composite_is_made_of_the_other_selected_tasks() -> None:
    assert composite_members(AVAILABLE, ["sudoku", "composite", "chain_sum"]) == ("sudoku", "chain_sum")


def test_composite_alone_is_made_of_all_other_tasks() -> None:
    assert composite_members(AVAILABLE, ["composite"]) == ("chain_sum", "mini_sudoku", "sudoku")


def test_unwanted_tasks_are_excluded_and_told() -> None:
    assert exclude_tasks(("a", "b", "c"), (), {"b", "x"}) == (("a", "c"), ("b",))


def test_unwanted_task_that_was_named_stays() -> None:
    assert exclude_tasks(("a", "b", "c"), ("b", "c"), {"b"}) == (("a", "b", "c"), ())


def test_fewer_tasks_are_gameable_under_strict_rewards() -> None:
    strict, plain = (gameable_tasks(strict_rewards=strict) for strict in (True, False))
    assert strict.keys() < plain.keys()
    assert plain["coin_flip"] == "0 is a prefix of every probability"


def test_gameable_tasks_are_tasks() -> None:
    assert gameable_tasks(strict_rewards=False).keys() <= KNOWN_TASKS
