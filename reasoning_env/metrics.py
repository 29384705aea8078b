"""What the environment counts: per interval for a metrics backend, in total for the progress line.

Every name has one meaning. Shares and scores are in [0, 1], times in seconds, lengths in tokens.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from enum import Enum

from .records import Group, Reason, Rollout, Verdict
from .tasks import TaskReport
from .workers import PoolStats, StreamStats

CORRECT = 1.0 - 1e-9
"""The score from which a rollout counts as correct."""


class Outcome(str, Enum):
    """What became of a group."""

    KEPT = "kept"
    ALL_RIGHT = "all_right"
    ALL_WRONG = "all_wrong"
    ALL_EQUAL = "all_equal"
    """Equal scores that are neither right nor wrong: no signal either."""


class Loss(str, Enum):
    """Why a problem gave no group at all."""

    INFERENCE = "inference_failed"
    SCORING = "scoring_failed"
    PROMPT_TOO_LONG = "prompt_too_long"


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


class _Interval:
    """Sums since the last report."""

    def __init__(self) -> None:
        self.outcomes: Counter[Outcome] = Counter()
        self.reasons: Counter[Reason] = Counter()
        self.task_scores: defaultdict[str, list[float]] = defaultdict(list)
        self.scores: list[float] = []
        self.correct = 0
        self.truncated = 0
        self.prompt_tokens: list[int] = []
        self.completion_tokens: list[int] = []
        self.generation_s: list[float] = []
        self.levels: list[float] = []
        self.scoring_s: list[float] = []


class MetricsRecorder:
    """Observes groups and losses; not thread-safe, used on the event loop only."""

    def __init__(self) -> None:
        self._interval = _Interval()
        self.outcomes: Counter[Outcome] = Counter()
        self.losses: Counter[Loss] = Counter()
        self._tasks: set[str] = set()
        self._rollouts = 0
        self._score_sum = 0.0
        self._correct = 0

    def record_group(self, group: Group) -> Outcome:
        """Count a scored group, whether or not it will be sent."""
        outcome = classify(group)
        interval = self._interval
        interval.outcomes[outcome] += 1
        interval.generation_s.append(group.problem.generation_s)
        if group.problem.level is not None:
            interval.levels.append(group.problem.level)
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
        interval.scores.append(rollout.score)
        interval.task_scores[task].append(rollout.score)
        interval.reasons[verdict.reason] += 1
        interval.correct += correct
        interval.truncated += rollout.truncated
        interval.completion_tokens.append(completion)
        interval.prompt_tokens.append(len(rollout.tokens) - completion)
        interval.scoring_s.append(verdict.scoring_s)
        self._rollouts += 1
        self._score_sum += rollout.score
        self._correct += correct

    def record_loss(self, loss: Loss) -> None:
        self.losses[loss] += 1

    def report(self, stream: StreamStats | None, pool: PoolStats, queued_jobs: int) -> dict[str, float]:
        """The metrics since the last report, which this one ends."""
        interval, self._interval = self._interval, _Interval()
        metrics: dict[str, float] = {}
        rollouts, groups = len(interval.scores), sum(interval.outcomes.values())
        if rollouts:
            metrics["train/mean_score"] = _mean(interval.scores)
            metrics["train/share_correct"] = interval.correct / rollouts
            metrics["train/truncated_share"] = interval.truncated / rollouts
            metrics["train/prompt_tokens_mean"] = _mean(interval.prompt_tokens)
            metrics["train/completion_tokens_mean"] = _mean(interval.completion_tokens)
            metrics["train/completion_tokens_max"] = max(interval.completion_tokens)
            metrics["perf/generation_s_mean"] = _mean(interval.generation_s)
            metrics["perf/generation_s_max"] = max(interval.generation_s)
            metrics["perf/scoring_s_mean"] = _mean(interval.scoring_s)
            metrics["perf/scoring_s_max"] = max(interval.scoring_s)
            if interval.levels:
                metrics["train/level_mean"] = _mean(interval.levels)
            for reason in Reason:
                metrics[f"train/reason/{reason.value}"] = interval.reasons[reason] / rollouts
            for outcome in Outcome:
                metrics[f"train/groups/{outcome.value}"] = interval.outcomes[outcome] / groups
            for task, scores in sorted(interval.task_scores.items()):
                metrics[f"train/task_mean_score/{task}"] = _mean(scores)
        for loss in Loss:
            metrics[f"lost/{loss.value}"] = self.losses[loss]
        metrics.update(_worker_metrics(stream, pool, queued_jobs))
        return metrics

    def progress_line(self, stream: StreamStats | None) -> str:
        """Totals since the start as `key=value` words."""
        groups = sum(self.outcomes.values())
        words: dict[str, object] = {
            "groups": groups,
            **{outcome.value: self.outcomes[outcome] for outcome in Outcome},
            "failed": sum(self.losses.values()),
            "mean_score": f"{self._score_sum / self._rollouts:.3f}" if self._rollouts else "nan",
            "share_correct": f"{self._correct / self._rollouts:.3f}" if self._rollouts else "nan",
            "tasks": len(self._tasks),
            "quarantined": len(stream.quarantined) if stream else 0,
            "ready": stream.ready if stream else 0,
        }
        return "progress: " + " ".join(f"{key}={value}" for key, value in words.items())


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
        metrics["perf/passed_over_problems"] = stream.passed_over
        metrics["tasks/generation_failures"] = stream.failures
        metrics["tasks/flawed_problems"] = stream.flawed
        metrics["tasks/quarantined"] = len(stream.quarantined)
    return metrics


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


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
        metrics["curriculum/level_mean"] = _mean(levels)
    return metrics
