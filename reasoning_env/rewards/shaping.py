"""From verdicts to rewards: the length penalty, and whether a group teaches anything."""

from __future__ import annotations

from collections.abc import Sequence

PENALTY_FLOOR_SCORE = 0.5
"""The penalty applies when every rollout of the group scores at least this."""
PENALTY_FREE_SHARE = 0.75
"""The share of the token limit up to which length costs nothing."""


def apply_length_penalty(scores: Sequence[float], lengths: Sequence[int], max_tokens: int) -> tuple[float, ...]:
    """Scores after the length penalty.

    `lengths` are tokens of prompt and completion together. When all scores are at least 0.5, a score is multiplied by
    1 up to 75 % of `max_tokens`, then by a factor that falls linearly to 0 at `max_tokens`; otherwise all are kept.
    """
    if not scores or min(scores) < PENALTY_FLOOR_SCORE:
        return tuple(scores)
    free = PENALTY_FREE_SHARE * max_tokens
    factors = (min(1.0, max(0.0, (max_tokens - length) / (max_tokens - free))) for length in lengths)
    return tuple(score * factor for score, factor in zip(scores, factors, strict=True))


def has_signal(scores: Sequence[float]) -> bool:
    """Whether the scores differ, so that their advantages are not all zero."""
    return len(set(scores)) > 1
