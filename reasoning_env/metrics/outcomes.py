"""What became of completions and of groups: the words and the sums that training, evaluations and reports share."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ..records import Group, Reason, Rollout, Verdict

RIGHT, PARTIAL, WRONG, TRUNCATED = "right", "partial", "wrong", "truncated"
FORMAT_FAILURES = (
    Reason.NO_ANSWER.value,
    Reason.UNCLOSED_ANSWER.value,
    Reason.SEVERAL_ANSWERS.value,
    Reason.EMPTY_ANSWER.value,
)
"""The completion holds no answer that counts."""
OUTCOMES = (
    *(RIGHT, PARTIAL, WRONG, TRUNCATED, *FORMAT_FAILURES),
    *(reason.value for reason in Reason if reason is not Reason.SCORED and reason.value not in FORMAT_FAILURES),
)
"""All words for a completion: how right it is where it was scored, else the reason for its 0."""


@dataclass
class Tally:
    """How many values there were, none of them below 0, their sum and the highest."""

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
        """The mean of the values; None where there are none."""
        return self.total / self.count if self.count else None


def outcome(score: float, reason: str | None, finish_reason: str | None) -> str:
    """Return the word for a completion, from the verifier's score and reason; a reason of no file is `scored`.

    `truncated` stands for an answer that is missing, or not closed, where the tokens ran out before it.
    """
    if reason is None or reason == Reason.SCORED.value:
        if score >= Verdict.CORRECT_SCORE:
            return RIGHT
        return PARTIAL if score > 0 else WRONG
    unfinished = reason in (Reason.NO_ANSWER.value, Reason.UNCLOSED_ANSWER.value)
    return TRUNCATED if unfinished and finish_reason == "length" else reason


def outcome_of(rollout: Rollout) -> str:
    """Return the word for a rollout that has a verdict."""
    assert rollout.verdict is not None, "only scored rollouts have an outcome"
    return outcome(rollout.verdict.score, rollout.verdict.reason.value, rollout.finish_reason)


class GroupOutcome(StrEnum):
    """What became of a group."""

    WITH_SIGNAL = "with_signal"
    ALL_RIGHT = "all_right"
    ALL_WRONG = "all_wrong"
    ALL_EQUAL = "all_equal"
    """Equal scores that are neither right nor wrong: no signal either."""


def outcome_of_group(group: Group) -> GroupOutcome:
    """Tell whether a group carries a signal (a group of one always does) and, if not, why."""
    if len(group.rollouts) == 1 or group.has_signal:
        return GroupOutcome.WITH_SIGNAL
    if all(rollout.verdict is not None and rollout.verdict.correct for rollout in group.rollouts):
        return GroupOutcome.ALL_RIGHT
    return GroupOutcome.ALL_EQUAL if any(group.scores) else GroupOutcome.ALL_WRONG
