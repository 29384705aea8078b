"""Scores the rollouts of a group: extraction here, verifiers in a judge, the length penalty last."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from ..records import Problem, Reason, Rollout, Verdict
from .extraction import Extraction, extract_answer
from .shaping import apply_length_penalty

LONG_TEXTS = 100_000
"""Characters of a group's completions from which they are searched in a thread; below, that would only cost time."""


class Judge(Protocol):
    """The part of the worker pool that scoring uses."""

    async def score(self, problem: Problem, answers: Sequence[str]) -> list[Verdict]: ...


async def judge_texts(judge: Judge, problem: Problem, texts: Sequence[str], max_answer_bytes: int) -> list[Verdict]:
    """One verdict for each completion, in order. Raises ScoringError and WorkerError as the judge does."""
    if sum(map(len, texts)) > LONG_TEXTS:
        extractions = await asyncio.to_thread(_extract_all, texts, max_answer_bytes)
    else:
        extractions = _extract_all(texts, max_answer_bytes)
    answers = [extraction.answer for extraction in extractions if extraction.answer is not None]
    scored = iter(await judge.score(problem, answers))
    return [
        next(scored) if extraction.answer is not None else Verdict(0.0, extraction.reason or Reason.NO_ANSWER)
        for extraction in extractions
    ]


def _extract_all(texts: Sequence[str], max_answer_bytes: int) -> list[Extraction]:
    return [extract_answer(text, max_answer_bytes) for text in texts]


async def score_rollouts(
    judge: Judge, problem: Problem, rollouts: Sequence[Rollout], *, max_answer_bytes: int, max_tokens: int
) -> tuple[Rollout, ...]:
    """The rollouts with verdict and reward; `max_tokens` is the limit that the length penalty counts toward."""
    verdicts = await judge_texts(judge, problem, [rollout.text for rollout in rollouts], max_answer_bytes)
    lengths = [len(rollout.tokens) for rollout in rollouts]
    rewards = apply_length_penalty([verdict.score for verdict in verdicts], lengths, max_tokens)
    return tuple(
        replace(rollout, verdict=verdict, score=reward)
        for rollout, verdict, reward in zip(rollouts, verdicts, rewards, strict=True)
    )
