"""Metrics for Prometheus: the process and its workers, a server of `/metrics`, and the reply to a scrape.

docs/operating.md lists every metric, and a test compares the page with what is served.
"""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Protocol

from aiohttp import web
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from ..records import LibraryInfo
from ..runtime.turns import in_background
from .stats import PoolStats

DURATIONS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0)
"""Bounds of the histograms of seconds: Prometheus' own, and more, since completions may take minutes."""
WORKER_COUNTS = {
    "scored": "Answers that were scored",
    "timeouts": "Answers over their deadline",
    "crashes": "Answers that ended two workers",
    "protocol_faults": "Malformed replies of workers",
    "over_budget": "Groups over their budget of processor time",
    "refused": "Answers at which a verifier did what its sandbox refuses",
    "workers_replaced": "Worker processes that were replaced",
    "fork_servers_started": "Fork servers that were started: more than 1 if one was replaced",
}
"""What each count of `PoolStats` means."""


class ObservedPool(Protocol):
    """A pool of workers, as far as it is observed."""

    @property
    def stats(self) -> PoolStats: ...

    @property
    def queued_jobs(self) -> int: ...

    @property
    def worker_pids(self) -> Sequence[int]: ...


class ObservedSession(Protocol):
    """A session, as far as it is observed."""

    @property
    def pool(self) -> ObservedPool: ...

    @property
    def library(self) -> LibraryInfo: ...


class HostCollector(Collector):
    """The versions at work, and the workers of a session. Before the session has started, the versions are missing."""

    def __init__(self, host: ObservedSession, version: str) -> None:
        self._host = host
        self._version = version

    def collect(self) -> Iterator[Metric]:
        with contextlib.suppress(RuntimeError):
            versions = {
                "version": self._version,
                "reasoning_gym": self._host.library.version,
                "python": platform.python_version(),
            }
            yield InfoMetricFamily("reasoning_build", "Versions at work; reasoning_gym is empty for rows", versions)
        pool = self._host.pool
        pids = pool.worker_pids
        yield GaugeMetricFamily("reasoning_workers", "Worker processes that live", len(pids))
        memory = sum(map(_resident_bytes, pids))
        yield GaugeMetricFamily("reasoning_workers_resident_memory_bytes", "Memory of all workers", memory)
        yield GaugeMetricFamily("reasoning_workers_queued_jobs", "Jobs that wait for a worker", pool.queued_jobs)
        for field in fields(PoolStats):
            name = f"reasoning_workers_{field.name.removeprefix('workers_')}"
            yield CounterMetricFamily(name, WORKER_COUNTS[field.name], getattr(pool.stats, field.name))


def _resident_bytes(pid: int) -> int:
    """Return the memory of a process; 0 where it has ended, and where the system has no /proc."""
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    return 0


def new_registry() -> CollectorRegistry:
    """Return a registry with the metrics of this process: memory, processor time, open files, start."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    return registry


async def reply_to_scrape(registry: CollectorRegistry) -> web.Response:
    """Return all metrics as text, which a thread writes."""
    text = await in_background(generate_latest, registry)
    return web.Response(body=text, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})


def metrics_runner(registry: CollectorRegistry) -> web.AppRunner:
    """Return a runner that serves `GET /metrics`."""

    async def scrape(_: web.Request) -> web.Response:
        return await reply_to_scrape(registry)

    app = web.Application()
    app.router.add_get("/metrics", scrape)
    return web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
