"""Metrics of the environment: per interval for a metrics backend, in total for the progress line.

docs/metrics.md lists every name, and a test compares the page with the names that are logged. The part of a name before
the first slash is a section of a dashboard; metrics by task, reason or outcome have sections of their own. Shares and
scores are in [0, 1], times in seconds, lengths in tokens.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import ClassVar

from ..records import DropReason, Ending, Group
from .outcomes import OUTCOMES, GroupOutcome, Tally, outcome_of, outcome_of_group, outcome_remarks
from .stats import DeliveryStats, DumpStats, StreamStats

logger = logging.getLogger(__name__)


class _Sums:
    """Counts of groups and rollouts by outcome, and a tally of each mean, by the metric's name."""

    MAXIMA: Mapping[str, str] = {
        "train/mean_completion_tokens": "train/max_completion_tokens",
        "time/mean_generation_s": "time/max_generation_s",
        "time/mean_scoring_s": "time/max_scoring_s",
    }
    """Means whose highest value is reported too, with the name of that metric."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.frames: Counter[str] = Counter()
        self.tallies: defaultdict[str, Tally] = defaultdict(Tally)

    def add(self, group: Group, outcome: GroupOutcome) -> None:
        self.outcomes[outcome.value] += 1
        for name, values in _values(group):
            self.tallies[name].add(*values)
        self.reasons.update(map(outcome_of, group.rollouts))
        for rollout in group.rollouts:
            if rollout.verdict is not None:
                self.frames.update(set(rollout.verdict.frames))

    def metrics(self) -> dict[str, float]:
        """Return means, maxima and shares; empty without groups."""
        metrics = {name: mean for name, tally in sorted(self.tallies.items()) if (mean := tally.mean) is not None}
        metrics |= {highest: self.tallies[name].highest for name, highest in self.MAXIMA.items() if name in metrics}
        if self.tallies:
            groups = self.outcomes.total()
            rollouts = self.reasons.total()
            metrics |= {f"train_groups/{outcome.value}": self.outcomes[outcome] / groups for outcome in GroupOutcome}
            metrics |= {f"train_reasons/{word}": self.reasons[word] / rollouts for word in OUTCOMES}
            metrics |= {f"answers/frame/{name}": count / rollouts for name, count in sorted(self.frames.items())}
        return metrics


@dataclass(frozen=True)
class _Latest:
    """What a task's totals keep of each of the last groups."""

    score: float
    correct: float
    unanswered: float
    has_signal: bool
    level: float | None
    tokens: float | None


@dataclass
class TaskTotals:
    """Totals of a task: groups, and over their rollouts rewards, correct answers and missing answers.

    `last_level` is the level of the task's last problem; None for the library's defaults. The properties `recent_...`
    are means over the last 20 groups; None if unknown.
    """

    RECENT: ClassVar[int] = 20

    groups: int = 0
    score: Tally = field(default_factory=Tally)
    correct: Tally = field(default_factory=Tally)
    unanswered: Tally = field(default_factory=Tally)
    last_level: float | None = None
    _latest: deque[_Latest] = field(default_factory=lambda: deque(maxlen=TaskTotals.RECENT), compare=False, repr=False)

    def add(self, group: Group) -> None:
        verdicts = [rollout.verdict for rollout in group.rollouts if rollout.verdict is not None]
        self.groups += 1
        self.last_level = group.problem.level
        self.score.add(*group.scores)
        self.correct.add(*(float(verdict.correct) for verdict in verdicts))
        self.unanswered.add(*(float(verdict.answer is None) for verdict in verdicts))
        self._latest.append(
            _Latest(
                fmean(group.scores),
                correct=fmean(verdict.correct for verdict in verdicts),
                unanswered=fmean(verdict.answer is None for verdict in verdicts),
                has_signal=group.has_signal,
                level=group.problem.level,
                tokens=_mean(
                    [length for rollout in group.rollouts if (length := rollout.completion_tokens) is not None]
                ),
            )
        )

    @property
    def recent_score(self) -> float | None:
        return _mean([group.score for group in self._latest])

    @property
    def recent_correct(self) -> float | None:
        return _mean([group.correct for group in self._latest])

    @property
    def recent_unanswered(self) -> float | None:
        """The share of completions without an answer."""
        return _mean([group.unanswered for group in self._latest])

    @property
    def recent_tokens(self) -> float | None:
        """The mean tokens of a completion."""
        return _mean([group.tokens for group in self._latest if group.tokens is not None])

    @property
    def recent_signal(self) -> float | None:
        """The share of groups whose scores differ."""
        return _mean([float(group.has_signal) for group in self._latest])

    @property
    def recent_level(self) -> float | None:
        """The mean level of the groups that have a level."""
        return _mean([group.level for group in self._latest if group.level is not None])

    @property
    def rollouts(self) -> int:
        return self.score.count


@dataclass(frozen=True)
class _RecentGroup:
    at_s: float
    score: float
    tokens: int
    level: float | None


