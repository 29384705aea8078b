"""The declared number of different questions of each task."""

from __future__ import annotations

from reasoning_env.tasks import MANY_QUESTIONS, QUESTION_LEVELS, TASKS, find_task, question_count


def test_level_without_a_declared_question_count_gets_the_count_of_the_nearest_level() -> None:
    task = find_task("coin_flip")
    assert [question_count("coin_flip", level) for level in (None, *QUESTION_LEVELS)] == list(task.question_counts)
    assert question_count("coin_flip", 0.1) == task.question_counts[1]
    assert question_count("bf", 1.0) == float("inf")
    assert question_count("no such task", 0.5) == float("inf")


def test_each_declared_question_count_is_positive_and_below_the_limit() -> None:
    for name, task in TASKS.items():
        assert len(task.question_counts) <= 1 + len(QUESTION_LEVELS), name
        assert all(count is None or 0 < count < MANY_QUESTIONS for count in task.question_counts), name
        assert task.question_counts[0] is None or task.has_small_pool, name
