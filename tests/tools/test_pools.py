"""The number of different questions, estimated from draws."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from reasoning_env.tasks import MANY_QUESTIONS, QUESTION_LEVELS, TASKS, find_task, question_count
from tools.pools import estimate, rounded


@pytest.mark.parametrize("size", [50, 1_000, 9_000])
def test_estimate_is_near(size: int) -> None:
    numbers = random.Random(1)
    counts = Counter(numbers.randrange(size) for _ in range(1_000))
    assert estimate(counts.values()) == pytest.approx(size, rel=0.25)


def test_rounded() -> None:
    assert [rounded(number) for number in (7.0, 68.4, 1_049.0, 1_251.0)] == [7, 68, 1_000, 1_300]


def test_questions_at_a_level() -> None:
    task = find_task("coin_flip")
    assert [question_count("coin_flip", level) for level in (None, *QUESTION_LEVELS)] == list(task.questions)
    assert question_count("coin_flip", 0.1) == task.questions[1]
    assert question_count("bf", 1.0) == float("inf")
    assert question_count("no such task", 0.5) == float("inf")


def test_counts_are_few() -> None:
    for name, task in TASKS.items():
        assert len(task.questions) <= 1 + len(QUESTION_LEVELS), name
        assert all(count is None or 0 < count < MANY_QUESTIONS for count in task.questions), name
        assert task.questions[0] is None or task.few_questions, name