class RecentRates:
    """Rates of groups and tokens, mean score and mean level, over the last minute. `clock` gives monotonic seconds."""

    WINDOW_S = 60.0
    MAX_GROUPS = 512

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began_s = clock()
        self._groups: deque[_RecentGroup] = deque(maxlen=self.MAX_GROUPS)

    def record(self, group: Group) -> None:
        tokens = sum(rollout.completion_tokens or 0 for rollout in group.rollouts)
        score = sum(group.scores) / len(group.scores)
        self._groups.append(_RecentGroup(self._clock(), score, tokens, group.problem.level))

    def words(self) -> dict[str, str]:
        """Return rates and, if there are recent groups, means, as words of the progress line."""
        now_s = self._clock()
        while self._groups and now_s - self._groups[0].at_s > self.WINDOW_S:
            self._groups.popleft()
        recent = self._groups
        # A full window begins with its first group, another window a minute ago or at the start.
        begins_s = recent[0].at_s if len(recent) == self.MAX_GROUPS else max(now_s - self.WINDOW_S, self._began_s)
        span_s = max(now_s - begins_s, 1e-3)
        words = {
            "groups_per_s": f"{len(recent) / span_s:.2f}",
            "tokens_per_s": f"{sum(group.tokens for group in recent) / span_s:.0f}",
        }
        if recent:
            words["recent_score"] = f"{sum(group.score for group in recent) / len(recent):.3f}"
        levels = [group.level for group in recent if group.level is not None]
        if levels:
            words["level"] = f"{sum(levels) / len(levels):.2f}"
        return words


class MetricsRecorder:
    """Counts groups and dropped problems; used on the event loop only.

    `remarks` are sentences on what the latest completions say about the set-up, by outcome. The log has each once.
    """

    REMARKED = 200
    """Completions over which the shares of outcomes are taken: a share of 50 % is known to 7 %."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.tasks: defaultdict[str, TaskTotals] = defaultdict(TaskTotals)
        self.total = TaskTotals()
        self.dropped: Counter[str] = Counter()
        self._interval = _Sums()
        self.groups: Counter[str] = Counter()
        """Groups by outcome."""
        self.completions: Counter[str] = Counter()
        """Completions by outcome."""
        self._recent = RecentRates(clock)
        self.remarks: Mapping[str, str] = {}
        self._latest: Counter[str] = Counter()
        self._told: set[str] = set()

    def record_group(self, group: Group) -> GroupOutcome:
        """Count a scored group, also a group that will not be sent."""
        outcome = outcome_of_group(group)
        self._interval.add(group, outcome)
        self.groups[outcome.value] += 1
        self.tasks[group.problem.task].add(group)
        self.total.add(group)
        self._recent.record(group)
        outcomes = [outcome_of(rollout) for rollout in group.rollouts]
        self.completions.update(outcomes)
        self._latest.update(outcomes)
        if self._latest.total() >= self.REMARKED:
            self._remark()
        return outcome

    def _remark(self) -> None:
        total = self._latest.total()
        shares = {word: count / total for word, count in self._latest.items()}
        self._latest.clear()
        self.remarks = outcome_remarks(shares, "max_token_length, or the trainer's own for completions")
        for word, remark in self.remarks.items():
            if word not in self._told:
                self._told.add(word)
                logger.warning("of the last %d completions: %s", total, remark)

    def record_dropped(self, reason: DropReason) -> None:
        self.dropped[reason.value] += 1

    def report(self) -> dict[str, float]:
        """Return the metrics since the last report, and all dropped problems by reason."""
        interval = self._interval
        self._interval = _Sums()
        return interval.metrics() | {f"dropped/{reason.value}": self.dropped[reason] for reason in DropReason}

    def progress(
        self,
        stream: StreamStats | None,
        dumps: DumpStats | None = None,
        delivery: DeliveryStats | None = None,
        *,
        in_flight: int = 0,
        step: int | None = None,
    ) -> dict[str, object]:
        """Return totals and recent rates by name; means, waiting and lost groups only if there are any."""
        total = self.total
        words: dict[str, object] = {
            "groups": total.groups,
            **{outcome.value: self.groups[outcome] for outcome in GroupOutcome},
            "failed": self.dropped.total(),
            **_means(total),
            "tasks": len(self.tasks),
            "quarantined": len(stream.quarantined) if stream else 0,
            "ready": stream.ready if stream else 0,
            "in_flight": in_flight,
            **self._recent.words(),
        }
        if step is not None:
            words["step"] = step
        if delivery is not None and delivery.waiting:
            words["waiting"] = delivery.waiting
        if dumps is not None and dumps.dropped:
            words["dump_dropped"] = dumps.dropped
        return words


def progress_line(progress: Mapping[str, object]) -> str:
    """Return the progress line: the values of `MetricsRecorder.progress` as `key=value` words."""
    return "progress: " + " ".join(f"{name}={value}" for name, value in progress.items())


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _means(total: TaskTotals) -> dict[str, str]:
    """Return the means of the progress line; empty without rollouts."""
    means = {"mean_score": total.score.mean, "share_correct": total.correct.mean}
    return {name: f"{mean:.3f}" for name, mean in means.items() if mean is not None}


def _values(group: Group) -> Iterator[tuple[str, Sequence[float]]]:
    """Yield the values that a scored group adds to each mean, with the metric's name."""
    problem = group.problem
    rollouts = group.rollouts
    verdicts = [rollout.verdict for rollout in rollouts if rollout.verdict is not None]
    assert len(verdicts) == len(rollouts), "only scored rollouts are recorded"
    yield "time/mean_generation_s", (problem.generation_s,)
    if problem.level is not None:
        yield "train/mean_level", (problem.level,)
    yield "train/mean_score", group.scores
    yield f"train_tasks/{problem.task}/mean_score", group.scores
    yield "train/share_correct", [int(verdict.correct) for verdict in verdicts]
    yield "train/share_truncated", [int(rollout.ending is Ending.CUT) for rollout in rollouts]
    if rollouts[0].tokens:
        prompt_tokens = len(rollouts[0].tokens) - (rollouts[0].completion_tokens or 0)
        yield "train/mean_prompt_tokens", [prompt_tokens] * len(rollouts)
    lengths = [length for rollout in rollouts if (length := rollout.completion_tokens) is not None]
    if lengths:
        yield "train/mean_completion_tokens", lengths
    yield "time/mean_scoring_s", [verdict.scoring_s for verdict in verdicts]
