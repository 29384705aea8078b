"""What the environment counts: per interval for a metrics backend, in total for the progress line.

Every name has one meaning. Shares and scores are in [0, 1], times in seconds, lengths in tokens.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from enum import StrEnum
from typing import Any

from .pace import Pace
from .records import DeliveryStats, DropReason, DumpStats, Group, PoolStats, Reason, StreamStats, TaskReport

TASK_SCORE = "train/task_mean_score/"
MAXIMA = {
    "train/completion_tokens_mean": "train/completion_tokens_max",
    "perf/generation_s_mean": "perf/generation_s_max",
    "perf/scoring_s_mean": "perf/scoring_s_max",
}
"""Means whose highest value is reported too, and under which name."""


class Outcome(StrEnum):
    """What became of a group."""

    KEPT = "kept"
    ALL_RIGHT = "all_right"
    ALL_WRONG = "all_wrong"
    ALL_EQUAL = "all_equal"
    """Equal scores that are neither right nor wrong: no signal either."""


def classify(group: Group) -> Outcome:
    """Tell whether a group carries a signal and, if not, why; a group of one has nothing to compare and is kept."""
    if len(group.rollouts) == 1 or group.has_signal:
        return Outcome.KEPT
    if all(rollout.verdict is not None and rollout.verdict.correct for rollout in group.rollouts):
        return Outcome.ALL_RIGHT
    return Outcome.ALL_EQUAL if any(group.scores) else Outcome.ALL_WRONG


@dataclass
class _Tally:
    """How many values there were, none below 0, their sum and the highest."""

    count: int = 0
    total: float = 0
    highest: float = 0

    def add(self, values: Sequence[float]) -> None:
        self.count += len(values)
        self.total += sum(values)
        self.highest = max(self.highest, *values)

    @property
    def mean(self) -> float:
        return self.total / self.count


class _Sums:
    """Counts of groups, of verdicts, and the values behind each mean, by the metric's name."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        self.outcomes: Counter[str] = Counter(state.get("outcomes", {}))
        self.reasons: Counter[str] = Counter(state.get("reasons", {}))
        tallies = {name: _Tally(*values) for name, values in state.get("tallies", {}).items()}
        self.tallies: defaultdict[str, _Tally] = defaultdict(_Tally, tallies)

    def state(self) -> dict[str, Any]:
        tallies = {name: astuple(tally) for name, tally in self.tallies.items()}
        return {"outcomes": dict(self.outcomes), "reasons": dict(self.reasons), "tallies": tallies}

    def mean(self, name: str) -> float:
        """Return a mean by its metric's name; not a number where there was no group."""
        return self.tallies[name].mean if name in self.tallies else math.nan

    def metrics(self) -> dict[str, float]:
        """Return means, maxima and shares; nothing where there was no group."""
        metrics = {name: tally.mean for name, tally in sorted(self.tallies.items())}
        metrics |= {MAXIMA[name]: self.tallies[name].highest for name in MAXIMA.keys() & metrics.keys()}
        if self.tallies:
            groups, rollouts = self.outcomes.total(), self.reasons.total()
            metrics |= {f"train/groups/{outcome.value}": self.outcomes[outcome] / groups for outcome in Outcome}
            metrics |= {f"train/reason/{reason.value}": self.reasons[reason] / rollouts for reason in Reason}
        return metrics


@dataclass
class TaskTotals:
    """What this process has seen of a task; `right` and `unanswered` count rollouts, as `score` adds them up."""

    groups: int = 0
    rollouts: int = 0
    score: float = 0.0
    right: int = 0
    unanswered: int = 0

    def add(self, group: Group) -> None:
        verdicts = [rollout.verdict for rollout in group.rollouts if rollout.verdict is not None]
        self.groups += 1
        self.rollouts += len(verdicts)
        self.score += sum(group.scores)
        self.right += sum(verdict.correct for verdict in verdicts)
        self.unanswered += sum(verdict.answer is None for verdict in verdicts)

    def __iadd__(self, other: TaskTotals) -> TaskTotals:
        return TaskTotals(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))


