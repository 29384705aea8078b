"""What the environment counts: per interval for a metrics backend, in total for the progress line.

Every name has one meaning. Shares and scores are in [0, 1], times in seconds, lengths in tokens.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from enum import Enum, StrEnum
from typing import Any, TypeVar

from .records import (
    DeliveryStats,
    DropReason,
    DumpStats,
    Group,
    PoolStats,
    Reason,
    Rollout,
    StreamStats,
    TaskReport,
    Verdict,
)

CORRECT = 1.0 - 1e-9
"""The score from which a rollout counts as correct."""

E = TypeVar("E", bound=Enum)


class Outcome(StrEnum):
    """What became of a group."""

    KEPT = "kept"
    ALL_RIGHT = "all_right"
    ALL_WRONG = "all_wrong"
    ALL_EQUAL = "all_equal"
    """Equal scores that are neither right nor wrong: no signal either."""


def is_correct(verdict: Verdict | None) -> bool:
    return verdict is not None and verdict.score >= CORRECT


def classify(group: Group) -> Outcome:
    """Whether a group carries a signal and, if not, why; a group of one cannot be compared and counts as kept."""
    if len(group.rollouts) == 1 or len(set(group.scores)) > 1:
        return Outcome.KEPT
    if all(is_correct(rollout.verdict) for rollout in group.rollouts):
        return Outcome.ALL_RIGHT
    if not any(group.scores):
        return Outcome.ALL_WRONG
    return Outcome.ALL_EQUAL


class _Measure(StrEnum):
    """What is averaged over an interval: the first five over rollouts, the others over groups."""

    SCORE = "score"
    CORRECT = "correct"
    TRUNCATED = "truncated"
    PROMPT_TOKENS = "prompt_tokens"
    COMPLETION_TOKENS = "completion_tokens"
    SCORING_S = "scoring_s"
    GENERATION_S = "generation_s"
    LEVEL = "level"


@dataclass
class _Tally:
    """Of some values, none of them below 0: how many, their sum and the highest."""

    count: int = 0
    total: float = 0
    highest: float = 0

    def add(self, value: float) -> None:
        self.count += 1
        self.total += value
        self.highest = max(self.highest, value)

    @property
    def mean(self) -> float:
        return self.total / self.count


class _Interval:
    """Sums since the last report; `state` is what `state()` returned."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        self.outcomes = _counter(Outcome, state.get("outcomes", {}))
        self.reasons = _counter(Reason, state.get("reasons", {}))
        measures = {_Measure(name): _Tally(*values) for name, values in state.get("measures", {}).items()}
        self.measures: defaultdict[_Measure, _Tally] = defaultdict(_Tally, measures)
        tasks = {task: _Tally(*values) for task, values in state.get("task_scores", {}).items()}
        self.task_scores: defaultdict[str, _Tally] = defaultdict(_Tally, tasks)

    def state(self) -> dict[str, Any]:
        return {
            "outcomes": _counts(self.outcomes),
            "reasons": _counts(self.reasons),
            "measures": {measure.value: astuple(tally) for measure, tally in self.measures.items()},
            "task_scores": {task: astuple(tally) for task, tally in self.task_scores.items()},
        }


