from __future__ import annotations

from collections.abc import Sequence

import pytest

from reasoning_env.errors import ScoringError
from reasoning_env.records import Problem, ProblemSpec, Reason, Rollout, Split, Verdict
from reasoning_env.rewards import score_rollouts, score_texts

PROBLEM = Problem(ProblemSpec("chain_sum", 1, Split.TRAIN, 0), "2 + 3?", "5", "{}", b"entry")


class AnswerScorer:
    """Gives each answer the score that it names, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Problem, list[str]]] = []

    async def score(self, problem: Problem, answers: Sequence[str]) -> list[Verdict]:
        self.asked.append((problem, list(answers)))
        return [Verdict(float(answer), Reason.SCORED, answer, 0.1) for answer in answers]


class BrokenScorer:
    async def score(self, problem: Problem, answers: Sequence[str]) -> list[Verdict]:
        raise ScoringError("the verifier worker cannot score")


def _rollout(text: str, length: int = 10) -> Rollout:
    return Rollout(text, tokens=(1,) * length, masks=(-100,) * length, logprobs=None, finish_reason="stop")


def _answer(score: float) -> str:
    return f"<answer>{score}</answer>"


async def test_only_answers_go_to_the_verifier() -> None:
    verifier = AnswerScorer()
    await score_texts(verifier, PROBLEM, [_answer(1.0), "none", "<answer></answer>", _answer(0.25)], 100)
    assert verifier.asked == [(PROBLEM, ["1.0", "0.25"])]


async def test_verdicts_stand_in_the_order_of_the_texts() -> None:
    texts = ["none", _answer(0.25), "<answer>open", _answer(1.0), "<answer></answer>", _answer(0.5) * 2]
    verdicts = await score_texts(AnswerScorer(), PROBLEM, texts, 100)
    assert [(verdict.score, verdict.reason) for verdict in verdicts] == [
        (0.0, Reason.NO_ANSWER),
        (0.25, Reason.SCORED),
        (0.0, Reason.UNCLOSED_ANSWER),
        (1.0, Reason.SCORED),
        (0.0, Reason.EMPTY_ANSWER),
        (0.0, Reason.SEVERAL_ANSWERS),
    ]


async def test_answer_over_the_limit_scores_nothing() -> None:
    [verdict] = await score_texts(AnswerScorer(), PROBLEM, [_answer(1.0)], 2)
    assert (verdict.score, verdict.reason, verdict.answer) == (0.0, Reason.TOO_LONG, None)


async def test_rollouts_get_their_verdicts_and_rewards() -> None:
    rollouts = [_rollout(_answer(0.25)), _rollout("none"), _rollout(_answer(1.0))]
    scored = await score_rollouts(AnswerScorer(), PROBLEM, rollouts, max_answer_bytes=100, max_tokens=1000)
    assert [rollout.score for rollout in scored] == [0.25, 0.0, 1.0]
    assert [rollout.verdict.answer if rollout.verdict else "" for rollout in scored] == ["0.25", None, "1.0"]
    assert [rollout.text for rollout in scored] == [rollout.text for rollout in rollouts]


async def test_length_penalty_changes_the_reward_and_leaves_the_verdict() -> None:
    rollouts = [_rollout(_answer(1.0), 100), _rollout(_answer(1.0), 875)]
    scored = await score_rollouts(AnswerScorer(), PROBLEM, rollouts, max_answer_bytes=100, max_tokens=1000)
    assert [rollout.score for rollout in scored] == [1.0, 0.5]
    assert [rollout.verdict.score if rollout.verdict else None for rollout in scored] == [1.0, 1.0]


async def test_rollout_without_an_answer_spares_the_group_the_penalty() -> None:
    rollouts = [_rollout(_answer(1.0), 1000), _rollout("none", 1000)]
    scored = await score_rollouts(AnswerScorer(), PROBLEM, rollouts, max_answer_bytes=100, max_tokens=1000)
    assert [rollout.score for rollout in scored] == [1.0, 0.0]


async def test_group_of_one_is_scored() -> None:
    [scored] = await score_rollouts(
        AnswerScorer(), PROBLEM, [_rollout(_answer(0.5))], max_answer_bytes=100, max_tokens=1000
    )
    assert scored.score == 0.5


async def test_fault_of_the_verifier_worker_is_not_a_score() -> None:
    with pytest.raises(ScoringError):
        await score_rollouts(BrokenScorer(), PROBLEM, [_rollout(_answer(1.0))], max_answer_bytes=100, max_tokens=1000)
