from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from unittest.mock import Mock

import pytest

from reasoning_env.errors import WorkerError
from reasoning_env.problems import MAX_AVOIDED
from reasoning_env.records import Problem, ProblemSpec
from reasoning_env.reports.contamination import BUDGET_S, TaskContamination, count_known, draw_positions, summary_line
from reasoning_env.settings import ReasoningSettings
from reasoning_env.tasks.sampling import TaskSampler
from tests.fake_workers import FakeWorkers, no_luck
from tests.records import problem_of

MAX_FAILURES = ReasoningSettings().quarantine_after_failures


async def _measure(
    ask: Callable[[ProblemSpec], str],
    evaluated: Sequence[str] = (),
    *,
    of_other_tasks: Sequence[str] = (),
    items: int = 10,
    generation_s: float = 0.001,
) -> tuple[TaskContamination, list[ProblemSpec]]:
    """Measure a task whose own problems in the evaluation set ask `evaluated`; returns what was drawn as well."""
    workers = FakeWorkers(lambda spec: problem_of(spec, ask(spec), generation_s=generation_s))

    async def asks(problem: Problem) -> bool:
        return problem.question in evaluated

    sampler = TaskSampler({"gcd": 1.0}, run_seed=42)
    spec = sampler.draw(0, 0)
    positions = await draw_positions(workers, sampler, asks, items=items)
    evaluation_set = [problem_of(spec, question) for question in evaluated]
    evaluation_set += [problem_of(replace(spec, task="lcm"), question) for question in of_other_tasks]
    return count_known("gcd", positions, evaluation_set), workers.specs


def _counts(one: TaskContamination) -> tuple[int, int, int, int]:
    return one.items, one.questions, one.drawn, one.served


async def test_an_evaluated_question_counts_as_drawn_and_is_drawn_again() -> None:
    one, specs = await _measure(lambda spec: "seen" if spec.index == 3 and spec.attempt < 2 else str(spec), ["seen"])
    assert _counts(one) == (10, 10, 1, 0)
    attempts = [(spec.index, spec.attempt) for spec in specs[:12]]
    assert attempts == [(0, 0), (1, 0), (2, 0), (3, 0), (3, 1), (3, 2), *((index, 0) for index in range(4, 10))]


async def test_a_question_counts_whichever_task_asks_it_in_the_evaluation() -> None:
    one, _ = await _measure(lambda spec: f"question {spec.index % 5}", ["question 9"], of_other_tasks=["question  1"])
    assert _counts(one) == (10, 5, 2, 2)
    assert one.evaluated == 1


async def test_a_task_that_asks_nothing_else_ends_as_contaminated() -> None:
    one, specs = await _measure(lambda spec: "seen", ["seen"])
    assert _counts(one) == (1, 1, 1, 0)
    assert len(specs) == MAX_FAILURES * MAX_AVOIDED


async def test_a_task_that_keeps_failing_is_left_with_the_items_it_has() -> None:
    one, specs = await _measure(lambda spec: str(no_luck(spec) if spec.index == 2 else spec))
    assert _counts(one) == (2, 2, 0, 0)
    assert len(specs) == 2 + MAX_FAILURES


async def test_a_slow_task_gets_as_many_items_as_fit_into_its_time() -> None:
    one, _ = await _measure(str, items=100, generation_s=BUDGET_S / 4)
    assert one.items == 4


async def test_lost_workers_end_the_measurement() -> None:
    with pytest.raises(WorkerError, match="no workers any more"):
        await _measure(Mock(side_effect=WorkerError("no workers any more")))


def test_conclusion_names_the_tasks_that_are_served_evaluated_questions() -> None:
    clean, drawn = TaskContamination("gcd", 5, 9, 9, 0, 0), TaskContamination("lcm", 5, 9, 9, 1, 0)
    line = summary_line([clean, drawn, TaskContamination("coin_flip", 5, 9, 3, 8, 2)])
    assert line.startswith("2 of 3 tasks") and line.endswith("coin_flip") and "lcm" not in line
