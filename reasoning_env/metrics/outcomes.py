"""Outcomes of completions and groups, and tallies of their values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from ..records import Ending, Group, Reason, Rollout, Verdict

RIGHT = "right"
PARTIAL = "partial"
WRONG = "wrong"
TRUNCATED = "truncated"
FORMAT_FAILURES = (
    Reason.NO_ANSWER.value,
    Reason.UNCLOSED_THINKING.value,
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

    A reason of None counts as `scored`. A missing or unclosed answer, and unclosed thinking, are `truncated` if a limit
    of tokens ended the completion.
    """
    if reason is None or reason == Reason.SCORED.value:
        if score >= Verdict.CORRECT_SCORE:
            return RIGHT
        if score > 0:
            return PARTIAL
        return WRONG
    unfinished = reason in (Reason.NO_ANSWER.value, Reason.UNCLOSED_THINKING.value, Reason.UNCLOSED_ANSWER.value)
    return TRUNCATED if unfinished and Ending.of(finish_reason) is Ending.CUT else reason


def outcome_of(rollout: Rollout) -> str:
    """Return the outcome of a rollout with a verdict."""
    assert rollout.verdict is not None, "only scored rollouts have an outcome"
    return outcome(rollout.verdict.score, rollout.verdict.reason.value, rollout.finish_reason)


MANY_TRUNCATED = 0.10
"""Share of completions without an answer for want of tokens, from which the limit is likely to be too low."""
MANY_UNANSWERED = 0.50
"""Share of completions without an answer, from which the model, its template or its server is likely to be at fault."""


def outcome_remarks(shares: Mapping[str, float], limit: str) -> dict[str, str]:
    """Return what shares of outcomes say about the set-up: a sentence by outcome; `limit` names the limit of tokens."""
    remarks = {}
    if (truncated := shares.get(TRUNCATED, 0.0)) >= MANY_TRUNCATED:
        remarks[TRUNCATED] = f"{truncated:.0%} of completions were cut off without an answer: raise the limit, {limit}"
    if (unanswered := shares.get(Reason.NO_ANSWER.value, 0.0)) >= MANY_UNANSWERED:
        remarks[Reason.NO_ANSWER.value] = (
            f"{unanswered:.0%} of completions have no answer tags. Likely causes: the model does not follow the format "
            "(docs/models.md, small models); its chat template is another's; a reasoning parser of the server holds "
            "the answer back"
        )
    return remarks


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
