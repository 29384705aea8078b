"""What became of a completion, in a word that statistics, tables and reports share."""

from __future__ import annotations

from ..dumps.reader import DumpedRollout
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
    """Return a word for a completion: how right it is, truncated, or why its answer was not scored."""
    if reason is None or reason == Reason.SCORED.value:
        return RIGHT if is_right(score) else PARTIAL if score > 0 else WRONG
    return TRUNCATED if finish_reason == "length" and reason in UNFINISHED else reason


def score_of(rollout: DumpedRollout) -> float:
    """Return the verifier's score, before any length penalty."""
    return rollout.score if rollout.verifier_score is None else rollout.verifier_score


def outcome_of(rollout: DumpedRollout) -> str:
    """Return `outcome` of a completion that was read from a file."""
    return outcome(score_of(rollout), rollout.reason, rollout.finish_reason)
