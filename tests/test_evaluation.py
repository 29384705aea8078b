from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reasoning_env.errors import GenerationError, ScoringError, ServerError, WorkerError
from reasoning_env.evaluation import (
    EVAL_DRAWS,
    EVAL_FAILURES,
    EvalResult,
    EvaluationSet,
    Evaluator,
    choose_eval_tasks,
    question_key,
    sample_record,
    summarise,
)
from reasoning_env.records import DropReason, Problem, ProblemSpec, Prompt, Reason, Rollout, Split, Timeouts, Verdict
from reasoning_env.settings import ReasoningSettings
from tests.records import MESSAGES, SAMPLING, make_problem

TASKS = ("chain_sum", "coin_flip", "gcd")
FEW, MANY = "coin_flip", "chain_sum"
"""A task that has few questions, and one that has so many that they do not repeat."""


class Pool:
    """Makes any problem; `outcome` may raise, or give a problem a flaw. An answer's score is the number that it is."""

    def __init__(self, outcome: Callable[[ProblemSpec], str | None] = lambda spec: None) -> None:
        self._outcome = outcome
        self.specs: list[ProblemSpec] = []

    async def generate(self, spec: ProblemSpec, deadline_s: float) -> Problem:
        assert deadline_s == 60.0
        self.specs.append(spec)
        await asyncio.sleep(0)
        return Problem(spec, f"question {spec.seed}", "2", "{}", b"", flaw=self._outcome(spec))

    async def score(self, problem: Problem, answers: Sequence[str]) -> list[Verdict]:
        if "fault" in answers:
            raise ScoringError("the worker cannot score")
        return [Verdict(float(answer), Reason.SCORED, answer) for answer in answers]


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


async def test_parameters_reach_the_tasks_that_need_them() -> None:
    pool = Pool()
    await make_set(pool, params={"gcd": {"size": 3}}, samples_per_task=1).problems()
    assert [spec.params for spec in pool.specs] == [{}, {}, {"size": 3}]


def flawed(spec: ProblemSpec) -> str | None:
    return "no answer is right" if (spec.task, spec.index, spec.attempt) == ("gcd", 1, 0) else None


def failing(spec: ProblemSpec) -> str | None:
    return no_luck(spec) if flawed(spec) else None


@pytest.mark.parametrize("outcome", [flawed, failing])
async def test_sample_that_cannot_be_used_is_drawn_again_and_leaves_the_others_as_they_are(
    outcome: Callable[[ProblemSpec], str | None],
) -> None:
    problems, undisturbed = await build(Pool(outcome)), await build(Pool())
    assert (problems[7].spec.attempt, undisturbed[7].spec.attempt) == (1, 0)
    assert problems[7].spec.seed != undisturbed[7].spec.seed
    assert problems[:7] + problems[8:] == undisturbed[:7] + undisturbed[8:]


@pytest.mark.parametrize(("outcome", "draws"), [(no_luck, EVAL_FAILURES), (lambda spec: "flaw", EVAL_DRAWS)])
async def test_sample_that_stays_unusable_is_left_out_with_a_warning(
    outcome: Callable[[ProblemSpec], str | None], draws: int, caplog: pytest.LogCaptureFixture
) -> None:
    pool = Pool(lambda spec: outcome(spec) if spec.task == "gcd" else None)
    problems = await build(pool, samples_per_task=1)
    assert [problem.task for problem in problems] == ["chain_sum", "coin_flip"]
    assert [spec.attempt for spec in pool.specs if spec.task == "gcd"] == list(range(draws))
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


# ---------------------------------------------------------------------------- the run


class Inference:
    """Answers every prompt with its text, or raises what its text says."""

    async def complete(self, prompt: Prompt, n: int, *_: Any) -> list[Rollout]:
        assert n == 1
        await asyncio.sleep(0)
        if prompt.text == "gone":
            raise ServerError("no reply")
        return [Rollout(f"<answer>{prompt.text}</answer>", (1,), (1,), None, "stop")]


