from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasoning_env.errors import ClosedError, WorkerError
from reasoning_env.evaluations.run import set_fingerprint
from reasoning_env.problems.evaluation_set import EvaluationSet, evaluation_spec
from reasoning_env.problems.giving_up import MAX_FAILURES
from reasoning_env.records import Problem, ProblemSpec, Split
from tests.fake_workers import FakeWorkers, fails_where
from tests.records import make_problem, problem_of

TASKS = ("chain_sum", "coin_flip", "gcd")
FEW, MANY = "coin_flip", "chain_sum"
"""A task with few questions, and a task whose questions practically never repeat."""


def question_of(spec: ProblemSpec) -> Problem:
    return problem_of(spec, f"question {spec.seed}")


def make_set(workers: Any, tasks: Sequence[str] = TASKS, params: Any = None, **changed: Any) -> EvaluationSet:
    options = {"samples_per_task": 3, "eval_seed": 123, "deadline_s": 60.0, **changed}
    return EvaluationSet(workers, tasks, params or {}, **options)


async def build(
    make: Callable[[ProblemSpec], Problem] = question_of, tasks: Sequence[str] = TASKS, **changed: Any
) -> list[Problem]:
    return await make_set(FakeWorkers(make), tasks, **changed).problems()


# ---------------------------------------------------------------------------- the set


async def test_evaluation_problems_are_ordered_by_task() -> None:
    problems = await build()
    assert [(problem.task, problem.spec.index) for problem in problems] == [
        (task, number) for task in TASKS for number in range(3)
    ]
    assert {problem.spec.split for problem in problems} == {Split.EVAL}


async def test_eval_seed_and_task_determine_the_evaluation_problems() -> None:
    problems = await build()
    assert await build(tasks=["gcd"], samples_per_task=2) == problems[6:8]
    others = await build(eval_seed=124)
    assert not {problem.spec.seed for problem in others} & {problem.spec.seed for problem in problems}


async def test_evaluation_problems_have_the_configured_level_and_task_params() -> None:
    workers = FakeWorkers()
    await make_set(workers, params={"gcd": {"size": 3}}, samples_per_task=1, level=0.5).problems()
    assert [(spec.params, spec.level) for spec in workers.specs] == [({}, 0.5), ({}, 0.5), ({"size": 3}, 0.5)]


def fingerprint_of(problems: Sequence[Problem]) -> str:
    return set_fingerprint(problem.reference for problem in problems)


async def test_fingerprint_differs_between_evaluation_sets() -> None:
    problems = await build()
    other = [*problems[:-1], problem_of(problems[-1].spec, "another question")]
    assert len({fingerprint_of(some) for some in (problems, other, problems[:-1])}) == 3


async def test_fingerprint_ignores_the_order_of_tasks() -> None:
    problems = await build()
    assert fingerprint_of(problems) == fingerprint_of(problems[::-1])


async def test_evaluation_stream_skips_problems_that_are_already_finished() -> None:
    class StuckAtFirst(FakeWorkers):
        async def generate(self, spec: ProblemSpec, deadline_s: float) -> Problem:
            if (spec.task, spec.index) == ("survo", 0):
                await asyncio.Event().wait()
            return await super().generate(spec, deadline_s)

    evaluation_set = make_set(workers := StuckAtFirst(), ("count_bits", "sudoku", "survo"))
    stream = evaluation_set.stream(done={("sudoku", 1)})
    come = [await anext(stream) for _ in range(7)]
    assert {(problem.task, problem.spec.index) for problem in come}.isdisjoint({("survo", 0), ("sudoku", 1)})
    assert len(workers.specs) == 7
    await evaluation_set.close()


async def test_evaluation_problem_gets_another_seed_if_it_cannot_be_generated() -> None:
    failing = fails_where(lambda spec: (spec.task, spec.index, spec.attempt) == ("gcd", 1, 0), question_of)
    problems, undisturbed = await build(failing), await build()
    assert (problems[7].spec.attempt, undisturbed[7].spec.attempt) == (1, 0)
    assert problems[7].spec.seed != undisturbed[7].spec.seed
    assert problems[:7] + problems[8:] == undisturbed[:7] + undisturbed[8:]


