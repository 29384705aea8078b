"""What the statistics need of an evaluated problem, read from its line of samples.jsonl."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..records import Reason

RIGHT_FROM = 0.99
"""The score from which a completion counts as right, as in the literature."""
RIGHT, PARTIAL, WRONG, TRUNCATED = "right", "partial", "wrong", "truncated"
UNFINISHED = {Reason.NO_ANSWER.value, Reason.UNCLOSED_ANSWER.value}
"""What a completion lacks that ran out of tokens before its answer."""


def is_right(score: float) -> bool:
    """Tell whether a score counts as right in an evaluation."""
    return score >= RIGHT_FROM


def outcome(score: float, reason: str | None, finish_reason: str | None) -> str:
    """Return in a word what became of a completion: how right it is, truncated, or why its answer was not scored."""
    if reason is None or reason == Reason.SCORED.value:
        return RIGHT if is_right(score) else PARTIAL if score > 0 else WRONG
    return TRUNCATED if finish_reason == "length" and reason in UNFINISHED else reason


@dataclass(frozen=True)
class SampledRollout:
    """One completion; `tokens` and `seconds` are None where nobody knows them, `library_score` without a preset."""

    score: float
    outcome: str
    tokens: int | None
    seconds: float | None
    library_score: float | None


@dataclass(frozen=True)
class Sample:
    """One evaluated problem; `failed` counts the completions that it should have and does not.

    `problem` is what it shares with those that are the same.
    """

    task: str
    index: int
    failed: int
    rollouts: tuple[SampledRollout, ...]
    problem: str = ""


def read_sample(line: bytes) -> Sample:
    """Read a line; raises ValueError for one that is none."""
    try:
        found: Mapping[str, Any] = json.loads(line)
        rollouts = tuple(_read_rollout(rollout) for rollout in found["rollouts"])
        return Sample(str(found["item_id"]), int(found["index"]), int(found["failed"]), rollouts, str(found["problem"]))
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"no line of samples.jsonl: {error!r}") from error


def _read_rollout(rollout: Mapping[str, Any]) -> SampledRollout:
    score = float(rollout["score"])
    word = outcome(score, rollout.get("reason"), rollout.get("finish_reason"))
    return SampledRollout(score, word, rollout.get("tokens"), rollout.get("seconds"), rollout.get("library_score"))
