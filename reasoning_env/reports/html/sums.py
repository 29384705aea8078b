"""What became of a rollout, and counts and sums over groups of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from ...dumps.reader import DumpedGroup, DumpedRollout
from ...evaluations.samples import PARTIAL, RIGHT, TRUNCATED, WRONG, is_right, outcome_of, score_of
from ...records import Reason
from ...statistics import clustered_interval

OTHER = "other"
FORMAT_FAILURES = (Reason.NO_ANSWER, Reason.UNCLOSED_ANSWER, Reason.SEVERAL_ANSWERS, Reason.EMPTY_ANSWER)
FAULTS = tuple(reason for reason in Reason if reason not in (Reason.SCORED, *FORMAT_FAILURES))
OUTCOMES = (RIGHT, PARTIAL, WRONG, TRUNCATED, *(reason.value for reason in (*FORMAT_FAILURES, *FAULTS)), OTHER)
"""What became of a rollout: how right it is where it was scored, else the reason for its 0."""
ROUNDING = 1e-9


def got_right(rollout: DumpedRollout) -> bool:
    return is_right(score_of(rollout))


def known_outcome(rollout: DumpedRollout) -> str:
    """Return one of OUTCOMES."""
    word = outcome_of(rollout)
    return word if word in OUTCOMES else OTHER


def length_of(rollout: DumpedRollout) -> int:
    """Return the characters of the completion, thinking included."""
    return len(rollout.thinking) + (len(rollout.conversation[-1]["content"]) if rollout.conversation else 0)


@dataclass
class Sums:
    """Of a task, of a task at a level, of a stretch of time: counts, and sums over groups or rollouts."""

    groups: int = 0
    rollouts: int = 0
    score: float = 0.0
    score_squares: float = 0.0
    """Of the groups' means, as `right_squares` is of their shares of right rollouts."""
    right: int = 0
    right_squares: float = 0.0
    compared: int = 0
    """Groups of two rollouts or more, the only ones that can carry a signal."""
    signal: int = 0
    level: float = 0.0
    levels: int = 0

    def add(self, group: DumpedGroup) -> None:
        scores = group.scores
        self.groups += 1
        self.rollouts += len(scores)
        self.score += sum(scores)
        self.score_squares += fmean(scores) ** 2
        right = sum(map(got_right, group.rollouts))
        self.right += right
        self.right_squares += (right / len(scores)) ** 2
        self.compared += len(scores) > 1
        self.signal += len(set(scores)) > 1
        if group.level is not None:
            self.level += group.level
            self.levels += 1

    def merge(self, other: Sums) -> None:
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def figures(self) -> dict[str, Any]:
        return {
            "groups": self.groups,
            "rollouts": self.rollouts,
            "score": self._mean(self.score, self.score_squares),
            "accuracy": self._mean(self.right, self.right_squares),
            "signal": self.signal / self.compared if self.compared else None,
            "level": self.level / self.levels if self.levels else None,
        }

    def _mean(self, total: float, squares: float) -> list[float]:
        mean = total / self.rollouts
        return [mean, *clustered_interval(mean, squares, groups=self.groups, count=self.rollouts)]


@dataclass
class TaskSums(Sums):
    outcomes: Counter[str] = field(default_factory=Counter)
    passes: Counter[tuple[int, int]] = field(default_factory=Counter)
    """How many groups had so many completions, and so many right ones."""
    tokens: int = 0
    token_counts: int = 0
    characters: int = 0
    seconds: float = 0.0
    plain_count: int = 0
    """Rollouts with a score by the library's own rules too; `plain_score` and `strict_score` are over these."""
    plain_score: float = 0.0
    strict_score: float = 0.0
    changed: int = 0

    def add(self, group: DumpedGroup) -> None:
        super().add(group)
        self.passes[len(group.rollouts), sum(map(got_right, group.rollouts))] += 1
        for rollout in group.rollouts:
            self.outcomes[known_outcome(rollout)] += 1
            self.characters += length_of(rollout)
            if rollout.tokens is not None:
                self.tokens += rollout.tokens
                self.token_counts += 1
            if rollout.library_score is not None:
                self.plain_count += 1
                self.plain_score += rollout.library_score
                self.strict_score += score_of(rollout)
                self.changed += abs(score_of(rollout) - rollout.library_score) > ROUNDING

    def figures(self) -> dict[str, Any]:
        count = self.plain_count
        return super().figures() | {
            "outcomes": [self.outcomes[name] for name in OUTCOMES],
            "format": sum(self.outcomes[reason] for reason in FORMAT_FAILURES) / self.rollouts,
            "tokens": self.tokens / self.token_counts if self.token_counts else None,
            "characters": self.characters / self.rollouts,
            "plain": [self.plain_score / count, self.strict_score / count, self.changed, count] if count else None,
        }