async def test_evaluation_problem_whose_generation_always_fails_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    workers = FakeWorkers(fails_where(lambda spec: spec.task == "gcd"))
    problems = await make_set(workers, samples_per_task=1).problems()
    assert [problem.task for problem in problems] == ["chain_sum", "coin_flip"]
    assert [spec.attempt for spec in workers.specs if spec.task == "gcd"] == list(range(MAX_FAILURES))
    assert caplog.records[-1].levelname == "WARNING"


async def test_evaluation_problem_is_generated_again_after_an_error() -> None:
    workers = FakeWorkers(Mock(side_effect=[ClosedError("closed"), make_problem("gcd")]))
    evaluation_set = make_set(workers, ["gcd"], samples_per_task=1)
    with pytest.raises(ClosedError):
        await evaluation_set.problems()
    assert len(await evaluation_set.problems()) == 1


async def test_evaluation_problem_stays_the_same_if_a_worker_is_killed() -> None:
    workers = FakeWorkers(Mock(side_effect=[WorkerError("killed by another process"), make_problem("gcd")]))
    assert len(await make_set(workers, ["gcd"], samples_per_task=1).problems()) == 1
    assert [spec.attempt for spec in workers.specs] == [0, 0]


async def test_evaluation_set_is_still_generated_if_one_caller_is_cancelled() -> None:
    evaluation_set = make_set(FakeWorkers(), ["gcd"])
    first, second = (asyncio.create_task(evaluation_set.problems()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert len(await second) == 3


# ---------------------------------------------------------------------------- repeated questions


def one_of(questions: int) -> Callable[[ProblemSpec], Problem]:
    return lambda spec: problem_of(spec, f"question {spec.seed % questions}")


async def test_evaluation_questions_do_not_repeat() -> None:
    problems = await build(one_of(12), [FEW], samples_per_task=9)
    assert [problem.spec.index for problem in problems] == list(range(9))
    assert len({problem.question for problem in problems}) == 9


async def test_larger_evaluation_set_begins_with_the_questions_of_a_smaller_set() -> None:
    few = await build(one_of(12), [FEW], samples_per_task=4)
    assert few == (await build(one_of(12), [FEW], samples_per_task=9))[:4]


async def test_evaluation_set_repeats_no_question_after_an_interruption() -> None:
    whole = await build(one_of(12), [FEW], samples_per_task=9)
    resumed = make_set(FakeWorkers(one_of(12)), [FEW], samples_per_task=9)
    done = {(FEW, number) for number in range(5)}
    rest = [problem async for problem in resumed.stream(done=done)]
    assert sorted(rest, key=lambda problem: problem.spec.index) == whole[5:]


async def test_task_with_few_questions_gives_fewer_problems_than_requested(caplog: pytest.LogCaptureFixture) -> None:
    problems = await build(one_of(5), [FEW], samples_per_task=9)
    assert len({problem.question for problem in problems}) == len(problems) == 5
    assert [record.getMessage() for record in caplog.records] == [
        f"the evaluation set has 5 problems of {FEW} instead of 9: the task has no other questions"
    ]


async def test_evaluation_questions_differ_even_at_a_level_with_few_questions() -> None:
    problems = await build(one_of(12), [VAST], samples_per_task=9, level=0.0)
    assert len({problem.question for problem in problems}) == 9


async def test_cancelled_generation_keeps_finished_problems() -> None:
    evaluation_set = make_set(FakeWorkers(), [FEW])
    stream = evaluation_set.stream()
    generation = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    generation.cancel()
    assert len(await evaluation_set.problems()) == 3


# ---------------------------------------------------------------------------- what the set asks


@pytest.mark.parametrize(
    ("evaluated", "other", "asked"),
    [("a b", " a\n\tb ", True), ("", " \r\n", True), ("a b", "ab", False), ("\ud800", "\udfff", False)],
)
async def test_evaluation_question_is_recognized_despite_different_whitespace(
    evaluated: str, other: str, asked: bool
) -> None:
    evaluation_set = make_set(FakeWorkers(lambda spec: problem_of(spec, evaluated)), [FEW])
    assert await evaluation_set.has_question(make_problem(FEW, question=other)) is asked


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
    ids=["small task", "large task", "unevaluated task", "member of composite", "composite alone", "large member"],
)
async def test_evaluation_questions_are_held_out_only_for_tasks_with_few_questions(
    evaluated: tuple[str, ...], task: str, source: str | None, asked: bool
) -> None:
    evaluation_set = make_set(FakeWorkers(question_of), evaluated)
    question = (await evaluation_set.problems())[0].question
    metadata = json.dumps({"source_dataset": source} if source else {})
    problem = replace(make_problem(task, question=f" {question}\n"), metadata_json=metadata)
    assert await evaluation_set.has_question(problem) is asked
    assert not await evaluation_set.has_question(replace(problem, question="another one"))


async def test_evaluation_questions_of_tasks_with_task_params_are_held_out_of_training() -> None:
    evaluation_set = make_set(FakeWorkers(question_of), [MANY], params={MANY: {"max_terms": 2}})
    question = (await evaluation_set.problems())[0].question
    assert await evaluation_set.has_question(make_problem(MANY, question=question))


VAST = "count_bits"
"""A task with so many questions that no evaluation set repeats one."""


async def test_no_question_is_held_out_of_training_if_the_task_never_repeats_a_question() -> None:
    workers = FakeWorkers(question_of)
    assert not await make_set(workers, [VAST]).has_question(make_problem(VAST, question="question 1"))
    assert workers.specs == []


async def test_questions_of_a_large_task_with_task_params_are_held_out() -> None:
    evaluation_set = make_set(FakeWorkers(question_of), [VAST], params={VAST: {"max_n": 9}})
    question = (await evaluation_set.problems())[0].question
    assert await evaluation_set.has_question(make_problem(VAST, question=question))


async def test_evaluation_set_returns_only_unfinished_problems_after_an_interruption() -> None:
    """Finished problems are generated again, because later problems must not repeat their questions."""
    workers = FakeWorkers()
    problems = EvaluationSet(workers, ["gcd"], {}, samples_per_task=300, eval_seed=1, deadline_s=1.0)
    done = {("gcd", number) for number in range(250)}
    found = [problem.spec.index async for problem in problems.stream(done=done)]
    assert sorted(found) == [*range(250, 300)]
    assert sorted(spec.index for spec in workers.specs) == [*range(300)]


async def test_second_evaluation_problem_with_an_equal_question_is_replaced() -> None:
    """The set does not depend on which problem is generated first."""
    late = asyncio.Event()

    class FirstIsLate(FakeWorkers):
        async def generate(self, spec: ProblemSpec, deadline_s: float, *, cpu_s: float | None = None) -> Problem:
            if spec.index == 0:
                await late.wait()
            return await super().generate(spec, deadline_s)

    workers = FirstIsLate(lambda spec: problem_of(spec, "the same" if spec.attempt == 0 else f"another {spec.index}"))
    problems = EvaluationSet(workers, ["gcd"], {}, samples_per_task=2, eval_seed=1, deadline_s=1.0)
    generating = asyncio.create_task(problems.problems())
    for _ in range(20):
        await asyncio.sleep(0)
    late.set()
    assert [problem.question for problem in await generating] == ["the same", "another 1"]


@given(st.sampled_from(TASKS), st.integers(0, 1000), st.integers(0, 2), st.integers(0, 2**63 - 1))
def test_evaluation_problem_gets_the_evaluation_split_and_an_evaluation_seed(
    task: str, sample: int, attempt: int, run_seed: int
) -> None:
    spec = evaluation_spec(task, sample, attempt, run_seed=run_seed)
    assert (spec.task, spec.index, spec.attempt, spec.split, spec.params) == (task, sample, attempt, Split.EVAL, {})
    assert spec.seed >= 2**31


def test_seed_of_an_evaluation_problem_does_not_depend_on_params() -> None:
    plain, with_params = (evaluation_spec("maze", 3, 0, run_seed=1, params=params) for params in (None, {"a": 1}))
    assert with_params.seed == plain.seed