class MetricsRecorder:
    """Counts groups and dropped problems; used on the event loop only."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.tasks: defaultdict[str, TaskTotals] = defaultdict(TaskTotals)
        self._pace = Pace(clock)
        self.restore({})

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state()` returned, as that run's recorder would have."""
        self._interval = _Sums(state.get("interval", {}))
        self._total = _Sums(state.get("total", {}))
        self.dropped: Counter[str] = Counter(state.get("dropped", {}))
        self._retried: int = state.get("retried", 0)

    @property
    def mean_score(self) -> float:
        """The mean over all groups; not a number where there was none."""
        return self._total.mean("train/mean_score")

    def state(self) -> dict[str, Any]:
        """Return everything that later reports and progress lines depend on, as JSON holds it."""
        return {
            "interval": self._interval.state(),
            "total": self._total.state(),
            "dropped": dict(self.dropped),
            "retried": self._retried,
        }

    def record_group(self, group: Group) -> Outcome:
        """Count a scored group, whether or not it will be sent."""
        outcome = classify(group)
        values = list(_values(group))
        reasons = [rollout.verdict.reason.value for rollout in group.rollouts if rollout.verdict is not None]
        for sums in (self._interval, self._total):
            sums.outcomes[outcome.value] += 1
            sums.reasons.update(reasons)
            for name, found in values:
                sums.tallies[name].add(found)
        self.tasks[group.problem.task].add(group)
        self._pace.record(group)
        return outcome

    def record_dropped(self, reason: DropReason) -> None:
        self.dropped[reason.value] += 1

    def record_retried(self) -> None:
        """Count a group that failed and is tried again."""
        self._retried += 1

    def report(self) -> dict[str, float]:
        """Return the metrics since the last report, which this one ends, and how much was dropped in all."""
        interval, self._interval = self._interval, _Sums({})
        return interval.metrics() | {f"dropped/{reason.value}": self.dropped[reason] for reason in DropReason}

    def progress_line(
        self,
        stream: StreamStats | None,
        dumps: DumpStats | None = None,
        delivery: DeliveryStats | None = None,
        *,
        in_flight: int = 0,
        step: int | None = None,
    ) -> str:
        """Return the totals since the start, and how it goes now, as `key=value` words; some only where they count."""
        total = self._total
        words: dict[str, object] = {
            "groups": total.outcomes.total(),
            **{outcome.value: total.outcomes[outcome] for outcome in Outcome},
            "failed": self.dropped.total(),
            "mean_score": f"{total.mean('train/mean_score'):.3f}",
            "share_correct": f"{total.mean('train/share_correct'):.3f}",
            "tasks": sum(name.startswith(TASK_SCORE) for name in total.tallies),
            "quarantined": len(stream.quarantined) if stream else 0,
            "ready": stream.ready if stream else 0,
            "in_flight": in_flight,
            **self._pace.words(),
        }
        if step is not None:
            words["step"] = step
        if self._retried:
            words["retried"] = self._retried
        if delivery is not None and delivery.waiting:
            words["waiting"] = delivery.waiting
        if dumps is not None and dumps.dropped:
            words["dump_dropped"] = dumps.dropped
        return "progress: " + " ".join(f"{key}={value}" for key, value in words.items())


def _values(group: Group) -> Iterator[tuple[str, Sequence[float]]]:
    """Yield what a scored group adds to each mean."""
    problem, rollouts = group.problem, group.rollouts
    verdicts = [rollout.verdict for rollout in rollouts if rollout.verdict is not None]
    assert len(verdicts) == len(rollouts), "only scored rollouts are recorded"
    yield "perf/generation_s_mean", (problem.generation_s,)
    if problem.level is not None:
        yield "train/level_mean", (problem.level,)
    yield "train/mean_score", group.scores
    yield f"{TASK_SCORE}{problem.task}", group.scores
    yield "train/share_correct", [int(verdict.correct) for verdict in verdicts]
    yield "train/truncated_share", [int(rollout.truncated) for rollout in rollouts]
    if rollouts[0].tokens:
        yield "train/prompt_tokens_mean", [rollouts[0].masks.count(-100)] * len(rollouts)
    if lengths := [length for rollout in rollouts if (length := rollout.completion_tokens) is not None]:
        yield "train/completion_tokens_mean", lengths
    yield "perf/scoring_s_mean", [verdict.scoring_s for verdict in verdicts]


def service_metrics(
    stream: StreamStats | None,
    pool: PoolStats,
    queued_jobs: int,
    dumps: DumpStats | None = None,
    delivery: DeliveryStats | None = None,
) -> dict[str, float]:
    """Return how the parts around the groups do; nothing of those that there are not."""
    metrics: dict[str, float] = {
        "perf/queued_jobs": queued_jobs,
        "workers/replaced": pool.workers_replaced,
        "workers/timeouts": pool.timeouts,
        "workers/crashes": pool.crashes,
        "workers/blocked": pool.blocked,
        "workers/protocol_faults": pool.protocol_faults,
    }
    if stream is not None:
        metrics["perf/ready_problems"] = stream.ready
        metrics["tasks/generation_failures"] = stream.failures
        metrics["tasks/flawed_problems"] = stream.flawed
        metrics["tasks/quarantined"] = len(stream.quarantined)
    if dumps is not None:
        metrics["dumps/written"] = dumps.passed_groups + dumps.failed_groups
        metrics["dumps/waiting"] = dumps.waiting
        metrics["dumps/dropped"] = dumps.dropped
    if delivery is not None:
        metrics["delivery/delivered"] = delivery.delivered
        metrics["delivery/waiting"] = delivery.waiting
        metrics["delivery/repeated"] = delivery.repeated
    return metrics


def task_metrics(report: Mapping[str, TaskReport]) -> dict[str, float]:
    """Return what a sampler that learns knows of each task, and the mean level where a curriculum sets levels."""
    metrics: dict[str, float] = {}
    for task, known in report.items():
        metrics[f"sampling/share/{task}"] = known.share
        metrics[f"sampling/pass_rate/{task}"] = known.pass_rate
        metrics[f"sampling/signal_chance/{task}"] = known.signal_chance
        if known.level is not None:
            metrics[f"curriculum/level/{task}"] = known.level
    levels = [known.level for known in report.values() if known.level is not None]
    if levels:
        metrics["curriculum/level_mean"] = sum(levels) / len(levels)
    return metrics
