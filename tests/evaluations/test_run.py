from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any
from unittest.mock import Mock

import pytest

from reasoning_env.errors import RefusedError, ScoringError, ServerError, WorkerError
from reasoning_env.evaluations.run import EvaluatedProblem, Evaluator
from reasoning_env.prompts.thinking import TAGS
from reasoning_env.records import DropReason, Problem, Prompt, Reason, Rollout, Timeouts, Verdict
from reasoning_env.session import Session
from reasoning_env.settings import ReasoningSettings
from tests.records import MESSAGES, SAMPLING, make_problem

RAISED = {"gone": ServerError, "refused": RefusedError}


class Scorer:
    """Scores an answer as the number that it is, and plainly as 1 less that."""

    async def score(self, problem: Problem, answers: Sequence[str], *, plainly: bool = False) -> list[Verdict]:
        if "fault" in answers:
            raise ScoringError("the worker cannot score")
        if "no workers" in answers:
            raise WorkerError("no verifier can be started")
        scores = [1.0 - float(answer) if plainly else float(answer) for answer in answers]
        return [Verdict(score, Reason.SCORED, answer) for score, answer in zip(scores, answers, strict=True)]


class Inference:
    """Answers every prompt with its text, or raises what its text says."""

    async def complete(self, prompt: Prompt, n: int, *_: Any) -> list[Rollout]:
        await asyncio.sleep(0)
        if prompt.text in RAISED:
            raise RAISED[prompt.text]("no reply")
        text = prompt.text if prompt.text.startswith("<") else f"<answer>{prompt.text}</answer>"
        return [Rollout(text, (1, 2), (-100, 2), None, "stop")] * n


def make_prompt(problem: Problem) -> Prompt:
    return Prompt(MESSAGES, problem.question, (0,) * (1000 if problem.question == "long" else 3))


async def evaluate(
    *questions: str,
    note_dropped: Callable[..., None] = lambda *_: None,
    repeats: int = 1,
    library_scores: bool = False,
    **settings: Any,
) -> list[EvaluatedProblem]:
    """Evaluate problems whose prompts are these questions, and return the results in their order."""
    pool: Any = Scorer()
    session = Session(ReasoningSettings(**settings), pool=pool)
    evaluator = Evaluator(
        judge=session.judge,
        plain_scorer=pool if library_scores else None,
        completer=Inference(),
        make_prompt=make_prompt,
        sampling=SAMPLING,
        settings=session.settings,
        thinking=TAGS,
        repeats=repeats,
        workers=2,
        timeouts=Timeouts(None, 1.0),
        note_dropped=note_dropped,
    )
    results: list[EvaluatedProblem] = []

    async def problems() -> AsyncIterator[Problem]:
        for number, question in enumerate(questions):
            yield make_problem("gcd", number, question)

    async def take(result: EvaluatedProblem) -> None:
        results.append(result)

    await evaluator.run(problems(), take)
    return sorted(results, key=lambda result: result.group.problem.spec.index)


async def test_repeats() -> None:
    first, second = await evaluate("1.0", "0.5", repeats=3)
    assert (first.group.scores, second.group.scores) == ((1.0,) * 3, (0.5,) * 3)
    assert (first.library_scores, first.failed, first.dropped) == (None, 0, None)


async def test_library_scores_the_last_answer() -> None:
    thinking = "<think><answer>0.25</answer></think>"
    texts = (f"{thinking}<answer>1</answer>", f"<answer>1</answer>{thinking}", "<answer>1")
    results = await evaluate(*texts, library_scores=True)
    assert [list(result.library_scores or ()) for result in results] == [[0.0], [0.75], [0.0]]
    assert [result.group.scores for result in results] == [(1.0,), (1.0,), (0.0,)]


@pytest.mark.parametrize(
    ("question", "dropped"),
    [
        ("gone", DropReason.INFERENCE),
        ("fault", DropReason.SCORING),
        ("no workers", DropReason.SCORING),
        ("long", DropReason.PROMPT_TOO_LONG),
    ],
)
async def test_dropped_problem_has_no_score(question: str, dropped: DropReason) -> None:
    note_dropped = Mock()
    first, second, third = await evaluate("1.0", question, "0.5", note_dropped=note_dropped, repeats=2)
    assert [first.group.scores, second.group.scores, third.group.scores] == [(1.0, 1.0), (), (0.5, 0.5)]
    assert (second.failed, second.dropped) == (2, dropped)
    [noted] = note_dropped.call_args_list
    assert noted.args[:2] == (second.group.problem, dropped)


async def test_failures_in_a_row_end_the_run() -> None:
    with pytest.raises(ServerError, match=r"\b3\b"):
        await evaluate("1.0", *["gone", "fault"] * 3, *["1.0"] * 50, max_failed_groups_in_a_row=3)


async def test_hopeless_failure_ends_the_run() -> None:
    note_dropped = Mock()
    with pytest.raises(RefusedError):
        await evaluate("1.0", "refused", *["1.0"] * 50, note_dropped=note_dropped)
    note_dropped.assert_not_called()


@pytest.mark.parametrize("questions", [("gone", "gone", "1.0", "1.0") * 5, ("long",) * 20])
async def test_harmless_failures(questions: Sequence[str]) -> None:
    assert len(await evaluate(*questions, max_failed_groups_in_a_row=3)) == 20


async def test_line_of_samples() -> None:
    (result,) = await evaluate("1.0", library_scores=True)
    line = json.loads(result.line())
    assert (line["item_id"], line["index"], line["failed"], line["dropped"]) == ("gcd", 0, 0, None)
    (rollout,) = line["rollouts"]
    assert rollout["conversation"] == [*MESSAGES, {"role": "assistant", "content": "<answer>1.0</answer>"}]
    assert (rollout["score"], rollout["library_score"], rollout["correct"], rollout["tokens"]) == (1.0, 0.0, True, 1)
    assert rollout["seconds"] >= 0