async def make_prompt(problem: Problem) -> Prompt:
    return Prompt((), problem.question, (0,) * (1000 if problem.question == "long" else 3))


class Evaluation:
    """An evaluator whose prompts are the problems' questions, and which problems it dropped."""

    def __init__(self, **settings: Any) -> None:
        self.dropped: list[tuple[DropReason, Problem]] = []
        self._evaluator = Evaluator(
            scorer=Pool(),
            completer=Inference(),
            make_prompt=make_prompt,
            sampling=SAMPLING,
            settings=ReasoningSettings(**settings),
            workers=2,
            timeouts=Timeouts(None, 1.0),
            note_dropped=lambda reason, problem, error: self.dropped.append((reason, problem)),
        )

    async def of(self, *questions: str) -> list[EvalResult]:
        problems = [make_problem("gcd", number, question) for number, question in enumerate(questions)]
        return await self._evaluator.run(problems)


@pytest.mark.parametrize(
    ("question", "dropped", "text"),
    [
        ("gone", DropReason.INFERENCE, ""),
        ("fault", DropReason.SCORING, "<answer>fault</answer>"),
        ("long", DropReason.PROMPT_TOO_LONG, ""),
    ],
)
async def test_problem_that_cannot_be_evaluated_has_no_score_and_is_counted(
    question: str, dropped: DropReason, text: str
) -> None:
    evaluation = Evaluation()
    first, second, third = await evaluation.of("1.0", question, "0.5")
    assert [first.verdict and first.verdict.score, second.verdict, third.verdict and third.verdict.score] == [
        1,
        None,
        0.5,
    ]
    assert (first.text, second.text) == ("<answer>1.0</answer>", text)
    assert (second.dropped, evaluation.dropped) == (dropped, [(dropped, second.problem)])


async def test_many_failures_in_a_row_end_the_run() -> None:
    with pytest.raises(ServerError, match="3 evaluation problems in a row failed"):
        await Evaluation(max_failed_groups_in_a_row=3).of("1.0", "gone", "fault", "gone", *["1.0"] * 50)


@pytest.mark.parametrize("questions", [("gone", "gone", "1.0", "1.0") * 5, ("long",) * 20])
async def test_failures_with_successes_between_and_long_prompts_do_not_end_the_run(questions: Sequence[str]) -> None:
    assert len(await Evaluation(max_failed_groups_in_a_row=3).of(*questions)) == 20


# ---------------------------------------------------------------------------- what is made of it


def result(task: str, score: float | None, dropped: DropReason | None = None) -> EvalResult:
    verdict = None if score is None else Verdict(score, Reason.SCORED, "2")
    return EvalResult(make_problem(task), "text", verdict, dropped)


def test_summary_holds_scores_overall_and_per_task_and_what_failed() -> None:
    results = [
        result("maze", 1.0),
        result("maze", 0.5),
        result("sudoku", 0.0),
        result("sudoku", None, DropReason.INFERENCE),
        result("chain_sum", None, DropReason.SCORING),
    ]
    assert summarise(results) == {
        "eval/mean_score": 0.5,
        "eval/share_correct": 1 / 3,
        "eval/problems": 5,
        "eval/failed": 2,
        "eval/maze/mean_score": 0.75,
        "eval/maze/share_correct": 0.5,
        "eval/sudoku/mean_score": 0.0,
        "eval/sudoku/share_correct": 0.0,
    }
    assert summarise(results[4:]) == {"eval/problems": 1, "eval/failed": 1}


def test_sample_tells_all_of_a_problem_and_gives_a_failed_one_a_reason_instead_of_a_score() -> None:
    sample = {
        "task": "maze",
        "seed": 7,
        "sample": 0,
        "messages": list(MESSAGES),
        "completion": "text",
        "answer": "2",
        "expected_answer": "2",
        "score": 0.5,
        "reason": "scored",
    }
    assert sample_record(result("maze", 0.5), MESSAGES) == sample
    failed = {"answer": None, "score": None, "reason": "inference_failed"}
    assert sample_record(result("maze", None, DropReason.INFERENCE), MESSAGES) == sample | failed
