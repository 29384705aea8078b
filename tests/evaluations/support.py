"""Evaluated problems for the tests of results, scores and summaries."""

from __future__ import annotations

from typing import Any

from reasoning_env.dumps.format import DumpedGroup, DumpedRollout


def sampled(score: float, library_score: float | None = None, *, tokens: int | None = 10) -> DumpedRollout:
    return DumpedRollout((), score, "scored", library_score=library_score, tokens=tokens, seconds=1.5)


def make_sample(task: str, *scores: float, index: int = 0, failed: int = 0, **fields: Any) -> DumpedGroup:
    rollouts = tuple(sampled(score, **fields) for score in scores)
    return DumpedGroup(task, rollouts, index=index, failed=failed)
