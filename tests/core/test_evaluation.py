from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasoning_env.atropos.inference import InferenceClient
from reasoning_env.errors import GenerationError, ScoringError, ServerError, WorkerError
from reasoning_env.evaluation import (
    EVAL_ATTEMPTS,
    EVAL_DRAWS,
    EvalResult,
    EvaluationSet,
    Evaluator,
    choose_eval_tasks,
    question_key,
    sample_record,
    summarise,
)
from reasoning_env.records import (
    DropReason,
    Problem,
    ProblemSpec,
    Prompt,
    Reason,
    Rollout,
    Sampling,
    Split,
    Timeouts,
    Verdict,
)
from reasoning_env.settings import ReasoningSettings
from reasoning_env.workers.pool import WorkerPool

from .records import MESSAGES, make_problem

TASKS = ("chain_sum", "maze", "sudoku")


class Pool:
    """Makes any problem, but for specs that `fails` picks out, some with a flaw; an answer's score is what it names."""

    def __init__(
        self,
        fails: Callable[[ProblemSpec], bool] = lambda spec: False,
        flawed: Callable[[ProblemSpec], bool] = lambda spec: False,
    ) -> None:
        self._fails = fails
        self._flawed = flawed
        self.specs: list[ProblemSpec] = []
        self.deadlines: set[float] = set()

    async def generate(self, spec: ProblemSpec, deadline_s: float) -> Problem:
        self.specs.append(spec)
        self.deadlines.add(deadline_s)
        await asyncio.sleep(0)
        if self._fails(spec):
            raise GenerationError(f"{spec.task}: no luck")
        flaw = "contradicts itself" if self._flawed(spec) else None
        return Problem(spec, f"question {spec.seed}", "2", "{}", b"", flaw=flaw)

    async def score(self, problem: Problem, answers: Sequence[str]) -> list[Verdict]:
        if "fault" in answers:
            raise ScoringError("the verifier worker cannot score")
        return [Verdict(float(answer), Reason.SCORED, answer) for answer in answers]


async def _build(pool: Pool, tasks: Sequence[str] = TASKS, **changed: Any) -> list[Problem]:
    options = {"samples_per_task": 3, "eval_seed": 123, "deadline_s": 60.0, **changed}
    return await EvaluationSet(cast(WorkerPool, pool), tasks, {}, **options).problems()


# ------------------------------------------------------------------ the set


async def test_set_is_the_same_for_the_same_seed() -> None:
    assert await _build(Pool()) == await _build(Pool())


async def test_set_differs_for_another_seed() -> None:
    first, second = await _build(Pool()), await _build(Pool(), eval_seed=124)
    assert not {problem.spec.seed for problem in first} & {problem.spec.seed for problem in second}


async def test_set_holds_the_wanted_number_of_samples_of_each_task_in_order() -> None:
    problems = await _build(Pool())
    assert [(problem.task, problem.spec.index) for problem in problems] == [
        (task, number) for task in TASKS for number in range(3)
    ]
    assert {problem.spec.split for problem in problems} == {Split.EVAL}


async def test_problems_of_a_task_do_not_depend_on_the_other_tasks() -> None:
    alone = await _build(Pool(), ["maze"])
    assert alone == [problem for problem in await _build(Pool()) if problem.task == "maze"]


async def test_problems_do_not_depend_on_how_many_there_are() -> None:
    few, many = await _build(Pool(), ["maze"], samples_per_task=2), await _build(Pool(), ["maze"], samples_per_task=5)
    assert many[:2] == few


async def test_parameters_reach_the_tasks_that_need_them() -> None:
    pool = Pool()
    params = {"maze": {"size": 3}}
    await EvaluationSet(
        cast(WorkerPool, pool), TASKS, params, samples_per_task=1, eval_seed=1, deadline_s=7.0
    ).problems()
    assert [spec.params for spec in pool.specs] == [{}, {"size": 3}, {}]
    assert pool.deadlines == {7.0}


