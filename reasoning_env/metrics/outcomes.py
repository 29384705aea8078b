"""Outcomes of completions and groups, and sums of values: shared by training, evaluations and reports."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ..records import Group, Reason, Rollout, Verdict

RIGHT = "right"
PARTIAL = "partial"
WRONG = "wrong"
TRUNCATED = "truncated"
FORMAT_FAILURES = (
    Reason.NO_ANSWER.value,
    Reason.UNCLOSED_ANSWER.value,
    Reason.SEVERAL_ANSWERS.value,
    Reason.EMPTY_ANSWER.value,
)
"""Reasons for a score of 0 without an answer that could be scored."""
OUTCOMES = (
    RIGHT,
    PARTIAL,
    WRONG,
    TRUNCATED,
    *FORMAT_FAILURES,
    *(reason.value for reason in Reason if reason is not Reason.SCORED and reason.value not in FORMAT_FAILURES),
)
"""All outcomes of a completion: its correctness if it was scored, else the reason for its score of 0."""


@dataclass(slots=True)
class Tally:
    """Number, sum and highest of some values, all at least 0."""

    count: int = 0
    total: float = 0.0
    highest: float = 0.0

    def add(self, *values: float) -> None:
        self.count += len(values)
        self.total += sum(values)
        self.highest = max((self.highest, *values))

    def merge(self, other: Tally) -> None:
        self.count += other.count
        self.total += other.total
        self.highest = max(self.highest, other.highest)

    @property
    def mean(self) -> float | None:
        """Mean of the values; None without values."""
        return self.total / self.count if self.count else None


def outcome(score: float, reason: str | None, finish_reason: str | None) -> str:
    """Return the outcome of a completion with this score, reason and finish reason.

    A reason of None counts as `scored`. A missing or unclosed answer is `truncated` if the token budget ended the
    completion.
    """
    if reason is None or reason == Reason.SCORED.value:
        if score >= Verdict.CORRECT_SCORE:
            return RIGHT
        if score > 0:
            return PARTIAL
        return WRONG
    unfinished = reason in (Reason.NO_ANSWER.value, Reason.UNCLOSED_ANSWER.value)
    return TRUNCATED if unfinished and finish_reason == "length" else reason


def outcome_of(rollout: Rollout) -> str:
    """Return the outcome of a rollout with a verdict."""
    assert rollout.verdict is not None, "only scored rollouts have an outcome"
    return outcome(rollout.verdict.score, rollout.verdict.reason.value, rollout.finish_reason)


class GroupOutcome(StrEnum):
    """How the scores of a group compare."""

    WITH_SIGNAL = "with_signal"
    ALL_RIGHT = "all_right"
    ALL_WRONG = "all_wrong"
    ALL_EQUAL = "all_equal"
    """Equal partial scores: no signal either."""


def outcome_of_group(group: Group) -> GroupOutcome:
    """Tell whether a group carries a signal and, if not, why. A group of one always does."""
    if len(group.rollouts) == 1 or group.has_signal:
        return GroupOutcome.WITH_SIGNAL
    if all(rollout.verdict is not None and rollout.verdict.correct for rollout in group.rollouts):
        return GroupOutcome.ALL_RIGHT
    return GroupOutcome.ALL_EQUAL if any(group.scores) else GroupOutcome.ALL_WRONG
