"""Conditional policies: a split is found where a count decides, and earns no more than chance where none does."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from reasoning_env.reports.splits import ENOUGH, pay_best_split


def _questions(count: int) -> list[str]:
    draws = random.Random(7)
    return [" ".join(draws.choices(["0", "1", "12", "#", "X", "not\n"], k=draws.randint(5, 30))) for _ in range(count)]


@pytest.mark.parametrize(
    "decide",
    [
        lambda question: len(question) > 40,
        lambda question: question.count("#") > 2,
        lambda question: question.split()[0] == "12",
        lambda question: "# #" in question or "X X" in question or "1 1" in question or "0 0" in question,
    ],
)
def test_count_that_decides_is_found(decide: Callable[[str], bool]) -> None:
    questions = _questions(160)
    earned = pay_best_split(questions, [str(decide(question)) for question in questions])
    assert sum(earned) > 0.8 * len(earned)


def test_split_earns_no_more_than_chance_where_nothing_decides() -> None:
    draws = random.Random(5)
    earned = pay_best_split(_questions(160), draws.choices("ab", k=160))
    assert 0.35 * len(earned) < sum(earned) < 0.65 * len(earned)


def test_few_problems_show_how_often_the_two_most_frequent_answers_come_again() -> None:
    assert ENOUGH > 6
    assert pay_best_split(["Which?"] * 6, ["a", "b", "a", "c", "b", "a"]) == [0.0, 0.0, 1.0, 0.0, 1.0, 1.0]
