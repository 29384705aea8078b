"""Statistics of the worker pool, the problem stream, the sampler, delivery and dumps, each with a table of metrics."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Protocol

from ..records import Rejection
from ..tasks.declaration import Cause
from .metric import Kind, Metric


@dataclass
class PoolStats:
    """Counters of the worker pool since its start. The metrics in `POOL` describe each counter."""

    scored: int = 0
    timeouts: int = 0
    crashes: int = 0
    protocol_faults: int = 0
    over_budget: int = 0
    refused: int = 0
    workers_replaced: int = 0
    fork_servers_started: int = 0


class ObservedPool(Protocol):
    """The attributes of a worker pool that the metrics read."""

    @property
    def stats(self) -> PoolStats: ...

    @property
    def queued_jobs(self) -> int: ...

    @property
    def worker_pids(self) -> Sequence[int]: ...


POOL: Sequence[Metric[ObservedPool]] = (
    Metric("workers/alive", Kind.NOW, "running worker processes", lambda pool: len(pool.worker_pids)),
    Metric(
        "workers/resident_memory_bytes",
        Kind.NOW,
        "memory of all workers; a shared page counts once per worker",
        lambda pool: sum(map(_resident_bytes, pool.worker_pids)),
    ),
    Metric("workers/queued_jobs", Kind.NOW, "jobs that wait for a free worker", lambda pool: pool.queued_jobs),
    Metric("workers/replaced", Kind.COUNT, "dead workers that were replaced", lambda pool: pool.stats.workers_replaced),
    Metric(
        "workers/fork_servers",
        Kind.COUNT,
        "fork servers (processes that fork the workers) started so far; above 1 if one was replaced",
        lambda pool: pool.stats.fork_servers_started,
    ),
    Metric("workers/scored", Kind.COUNT, "answers that were scored", lambda pool: pool.stats.scored),
    Metric(
        "workers/timeouts", Kind.COUNT, "answers whose scoring exceeded the deadline", lambda pool: pool.stats.timeouts
    ),
    Metric(
        "workers/crashes",
        Kind.COUNT,
        "answers that ended a worker twice",
        lambda pool: pool.stats.crashes,
    ),
    Metric(
        "workers/protocol_faults", Kind.COUNT, "malformed replies from workers", lambda pool: pool.stats.protocol_faults
    ),
    Metric(
        "workers/over_budget",
        Kind.COUNT,
        "groups dropped because scoring exceeded the group's limit of processor time",
        lambda pool: pool.stats.over_budget,
    ),
    Metric(
        "workers/refused",
        Kind.COUNT,
        "answers whose verifier failed because the sandbox refused an operation",
        lambda pool: pool.stats.refused,
    ),
)


def _resident_bytes(pid: int) -> int:
    """Return the memory of a process; 0 if it has ended, or if the system has no /proc."""
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    return 0


@dataclass(frozen=True)
class StreamStats:
    """Counters of the problem stream. The metrics in `STREAM` describe each counter.

    `flawed` counts rejected problems by cause; `repeated` counts repeated questions by task.
    `quarantined` names the tasks that are no longer drawn because they failed.
    """

    ready: int = 0
    in_flight: int = 0
    failures: int = 0
    flawed: Mapping[str, int] = field(default_factory=dict)
    quarantined: Sequence[str] = ()
    repeated: Mapping[str, int] = field(default_factory=dict)
    clamped: int = 0


_CAUSES = (*Cause, Rejection.HELD_OUT, Rejection.TOO_LONG)
"""The reasons why training rejects a generated problem."""
STREAM: Sequence[Metric[StreamStats]] = (
    Metric("problems/ready", Kind.NOW, "problems generated in advance", lambda stream: stream.ready),
    Metric(
        "problems/in_flight",
        Kind.NOW,
        "problems in flight: served, and not yet scored or dropped",
        lambda stream: stream.in_flight,
    ),
    Metric("problems/failures", Kind.COUNT, "failed attempts to generate a problem", lambda stream: stream.failures),
    Metric(
        "problems/flawed/CAUSE",
        Kind.COUNT,
        "problems rejected before serving, by cause",
        lambda stream: {cause.value: stream.flawed.get(cause, 0) for cause in _CAUSES},
    ),
    Metric(
        "problems/repeated/TASK",
        Kind.COUNT,
        "problems whose question had been served before",
        lambda stream: stream.repeated,
    ),
    Metric(
        "problems/clamped",
        Kind.COUNT,
        "problems served at the nearest possible level, because `task_params` rule out the requested level",
        lambda stream: stream.clamped,
    ),
    Metric(
        "problems/quarantined_tasks",
        Kind.NOW,
        "tasks no longer used, because generating their problems failed several times in a row",
        lambda stream: len(stream.quarantined),
    ),
)


@dataclass(frozen=True)
class TaskReport:
    """A task's share of the sampled problems, its pass rate and its signal chance, each in [0, 1].

    The signal chance is the probability that a group's scores differ. Pass rate, signal chance and `level` are means
    over the levels that the sampler now draws. Without a curriculum, `level` is None.
    """

    share: float
    pass_rate: float
    signal_chance: float
    level: float | None


SAMPLER: Sequence[Metric[Mapping[str, TaskReport]]] = (
    Metric(
        "sampler/mean_level",
        Kind.NOW,
        "level of the curriculum's next problems, mean over all tasks",
        lambda tasks: fmean(levels.values()) if (levels := _levels(tasks)) else None,
    ),
    Metric("sampler_tasks/TASK/level", Kind.NOW, "level of the task's next problem", lambda tasks: _levels(tasks)),
    Metric(
        "sampler_tasks/TASK/share",
        Kind.NOW,
        "probability that the next problem is of this task",
        lambda tasks: {task: report.share for task, report in tasks.items()},
    ),
    Metric(
        "sampler_tasks/TASK/pass_rate",
        Kind.NOW,
        "estimated share of right completions, by task",
        lambda tasks: {task: report.pass_rate for task, report in tasks.items()},
    ),
    Metric(
        "sampler_tasks/TASK/signal_chance",
        Kind.NOW,
        "estimated chance that scores of the same group differ",
        lambda tasks: {task: report.signal_chance for task, report in tasks.items()},
    ),
)


def _levels(tasks: Mapping[str, TaskReport]) -> dict[str, float]:
    return {task: report.level for task, report in tasks.items() if report.level is not None}


@dataclass(frozen=True)
class DeliveryStats:
    """Counts of delivered and waiting groups."""

    delivered: int
    waiting: int


DELIVERY: Sequence[Metric[DeliveryStats]] = (
    Metric("delivery/delivered", Kind.COUNT, "groups whose delivery was confirmed", lambda groups: groups.delivered),
    Metric("delivery/waiting", Kind.NOW, "groups that wait for delivery", lambda groups: groups.waiting),
)


@dataclass(frozen=True)
class DumpStats:
    """Counts of groups: dumped (`passed_groups`, `failed_groups`), not yet dumped (`waiting`), lost (`dropped`)."""

    passed_groups: int
    failed_groups: int
    waiting: int
    dropped: int


DUMPS: Sequence[Metric[DumpStats]] = (
    Metric(
        "dumps/written",
        Kind.COUNT,
        "groups written to dumps",
        lambda groups: groups.passed_groups + groups.failed_groups,
    ),
    Metric("dumps/waiting", Kind.NOW, "groups that wait to be written to dumps", lambda groups: groups.waiting),
    Metric("dumps/dropped", Kind.COUNT, "groups that could not be written to dumps", lambda groups: groups.dropped),
)