class MetricsRecorder:
    """Counts groups and dropped problems; used on the event loop only."""

    def __init__(self) -> None:
        self.restore({})

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state()` returned, as that run's recorder would have."""
        self._interval = _Interval(state.get("interval", {}))
        self.outcomes = _counter(Outcome, state.get("outcomes", {}))
        self.dropped = _counter(DropReason, state.get("dropped", {}))
        self._tasks: set[str] = set(state.get("tasks", []))
        self._scores = _Tally(*state.get("scores", ()))
        self._correct = _Tally(*state.get("correct", ()))

    def state(self) -> dict[str, Any]:
        """Everything that later reports and progress lines depend on, as JSON holds it."""
        return {
            "interval": self._interval.state(),
            "outcomes": _counts(self.outcomes),
            "dropped": _counts(self.dropped),
            "tasks": sorted(self._tasks),
            "scores": astuple(self._scores),
            "correct": astuple(self._correct),
        }

    def record_group(self, group: Group) -> Outcome:
        """Count a scored group, whether or not it will be sent."""
        outcome = classify(group)
        interval = self._interval
        interval.outcomes[outcome] += 1
        interval.measures[_Measure.GENERATION_S].add(group.problem.generation_s)
        if group.problem.level is not None:
            interval.measures[_Measure.LEVEL].add(group.problem.level)
        for rollout in group.rollouts:
            self._record_rollout(group.problem.task, rollout)
        self.outcomes[outcome] += 1
        self._tasks.add(group.problem.task)
        return outcome

    def _record_rollout(self, task: str, rollout: Rollout) -> None:
        interval = self._interval
        verdict = rollout.verdict
        assert verdict is not None, "only scored rollouts are recorded"
        correct = is_correct(verdict)
        completion = len(rollout.masks) - rollout.masks.count(-100)
        interval.reasons[verdict.reason] += 1
        interval.task_scores[task].add(rollout.score)
        interval.measures[_Measure.SCORE].add(rollout.score)
        interval.measures[_Measure.CORRECT].add(int(correct))
        interval.measures[_Measure.TRUNCATED].add(int(rollout.truncated))
        interval.measures[_Measure.COMPLETION_TOKENS].add(completion)
        interval.measures[_Measure.PROMPT_TOKENS].add(len(rollout.tokens) - completion)
        interval.measures[_Measure.SCORING_S].add(verdict.scoring_s)
        self._scores.add(rollout.score)
        self._correct.add(int(correct))

    def record_dropped(self, dropped: DropReason) -> None:
        self.dropped[dropped] += 1

    def report(
        self,
        stream: StreamStats | None,
        pool: PoolStats,
        queued_jobs: int,
        *,
        dumps: DumpStats | None = None,
        delivery: DeliveryStats | None = None,
    ) -> dict[str, float]:
        """The metrics since the last report, which this one ends."""
        interval, self._interval = self._interval, _Interval({})
        metrics = _interval_metrics(interval) if interval.outcomes else {}
        for dropped in DropReason:
            metrics[f"dropped/{dropped.value}"] = self.dropped[dropped]
        metrics.update(_worker_metrics(stream, pool, queued_jobs))
        if dumps is not None:
            metrics["dumps/written"] = dumps.passed_groups + dumps.failed_groups
            metrics["dumps/waiting"] = dumps.waiting
            metrics["dumps/dropped"] = dumps.dropped
        if delivery is not None:
            metrics["delivery/delivered"] = delivery.delivered
            metrics["delivery/waiting"] = delivery.waiting
            metrics["delivery/repeated"] = delivery.repeated
        return metrics

    def progress_line(
        self,
        stream: StreamStats | None,
        *,
        dumps: DumpStats | None = None,
        delivery: DeliveryStats | None = None,
    ) -> str:
        """Totals since the start as `key=value` words; `waiting` and `dump_lost` groups only where there are some."""
        words: dict[str, object] = {
            "groups": sum(self.outcomes.values()),
            **{outcome.value: self.outcomes[outcome] for outcome in Outcome},
            "failed": sum(self.dropped.values()),
            "mean_score": f"{self._scores.mean:.3f}" if self._scores.count else "nan",
            "share_correct": f"{self._correct.mean:.3f}" if self._correct.count else "nan",
            "tasks": len(self._tasks),
            "quarantined": len(stream.quarantined) if stream else 0,
            "ready": stream.ready if stream else 0,
        }
        if delivery is not None and delivery.waiting:
            words["waiting"] = delivery.waiting
        if dumps is not None and dumps.dropped:
            words["dump_dropped"] = dumps.dropped
        return "progress: " + " ".join(f"{key}={value}" for key, value in words.items())


def _interval_metrics(interval: _Interval) -> dict[str, float]:
    """The metrics of an interval with at least one group."""
    measures = interval.measures
    metrics: dict[str, float] = {
        "train/mean_score": measures[_Measure.SCORE].mean,
        "train/share_correct": measures[_Measure.CORRECT].mean,
        "train/truncated_share": measures[_Measure.TRUNCATED].mean,
        "train/prompt_tokens_mean": measures[_Measure.PROMPT_TOKENS].mean,
        "train/completion_tokens_mean": measures[_Measure.COMPLETION_TOKENS].mean,
        "train/completion_tokens_max": measures[_Measure.COMPLETION_TOKENS].highest,
        "perf/generation_s_mean": measures[_Measure.GENERATION_S].mean,
        "perf/generation_s_max": measures[_Measure.GENERATION_S].highest,
        "perf/scoring_s_mean": measures[_Measure.SCORING_S].mean,
        "perf/scoring_s_max": measures[_Measure.SCORING_S].highest,
    }
    if _Measure.LEVEL in measures:
        metrics["train/level_mean"] = measures[_Measure.LEVEL].mean
    rollouts, groups = sum(interval.reasons.values()), sum(interval.outcomes.values())
    for reason in Reason:
        metrics[f"train/reason/{reason.value}"] = interval.reasons[reason] / rollouts
    for outcome in Outcome:
        metrics[f"train/groups/{outcome.value}"] = interval.outcomes[outcome] / groups
    for task, scores in sorted(interval.task_scores.items()):
        metrics[f"train/task_mean_score/{task}"] = scores.mean
    return metrics


def _worker_metrics(stream: StreamStats | None, pool: PoolStats, queued_jobs: int) -> dict[str, float]:
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
    return metrics


def _counter(kind: type[E], counts: Mapping[str, int]) -> Counter[E]:
    return Counter({kind(name): count for name, count in counts.items()})


def _counts(counter: Counter[E]) -> dict[str, int]:
    return {member.value: count for member, count in counter.items()}


def task_metrics(report: Mapping[str, TaskReport]) -> dict[str, float]:
    """What a sampler that learns knows of each task, and the mean level where a curriculum sets levels."""
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
