"""What the environment counts: per interval for a metrics backend, in total for the progress line.

Every name has one meaning. The README's table has them all, and a test holds it to what is logged. What stands before
the first slash is a section of a dashboard; what there is of each task, reason or outcome has a section of its own.
Shares and scores are in [0, 1], times in seconds, lengths in tokens.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from enum import StrEnum
from typing import Any

from .pace import Pace
from .records import DeliveryStats, DropReason, DumpStats, Group, PoolStats, Reason, StreamStats, TaskReport

MAXIMA = {
    "train/mean_completion_tokens": "train/max_completion_tokens",
    "time/mean_generation_s": "time/max_generation_s",
    "time/mean_scoring_s": "time/max_scoring_s",
}
"""Means whose highest value is reported too, and under which name."""


class Outcome(StrEnum):
    """What became of a group."""

    WITH_SIGNAL = "with_signal"
    ALL_RIGHT = "all_right"
    ALL_WRONG = "all_wrong"
    ALL_EQUAL = "all_equal"
    """Equal scores that are neither right nor wrong: no signal either."""


def classify(group: Group) -> Outcome:
    """Tell whether a group carries a signal (a group of one always does) and, if not, why."""
    if len(group.rollouts) == 1 or group.has_signal:
        return Outcome.WITH_SIGNAL
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

    def add(self, group: Group, outcome: Outcome) -> None:
        self.outcomes[outcome.value] += 1
        for name, values in _values(group):
            self.tallies[name].add(values)
        self.reasons.update(rollout.verdict.reason.value for rollout in group.rollouts if rollout.verdict)

    def state(self) -> dict[str, Any]:
        tallies = {name: astuple(tally) for name, tally in self.tallies.items()}
        return {"outcomes": dict(self.outcomes), "reasons": dict(self.reasons), "tallies": tallies}

    def metrics(self) -> dict[str, float]:
        """Return means, maxima and shares; nothing where there was no group."""
        metrics = {name: tally.mean for name, tally in sorted(self.tallies.items())}
        metrics |= {MAXIMA[name]: self.tallies[name].highest for name in MAXIMA.keys() & metrics.keys()}
        if self.tallies:
            groups, rollouts = self.outcomes.total(), self.reasons.total()
            metrics |= {f"train_groups/{outcome.value}": self.outcomes[outcome] / groups for outcome in Outcome}
            metrics |= {f"train_reasons/{reason.value}": self.reasons[reason] / rollouts for reason in Reason}
        return metrics


@dataclass
class TaskTotals:
    """Totals of a task; `right` and `unanswered` count rollouts, `score` is the sum of their scores."""

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

    def of_rollouts(self, count: float) -> float:
        """Return the mean over all rollouts of what `count` adds up; not a number where there are none."""
        return count / self.rollouts if self.rollouts else math.nan


class MetricsRecorder:
    """Counts groups and dropped problems; used on the event loop only."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._pace = Pace(clock)
        self.restore({})

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state()` returned, as that run's recorder would have."""
        self._interval = _Sums(state.get("interval", {}))
        self._outcomes: Counter[str] = Counter(state.get("outcomes", {}))
        tasks = {task: TaskTotals(*totals) for task, totals in state.get("tasks", {}).items()}
        self.tasks: defaultdict[str, TaskTotals] = defaultdict(TaskTotals, tasks)
        self.total = TaskTotals(*map(sum, zip(*(vars(totals).values() for totals in tasks.values()), strict=True)))
        self.dropped: Counter[str] = Counter(state.get("dropped", {}))
        self._retried: int = state.get("retried", 0)

    def state(self) -> dict[str, Any]:
        """Return everything that later reports and progress lines depend on but the pace, as JSON holds it."""
        return {
            "interval": self._interval.state(),
            "outcomes": dict(self._outcomes),
            "tasks": {task: astuple(totals) for task, totals in self.tasks.items()},
            "dropped": dict(self.dropped),
            "retried": self._retried,
        }

    def record_group(self, group: Group) -> Outcome:
        """Count a scored group, whether or not it will be sent."""
        outcome = classify(group)
        self._interval.add(group, outcome)
        self._outcomes[outcome.value] += 1
        self.tasks[group.problem.task].add(group)
        self.total.add(group)
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
        """Return totals and current pace as `key=value` words, some only where there is anything to tell."""
        total = self.total
        words: dict[str, object] = {
            "groups": total.groups,
            **{outcome.value: self._outcomes[outcome] for outcome in Outcome},
            "failed": self.dropped.total(),
            "mean_score": f"{total.of_rollouts(total.score):.3f}",
            "share_correct": f"{total.of_rollouts(total.right):.3f}",
            "tasks": len(self.tasks),
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
    yield "time/mean_generation_s", (problem.generation_s,)
    if problem.level is not None:
        yield "train/mean_level", (problem.level,)
    yield "train/mean_score", group.scores
    yield f"train_tasks/{problem.task}/mean_score", group.scores
    yield "train/share_correct", [int(verdict.correct) for verdict in verdicts]
    yield "train/share_truncated", [int(rollout.truncated) for rollout in rollouts]
    if rollouts[0].tokens:
        yield "train/mean_prompt_tokens", [rollouts[0].masks.count(-100)] * len(rollouts)
    if lengths := [length for rollout in rollouts if (length := rollout.completion_tokens) is not None]:
        yield "train/mean_completion_tokens", lengths
    yield "time/mean_scoring_s", [verdict.scoring_s for verdict in verdicts]


def service_metrics(
    stream: StreamStats | None,
    pool: PoolStats,
    queued_jobs: int,
    dumps: DumpStats | None = None,
    delivery: DeliveryStats | None = None,
) -> dict[str, float]:
    """Return how the parts around the groups do; nothing of those that there are not."""
    metrics: dict[str, float] = {
        "workers/queued_jobs": queued_jobs,
        "workers/replaced": pool.workers_replaced,
        "workers/timeouts": pool.timeouts,
        "workers/crashes": pool.crashes,
        "workers/protocol_faults": pool.protocol_faults,
        "workers/over_budget": pool.over_budget,
    }
    if stream is not None:
        metrics["problems/ready"] = stream.ready
        metrics["problems/failures"] = stream.failures
        metrics["problems/flawed"] = stream.flawed
        metrics["problems/quarantined_tasks"] = len(stream.quarantined)
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
    """Return what the sampler has learnt of each task and, under a curriculum, the mean level."""
    metrics = {
        f"sampler_tasks/{task}/{name}": value
        for task, known in report.items()
        for name, value in asdict(known).items()
        if value is not None
    }
    levels = [known.level for known in report.values() if known.level is not None]
    if levels:
        metrics["sampler/mean_level"] = sum(levels) / len(levels)
    return metrics
