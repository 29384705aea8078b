"""Evaluated problems for tests of what becomes of them."""

from __future__ import annotations

from typing import Any

from reasoning_env.evaluations.samples import Sample, SampledRollout, outcome


def sampled(score: float, library_score: float | None = None, *, tokens: int | None = 10) -> SampledRollout:
    return SampledRollout(score, outcome(score, "scored", "stop"), tokens, 1.5, library_score)


def make_sample(task: str, *scores: float, index: int = 0, failed: int = 0, **fields: Any) -> Sample:
    return Sample(task, index, failed, tuple(sampled(score, **fields) for score in scores))
