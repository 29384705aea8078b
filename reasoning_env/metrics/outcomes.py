"""Classify completions and groups by outcome, and tally values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from ..records import OPENING_TAG, Ending, Group, Reason, Rollout, Verdict

RIGHT = "right"
PARTIAL = "partial"
WRONG = "wrong"
TRUNCATED = "truncated"
HELD_BACK = "held_back"
"""The completion has no text, and its answer is in the reasoning that the server returned separately."""
FORMAT_FAILURES = (
    HELD_BACK,
    Reason.NO_TEXT.value,
    Reason.NO_ANSWER.value,
    Reason.UNCLOSED_THINKING.value,
    Reason.UNCLOSED_ANSWER.value,
    Reason.REPEATED_ANSWER.value,
    Reason.SEVERAL_ANSWERS.value,
    Reason.EMPTY_ANSWER.value,
)
"""Outcomes with a score of 0 because no answer could be extracted."""
UNFINISHED = (
    Reason.NO_TEXT.value,
    Reason.NO_ANSWER.value,
    Reason.UNCLOSED_THINKING.value,
    Reason.UNCLOSED_ANSWER.value,
)
"""Reasons for a score of 0 that a token limit can cause."""
OUTCOMES = (
    RIGHT,
    PARTIAL,
    WRONG,
    TRUNCATED,
    *FORMAT_FAILURES,
    *(reason.value for reason in Reason if reason is not Reason.SCORED and reason.value not in FORMAT_FAILURES),
)
"""All outcomes of a completion: its correctness if it was scored, else the reason for the score of 0."""


@dataclass(slots=True)
class Tally:
    """Count, sum and maximum of values, which must be at least 0."""

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
        """Mean of the values; None if there are none."""
        return self.total / self.count if self.count else None


def outcome(score: float, reason: str | None, finish_reason: str | None, thinking: str = "") -> str:
    """Return the outcome of a completion: one of OUTCOMES.

    `thinking` is the reasoning that the server returned separately. If `reason` is None, the completion counts as
    scored. A completion is `truncated` if the token limit ended it before its answer was complete.
    """
    if reason is None or reason == Reason.SCORED.value:
        if score >= Verdict.CORRECT_SCORE:
            return RIGHT
        if score > 0:
            return PARTIAL
        return WRONG
    if reason in UNFINISHED and Ending.of(finish_reason) is Ending.CUT:
        return TRUNCATED
    if reason == Reason.NO_TEXT.value and OPENING_TAG.search(thinking):
        return HELD_BACK
    return reason


def outcome_of(rollout: Rollout) -> str:
    """Return the outcome of a rollout, which must have a verdict."""
    assert rollout.verdict is not None, "only scored rollouts have an outcome"
    return outcome(rollout.verdict.score, rollout.verdict.reason.value, rollout.finish_reason, rollout.thinking)


@dataclass(frozen=True)
class Remark:
    """A log line about a frequent outcome that has a likely cause in the setup.

    The remark is logged if at least `share` of the completions have the outcome. `fact` describes these completions;
    `advice` names likely causes and remedies. `{limit}` in `advice` stands for the name of the token limit.
    """

    share: float
    fact: str
    advice: str

    def text(self, share: float, limit: str) -> str:
        return f"{share:.0%} of completions {self.fact}: {self.advice.format(limit=limit)}"


REMARKS: Mapping[str, Remark] = {
    TRUNCATED: Remark(0.10, "were cut off without an answer", "raise the limit, {limit}"),
    HELD_BACK: Remark(
        0.10,
        "have no text, but an answer in the reasoning that the server returned separately",
        "the server's reasoning parser puts answers into the reasoning; start the server without it, or with the "
        "parser of this model",
    ),
    Reason.NO_TEXT.value: Remark(
        0.10,
        "have no text",
        "the model ends at once, or the server returns all of its text as reasoning; check the chat template and the "
        "server's reasoning parser",
    ),
    Reason.NO_ANSWER.value: Remark(
        0.50,
        "have no answer tags",
        "the model does not follow the format (docs/train.md, small models), or has the wrong chat template",
    ),
    Reason.UNCLOSED_THINKING.value: Remark(
        0.10,
        "began to think and never ended",
        "the model does not write its closing mark, or `thinking` is wrong for this model (docs/models.md)",
    ),
    Reason.UNCLOSED_ANSWER.value: Remark(
        0.10,
        "have an answer tag that is not closed",
        "a stop string may end them at `</answer>`; configure the server to include the stop string in its reply",
    ),
    Reason.REPEATED_ANSWER.value: Remark(
        0.02,
        "give the same answer more than once, and score 0",
        "let `system_prompt` request one pair of answer tags at the end",
    ),
    Reason.SEVERAL_ANSWERS.value: Remark(
        0.10,
        "have several answers",
        "the model may write its thinking, with answers in it, in an unknown format; set `thinking` to the model's "
        "format (docs/models.md)",
    ),
    Reason.EMPTY_ANSWER.value: Remark(
        0.10, "have an empty answer", "the model copies the tags of the prompt; change `system_prompt`"
    ),
    Reason.TOO_LONG.value: Remark(
        0.10, "have an answer that is too long to be judged", "the model puts its reasoning into the answer tags"
    ),
    Reason.REFUSED.value: Remark(
        0.02, "were refused", "the model or a filter of the server refuses the questions; read some completions"
    ),
    Reason.VERIFIER_ERROR.value: Remark(
        0.10, "made the verifier fail", "the task's verifier probably has a bug; `rescore` shows the answers"
    ),
    Reason.TIMEOUT.value: Remark(
        0.02,
        "took the verifier longer than its deadline",
        "raise `scoring_deadline_s` if the answers are ordinary",
    ),
    Reason.OUT_OF_MEMORY.value: Remark(
        0.02,
        "made the verifier exceed its memory limit",
        "raise `worker_memory_mb` if the answers are ordinary",
    ),
    Reason.CRASH.value: Remark(
        0.02, "ended the verifier", "the answers attack the verifier, or the verifier has a bug"
    ),
}
"""Remarks by outcome. Right, partial and wrong answers have no remark, because the setup does not cause them."""


def outcome_remarks(shares: Mapping[str, float], limit: str) -> dict[str, str]:
    """Return the remarks for the given shares of outcomes, by outcome. `limit` names the token limit."""
    return {
        word: remark.text(shares[word], limit)
        for word, remark in REMARKS.items()
        if shares.get(word, 0.0) >= remark.share
    }


class GroupOutcome(StrEnum):
    """How the scores within a group compare."""

    WITH_SIGNAL = "with_signal"
    ALL_RIGHT = "all_right"
    ALL_WRONG = "all_wrong"
    ALL_EQUAL = "all_equal"
    """Equal partial scores, which also give no signal."""


def outcome_of_group(group: Group) -> GroupOutcome:
    """Return whether a group has a signal and, if not, why. A group of one completion always counts as a signal."""
    if len(group.rollouts) == 1 or group.has_signal:
        return GroupOutcome.WITH_SIGNAL
    if all(rollout.verdict is not None and rollout.verdict.correct for rollout in group.rollouts):
        return GroupOutcome.ALL_RIGHT
    return GroupOutcome.ALL_EQUAL if any(group.scores) else GroupOutcome.ALL_WRONG
