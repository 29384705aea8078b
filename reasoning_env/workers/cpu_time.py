"""Wait for a worker's reply by the worker's own processor time, so that a busy machine costs nobody an answer.

Only Linux tells the processor time of another process; elsewhere the limit is wall-clock time.
"""

from __future__ import annotations

import asyncio

from .protocol import Frame
from .worker import DeadlineExceeded, Worker

WORKER_STALL_S = 5.0
"""Seconds without any processor time after which a worker counts as stopped. The kernel gives every process that can
run some milliseconds a second, on a machine with fifty times as many processes as cores too."""


class Starved(Exception):
    """A worker gets hardly any processor time, or is stopped: an infrastructure error."""


class Asleep(Starved):
    """A worker waits for an event that does not come, such as the end of `time.sleep`, and not for a processor."""


class Stopwatch:
    """Measures the processor time of a worker from now on."""

    def __init__(self, worker: Worker) -> None:
        self._now = asyncio.get_running_loop().time
        self._worker = worker
        self._began = self._now()
        self._cpu_began_s = worker.cpu_s()

    @property
    def wall_s(self) -> float:
        """Seconds since the start."""
        return self._now() - self._began

    @property
    def cpu_s(self) -> float:
        """Processor time since the start, in seconds; wall-clock time where the system does not tell it."""
        cpu_s = self._worker.cpu_s()
        if cpu_s is None or self._cpu_began_s is None:
            return self.wall_s
        return cpu_s - self._cpu_began_s


async def receive_in_cpu_time(worker: Worker, limit_s: float, patience_s: float) -> Frame:
    """Return a worker's next reply.

    Raises:
        DeadlineExceeded: The worker used `limit_s` seconds of processor time.
        Asleep: The worker was asleep at every look, for the longer of `limit_s` and WORKER_STALL_S seconds.
        Starved: The worker used less than `limit_s` in `patience_s` seconds, or none at all in WORKER_STALL_S seconds.
        WorkerDied, ProtocolFault: As `Worker.receive`.
    """
    used = Stopwatch(worker)
    cpu_s = 0.0
    changed_s = 0.0
    awake_s: float | None = None
    while cpu_s < limit_s:
        try:
            # At least 20 ms between two measurements, however close the worker is to its limit.
            return await worker.receive(min(max(limit_s - cpu_s, 0.02), WORKER_STALL_S))
        except DeadlineExceeded:
            before_s = cpu_s
            cpu_s = used.cpu_s
        waited_s = used.wall_s
        if cpu_s > before_s:
            changed_s = waited_s
        is_asleep = worker.is_asleep
        if awake_s is None or not is_asleep:
            awake_s = waited_s
        if cpu_s < limit_s and waited_s - awake_s >= max(limit_s, WORKER_STALL_S):
            raise Asleep(f"a worker was asleep for {waited_s - awake_s:.0f} s")
        has_stalled = waited_s - changed_s > WORKER_STALL_S and not is_asleep
        if cpu_s < limit_s and (waited_s > patience_s or has_stalled):
            raise Starved(f"a worker got {cpu_s:.1f} s of processor time in {waited_s:.0f} s")
    raise DeadlineExceeded
