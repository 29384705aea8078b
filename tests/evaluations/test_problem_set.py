from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reasoning_env.errors import GenerationError, WorkerError
from reasoning_env.evaluations.problem_set import (
    EVAL_FAILURES,
    EvaluationSet,
    choose_eval_tasks,
    fingerprint,
    problem_key,
    question_key,
)
from reasoning_env.records import Problem, ProblemSpec, Split
from tests.records import make_problem

TASKS = ("chain_sum", "coin_flip", "gcd")
FEW, MANY = "coin_flip", "chain_sum"
"""A task that has few questions, and one that has so many that they do not repeat."""


class Pool:
    """Makes any problem; `outcome` may raise."""

    def __init__(self, outcome: Callable[[ProblemSpec], None] = lambda spec: None) -> None:
        self._outcome = outcome
        self.specs: list[ProblemSpec] = []

    async def generate(self, spec: ProblemSpec, deadline_s: float) -> Problem:
        assert deadline_s == 60.0
        self.specs.append(spec)
        await asyncio.sleep(0)
        self._outcome(spec)
        return Problem(spec, f"question {spec.seed}", "2", "{}", b"")


def make_set(pool: Pool, tasks: Sequence[str] = TASKS, params: Any = None, **changed: Any) -> EvaluationSet:
    options = {"samples_per_task": 3, "eval_seed": 123, "deadline_s": 60.0, **changed}
    return EvaluationSet(pool, tasks, params or {}, **options)


async def build(pool: Pool, tasks: Sequence[str] = TASKS, **changed: Any) -> list[Problem]:
    return await make_set(pool, tasks, **changed).problems()


def no_luck(spec: ProblemSpec) -> str | None:
    raise GenerationError("no luck")


# ---------------------------------------------------------------------------- the set


async def test_set_holds_the_wanted_number_of_samples_of_each_task_in_order() -> None:
    problems = await build(Pool())
    assert [(problem.task, problem.spec.index) for problem in problems] == [
        (task, number) for task in TASKS for number in range(3)
    ]
    assert {problem.spec.split for problem in problems} == {Split.EVAL}


async def test_problems_depend_on_seed_task_and_number_alone() -> None:
    problems = await build(Pool())
    assert await build(Pool(), ["gcd"], samples_per_task=2) == problems[6:8]
    others = await build(Pool(), eval_seed=124)
    assert not {problem.spec.seed for problem in others} & {problem.spec.seed for problem in problems}


async def test_parameters_reach_the_tasks_that_need_them_and_the_level_all() -> None:
    pool = Pool()
    await make_set(pool, params={"gcd": {"size": 3}}, samples_per_task=1, level=0.5).problems()
    assert [(spec.params, spec.level) for spec in pool.specs] == [({}, 0.5), ({}, 0.5), ({"size": 3}, 0.5)]


def fingerprint_of(problems: Sequence[Problem]) -> str:
    return fingerprint({(problem.task, problem.spec.index): problem_key(problem) for problem in problems})


async def test_fingerprint_is_that_of_the_problems_in_whatever_order_they_came() -> None:
    problems = await build(Pool())
    changed = [*problems[:-1], replace(problems[-1], answer="3")]
    assert len({fingerprint_of(some) for some in (problems, changed, problems[:-1])}) == 3
    assert fingerprint_of(problems) == fingerprint_of(problems[::-1])
    assert fingerprint_of([replace(problems[0], question="\ud800")])


async def test_problems_come_as_they_are_made_and_those_that_are_done_are_not_made() -> None:
    class StuckAtFirst(Pool):
        async def generate(self, spec: ProblemSpec, deadline_s: float) -> Problem:
            if (spec.task, spec.index) == ("chain_sum", 0):
                await asyncio.Event().wait()
            return await super().generate(spec, deadline_s)

    evaluation_set = make_set(pool := StuckAtFirst())
    stream = evaluation_set.stream(done={("gcd", 1)})
    come = [await anext(stream) for _ in range(7)]
    assert {(problem.task, problem.spec.index) for problem in come}.isdisjoint({("chain_sum", 0), ("gcd", 1)})
    assert len(pool.specs) == 7
    await evaluation_set.close()