async def test_sample_that_fails_is_drawn_again_and_leaves_the_others_as_they_are(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pool = Pool(lambda spec: (spec.task, spec.index, spec.attempt) == ("maze", 1, 0))
    problems, undisturbed = await _build(pool), await _build(Pool())
    assert problems[4].spec.attempt == 1
    assert problems[4].spec.seed != undisturbed[4].spec.seed
    assert problems[:4] + problems[5:] == undisturbed[:4] + undisturbed[5:]
    assert caplog.messages == ["evaluation sample 1 of maze is drawn again: maze: no luck"]


async def test_sample_that_keeps_failing_is_left_out_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    pool = Pool(lambda spec: spec.task == "maze")
    problems = await _build(pool, samples_per_task=1)
    assert [problem.task for problem in problems] == ["chain_sum", "sudoku"]
    assert [spec.attempt for spec in pool.specs if spec.task == "maze"] == list(range(EVAL_ATTEMPTS))
    assert caplog.messages[-1] == f"evaluation sample 0 of maze is left out after {EVAL_ATTEMPTS} draws"


async def test_flawed_sample_is_drawn_again_and_leaves_the_others_as_they_are() -> None:
    undisturbed = await _build(Pool(), samples_per_task=20)
    problems = await _build(Pool(flawed=lambda spec: spec.seed % 2 == 1), samples_per_task=20)
    assert [problem.flaw for problem in problems] == [None] * 60
    assert [(problem.task, problem.spec.index) for problem in problems] == [
        (problem.task, problem.spec.index) for problem in undisturbed
    ]
    even = [problem for problem in undisturbed if problem.spec.seed % 2 == 0]
    assert len(even) > 10
    assert [problem for problem in problems if problem in undisturbed] == even


async def test_sample_that_stays_flawed_is_left_out() -> None:
    pool = Pool(flawed=lambda spec: spec.task == "maze")
    assert [problem.task for problem in await _build(pool, samples_per_task=1)] == ["chain_sum", "sudoku"]
    assert sum(spec.task == "maze" for spec in pool.specs) == EVAL_DRAWS


async def test_flaws_of_a_sample_do_not_count_as_its_failures() -> None:
    pool = Pool(lambda spec: spec.attempt in (20, 30), lambda spec: spec.attempt < 40)
    assert [problem.spec.attempt for problem in await _build(pool, samples_per_task=1)] == [40] * 3


@pytest.mark.parametrize(
    ("limit", "chosen"),
    [
        (-1, "abcdefghij"),
        (10, "abcdefghij"),
        (99, "abcdefghij"),
        (0, ""),
        (1, "a"),
        (2, "af"),
        (3, "adg"),
        (9, "abcdefghi"),
    ],
)
def test_chosen_tasks_are_spread_evenly(limit: int, chosen: str) -> None:
    assert choose_eval_tasks("abcdefghij", limit) == tuple(chosen)


# ------------------------------------------------------------------ the run


class Inference:
    """Answers every prompt with its text, or raises what its text says."""

    def __init__(self) -> None:
        self.under_way = 0
        self.most_under_way = 0

    async def complete(self, prompt: Prompt, n: int, sampling: Sampling, timeouts: Timeouts) -> list[Rollout]:
        assert n == 1
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        if prompt.text == "gone":
            raise ServerError("no reply")
        return [Rollout(f"<answer>{prompt.text}</answer>", (1,), (1,), None, "stop")]


async def _make_prompt(problem: Problem) -> Prompt:
    return Prompt((), problem.question, (0,) * (1000 if problem.question == "long" else 3))


class Run:
    """An evaluator whose prompts are the problems' questions, and what it told of losses."""

    def __init__(self, **settings: Any) -> None:
        self.dropped: list[tuple[DropReason, Problem, Exception]] = []
        self.inference = Inference()
        self.evaluator = Evaluator(
            scorer=cast(WorkerPool, Pool()),
            completer=cast(InferenceClient, self.inference),
            make_prompt=_make_prompt,
            sampling=Sampling(0.6, 0.95, token_limit=500, split="eval"),
            settings=ReasoningSettings(**settings),
            workers=2,
            timeouts=Timeouts(None, 1.0),
            note_dropped=lambda dropped, problem, error: self.dropped.append((dropped, problem, error)),
        )

    async def of(self, *questions: str) -> list[EvalResult]:
        problems = [
            Problem(ProblemSpec("maze", number, Split.EVAL, number), question, "2", "{}", b"")
            for number, question in enumerate(questions)
        ]
        return await self.evaluator.run(problems)


async def test_results_are_in_the_order_of_the_problems() -> None:
    results = await Run().of("1.0", "0.25", "0.5")
    assert [result.problem.spec.index for result in results] == [0, 1, 2]
    assert [result.verdict.score if result.verdict else None for result in results] == [1.0, 0.25, 0.5]
    assert [result.text for result in results] == [f"<answer>{score}</answer>" for score in ("1.0", "0.25", "0.5")]


async def test_no_more_problems_than_workers_are_under_way() -> None:
    run = Run()
    await run.of(*["1.0"] * 20)
    assert run.inference.most_under_way == 2


@pytest.mark.parametrize(
    ("question", "dropped", "text"),
    [
        ("gone", DropReason.INFERENCE, ""),
        ("fault", DropReason.SCORING, "<answer>fault</answer>"),
        ("long", DropReason.PROMPT_TOO_LONG, ""),
    ],
)
async def test_problem_that_cannot_be_evaluated_has_no_score_and_is_told(
    question: str, dropped: DropReason, text: str
) -> None:
    run = Run()
    results = await run.of("1.0", question, "0.5")
    assert [result.dropped for result in results] == [None, dropped, None]
    assert (results[1].verdict, results[1].text) == (None, text)
    assert [(told, problem) for told, problem, _ in run.dropped] == [(dropped, results[1].problem)]


async def test_many_failures_in_a_row_end_the_run() -> None:
    with pytest.raises(ServerError, match="3 evaluation problems in a row failed"):
        await Run(max_failed_groups_in_a_row=3).of(*["1.0", "gone", "fault", "gone", *["1.0"] * 50])


async def test_failures_with_successes_between_do_not_end_the_run() -> None:
    results = await Run(max_failed_groups_in_a_row=3).of(*["gone", "gone", "1.0", "1.0"] * 5)
    assert sum(result.dropped is DropReason.INFERENCE for result in results) == 10


async def test_prompts_that_are_too_long_do_not_end_the_run() -> None:
    results = await Run(max_failed_groups_in_a_row=1).of(*["long"] * 10)
    assert [result.dropped for result in results] == [DropReason.PROMPT_TOO_LONG] * 10


# ------------------------------------------------------------------ what is made of it


def _result(task: str, score: float | None, dropped: DropReason | None = None) -> EvalResult:
    verdict = None if score is None else Verdict(score, Reason.SCORED, "2")
    return EvalResult(make_problem(task), "text", verdict, dropped)


def test_summary_holds_scores_overall_and_per_task_and_what_failed() -> None:
    results = [
        _result("maze", 1.0),
        _result("maze", 0.5),
        _result("sudoku", 0.0),
        _result("sudoku", None, DropReason.INFERENCE),
        _result("chain_sum", None, DropReason.SCORING),
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


def test_summary_of_failures_alone_has_no_score() -> None:
    assert summarise([_result("maze", None, DropReason.INFERENCE)]) == {"eval/problems": 1, "eval/failed": 1}


def test_sample_of_a_scored_problem_tells_all_of_it() -> None:
    assert sample_record(_result("maze", 0.5), MESSAGES) == {
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


def test_sample_of_a_failed_problem_has_no_score_but_a_reason() -> None:
    record = sample_record(_result("maze", None, DropReason.INFERENCE), MESSAGES)
    assert (record["score"], record["answer"], record["reason"]) == (None, None, "inference_failed")


async def test_loss_of_all_workers_ends_the_building_of_the_set() -> None:
    class Gone(Pool):
        async def generate(self, spec: ProblemSpec, deadline_s: float) -> Problem:
            raise WorkerError("no workers any more")

    with pytest.raises(WorkerError):
        await _build(Gone())


# ------------------------------------------------------------------ when two problems ask the same


@given(st.lists(st.text(min_size=1).filter(lambda word: not any(map(str.isspace, word))), min_size=1))
def test_white_space_does_not_change_the_key(words: list[str]) -> None:
    assert question_key(" ".join(words)) == question_key("\n" + " \t".join(words) + "  \n")


@given(st.text(), st.text())
def test_different_words_have_different_keys(one: str, other: str) -> None:
    assert (question_key(one) == question_key(other)) == (one.split() == other.split())


def test_a_key_is_there_for_text_that_is_no_unicode() -> None:
    assert question_key("\ud800") != question_key("\udfff")
