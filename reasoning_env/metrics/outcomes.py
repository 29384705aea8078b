"""Classify completions and groups by outcome, and add up counts, scores, times and lengths over groups.

Shares and scores are in [0, 1], times in seconds, lengths in tokens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Self

from ..records import OPENING_TAG, Ending, Group, Reason, Verdict

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
"""Reasons for a score of 0 that a token limit can cause, by ending a completion too early."""
OUTCOMES = (
    RIGHT,
    PARTIAL,
    WRONG,
    TRUNCATED,
    *FORMAT_FAILURES,
    *(reason.value for reason in Reason if reason is not Reason.SCORED and reason.value not in FORMAT_FAILURES),
)
"""All outcomes of a completion: how right a scored answer is, or why the verifier scored no answer."""


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


def outcome(score: float, reason: str | None, *, cut: bool, thinking: str = "") -> str:
    """Return the outcome of a completion: one of OUTCOMES.

    Args:
        score: The verdict's score.
        reason: The verdict's reason; None means that the answer was scored.
        cut: Whether the completion reached a token limit.
        thinking: The reasoning that the server returned separately.
    """
    if reason is None or reason == Reason.SCORED.value:
        if score >= Verdict.CORRECT_SCORE:
            return RIGHT
        if score > 0:
            return PARTIAL
        return WRONG
    if cut and reason in UNFINISHED:
        return TRUNCATED
    if reason == Reason.NO_TEXT.value and OPENING_TAG.search(thinking):
        return HELD_BACK
    return reason


class GroupOutcome(StrEnum):
    """Whether a group's scores differ (`with_signal`); if not, whether all answers are right, all wrong, or neither."""

    WITH_SIGNAL = "with_signal"
    ALL_RIGHT = "all_right"
    ALL_WRONG = "all_wrong"
    ALL_EQUAL = "all_equal"
    """All scores are equal, but not 0, and at least one answer is not right. Such a group gives no signal."""


def outcome_of_group(group: Group) -> GroupOutcome:
    """Return the outcome of a group. A group of one completion always counts as `with_signal`."""
    if len(group.rollouts) == 1 or group.has_signal:
        return GroupOutcome.WITH_SIGNAL
    if all(rollout.verdict is not None and rollout.verdict.correct for rollout in group.rollouts):
        return GroupOutcome.ALL_RIGHT
    return GroupOutcome.ALL_EQUAL if any(group.scores) else GroupOutcome.ALL_WRONG


@dataclass
class Sums:
    """Totals over a set of groups: numbers of groups and completions, and tallies over completions.

    `frames` counts completions by the formatting that surrounded the answer and was removed. `level` and
    `generation_s` are tallies over problems.
    """

    groups: Counter[str] = field(default_factory=Counter)
    completions: Counter[str] = field(default_factory=Counter)
    frames: Counter[str] = field(default_factory=Counter)
    score: Tally = field(default_factory=Tally)
    correct: Tally = field(default_factory=Tally)
    unanswered: Tally = field(default_factory=Tally)
    truncated: Tally = field(default_factory=Tally)
    level: Tally = field(default_factory=Tally)
    prompt_tokens: Tally = field(default_factory=Tally)
    completion_tokens: Tally = field(default_factory=Tally)
    generation_s: Tally = field(default_factory=Tally)
    scoring_s: Tally = field(default_factory=Tally)

    def add(self, group: Group) -> list[str]:
        """Add a scored group, and return the outcomes of its completions."""
        problem, rollouts = group.problem, group.rollouts
        verdicts = [rollout.verdict for rollout in rollouts if rollout.verdict is not None]
        assert len(verdicts) == len(rollouts), "internal error: a recorded rollout has no verdict"
        correct = [verdict.correct for verdict in verdicts]
        unanswered = [verdict.answer is None for verdict in verdicts]
        seconds = [verdict.scoring_s for verdict in verdicts]
        cut = [rollout.ending is Ending.CUT for rollout in rollouts]
        outcomes = [
            outcome(verdict.score, verdict.reason.value, cut=was_cut, thinking=rollout.thinking)
            for verdict, rollout, was_cut in zip(verdicts, rollouts, cut, strict=True)
        ]
        tokens = [rollout.completion_tokens for rollout in rollouts]
        scores = group.scores
        counts = [count for count in tokens if count is not None]
        prompts = [len(each.tokens) - (count or 0) for each, count in zip(rollouts, tokens, strict=True) if each.tokens]
        self.groups[outcome_of_group(group).value] += 1
        self.completions.update(outcomes)
        self.frames.update(frame for verdict in verdicts for frame in set(verdict.frames))
        self.score.add(*scores)
        self.correct.add(*correct)
        self.unanswered.add(*unanswered)
        self.truncated.add(*cut)
        self.prompt_tokens.add(*prompts)
        self.completion_tokens.add(*counts)
        self.generation_s.add(problem.generation_s)
        self.scoring_s.add(*seconds)
        if problem.level is not None:
            self.level.add(problem.level)
        return outcomes

    @classmethod
    def merged(cls, parts: Iterable[Sums]) -> Self:
        """Return the sum of several totals."""
        total = cls()
        for part in parts:
            total.merge(part)
        return total

    def merge(self, other: Sums) -> None:
        """Add the totals of `other` to the totals of this object."""
        for each in fields(self):
            mine, others = getattr(self, each.name), getattr(other, each.name)
            if isinstance(mine, Tally):
                mine.merge(others)
            else:
                mine.update(others)