async def test_sample_that_cannot_be_made_is_drawn_again_and_leaves_the_others_as_they_are() -> None:
    def failing(spec: ProblemSpec) -> None:
        if (spec.task, spec.index, spec.attempt) == ("gcd", 1, 0):
            no_luck(spec)

    problems, undisturbed = await build(Pool(failing)), await build(Pool())
    assert (problems[7].spec.attempt, undisturbed[7].spec.attempt) == (1, 0)
    assert problems[7].spec.seed != undisturbed[7].spec.seed
    assert problems[:7] + problems[8:] == undisturbed[:7] + undisturbed[8:]


async def test_sample_that_keeps_failing_is_left_out_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    pool = Pool(lambda spec: no_luck(spec) if spec.task == "gcd" else None)
    problems = await build(pool, samples_per_task=1)
    assert [problem.task for problem in problems] == ["chain_sum", "coin_flip"]
    assert [spec.attempt for spec in pool.specs if spec.task == "gcd"] == list(range(EVAL_FAILURES))
    assert caplog.records[-1].levelname == "WARNING"


async def test_error_ends_one_building_and_not_the_next() -> None:
    class Recovering(Pool):
        async def generate(self, spec: ProblemSpec, deadline_s: float) -> Problem:
            if not self.specs:
                self.specs.append(spec)
                raise WorkerError("no workers at the moment")
            return await super().generate(spec, deadline_s)

    evaluation_set = make_set(Recovering(), ["gcd"], samples_per_task=1)
    with pytest.raises(WorkerError):
        await evaluation_set.problems()
    assert len(await evaluation_set.problems()) == 1


async def test_cancelled_caller_does_not_take_the_set_from_others() -> None:
    evaluation_set = make_set(Pool(), ["gcd"])
    first, second = (asyncio.create_task(evaluation_set.problems()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert len(await second) == 3


@pytest.mark.parametrize(
    ("limit", "chosen"),
    [(-1, "abcdefghij"), (10, "abcdefghij"), (99, "abcdefghij"), (0, ""), (1, "a"), (2, "af"), (3, "adg")],
)
def test_chosen_tasks_are_spread_evenly(limit: int, chosen: str) -> None:
    assert choose_eval_tasks("abcdefghij", limit) == tuple(chosen)


# ---------------------------------------------------------------------------- what the set asks


@given(st.text(max_size=9), st.text(max_size=9))
@example("\ud800", "\udfff")
def test_key_of_a_question_leaves_whitespace_out_of_account(one: str, other: str) -> None:
    assert (question_key(one) == question_key(other)) == (one.split() == other.split())


@pytest.mark.parametrize(
    ("evaluated", "task", "source", "asked"),
    [
        ((FEW, MANY), FEW, None, True),
        ((FEW, MANY), MANY, None, False),
        ((MANY,), FEW, None, False),
        ((FEW, "composite"), "composite", FEW, True),
        (("composite",), FEW, None, True),
        ((FEW, "composite"), "composite", MANY, False),
    ],
    ids=["the same", "of too many", "of another task", "in a composite", "through a composite", "many in a composite"],
)
async def test_set_asks_a_question_of_its_own_where_questions_are_few(
    evaluated: tuple[str, ...], task: str, source: str | None, asked: bool
) -> None:
    evaluation_set = make_set(Pool(), evaluated)
    question = (await evaluation_set.problems())[0].question
    metadata = json.dumps({"source_dataset": source} if source else {})
    problem = replace(make_problem(task, question=f" {question}\n"), metadata_json=metadata)
    assert await evaluation_set.asks(problem) is asked
    assert not await evaluation_set.asks(replace(problem, question="another one"))
