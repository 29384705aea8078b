"""Counts that pool, stream, sampler, dumps and delivery report, and the metrics made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True)
class StreamStats:
    """Counts of the stream: problems ready to be handed out, failures, rejected problems by cause (`flawed`).

    `repeated` counts by task the questions that this process has handed out before, `clamped` the problems of another
    level than the drawn one.
    """

    ready: int
    failures: int
    flawed: Mapping[str, int]
    quarantined: tuple[str, ...]
    repeated: Mapping[str, int] = field(default_factory=dict)
    clamped: int = 0


@dataclass
class PoolStats:
    """Counts since the pool was started."""

    scored: int = 0
    timeouts: int = 0
    crashes: int = 0
    protocol_faults: int = 0
    over_budget: int = 0
    """Groups that were not scored, because their answers exceeded the group's budget of processor time."""
    refused: int = 0
    """Answers at which a verifier failed, because it did what the sandbox refuses."""
    workers_replaced: int = 0
    fork_servers_started: int = 0
    """Fork servers, from which workers are forked: more than one if one was replaced."""


@dataclass(frozen=True)
class TaskReport:
    """Share of draws, pass rate and signal chance of a task, each in [0, 1].

    Pass rate and signal chance are estimates at the levels that are drawn. `level` is the mean level to be drawn, in
    [0, 1]; None without a curriculum.
    """

    share: float
    pass_rate: float
    signal_chance: float
    level: float | None


@dataclass(frozen=True)
class DeliveryStats:
    """Counts of delivered and waiting groups."""

    delivered: int
    waiting: int


@dataclass(frozen=True)
class DumpStats:
    """Counts of groups to dump: on disk (`passed_groups`, `failed_groups`), in memory (`waiting`), lost (`dropped`)."""

    passed_groups: int
    failed_groups: int
    waiting: int
    dropped: int


def service_metrics(
    stream: StreamStats | None,
    pool: PoolStats,
    queued_jobs: int,
    dumps: DumpStats | None = None,
    delivery: DeliveryStats | None = None,
) -> dict[str, float]:
    """Return metrics of the parts that exist; a part that is None has none."""
    metrics: dict[str, float] = {
        "workers/queued_jobs": queued_jobs,
        "workers/replaced": pool.workers_replaced,
        "workers/fork_servers": pool.fork_servers_started,
        "workers/timeouts": pool.timeouts,
        "workers/crashes": pool.crashes,
        "workers/protocol_faults": pool.protocol_faults,
        "workers/over_budget": pool.over_budget,
        "workers/refused": pool.refused,
    }
    if stream is not None:
        metrics["problems/ready"] = stream.ready
        metrics["problems/failures"] = stream.failures
        metrics["problems/flawed"] = sum(stream.flawed.values())
        metrics |= {f"problems/flawed/{cause}": count for cause, count in stream.flawed.items()}
        metrics["problems/repeated"] = sum(stream.repeated.values())
        metrics |= {f"problems/repeated/{task}": count for task, count in stream.repeated.items()}
        metrics["problems/clamped"] = stream.clamped
        metrics["problems/quarantined_tasks"] = len(stream.quarantined)
    if dumps is not None:
        metrics["dumps/written"] = dumps.passed_groups + dumps.failed_groups
        metrics["dumps/waiting"] = dumps.waiting
        metrics["dumps/dropped"] = dumps.dropped
    if delivery is not None:
        metrics["delivery/delivered"] = delivery.delivered
        metrics["delivery/waiting"] = delivery.waiting
    return metrics


def task_metrics(report: Mapping[str, TaskReport]) -> dict[str, float]:
    """Return the sampler's estimates of each task and, with a curriculum, the mean level."""
    metrics = {
        f"sampler_tasks/{task}/{name}": value
        for task, estimates in report.items()
        for name, value in asdict(estimates).items()
        if value is not None
    }
    levels = [estimates.level for estimates in report.values() if estimates.level is not None]
    if levels:
        metrics["sampler/mean_level"] = sum(levels) / len(levels)
    return metrics
