"""Measure the resources of programs: CPU seconds, megabytes of memory, open files, delays of an event loop.

Figures from /proc need Linux, and raise OSError for a process that has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from reasoning_gym_testing.process_table import descendants, is_alive

SAMPLE_INTERVAL_S = 0.5
HEARTBEAT_S = 0.005
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def descendants_cpu_s(pid: int) -> float:
    """Return the processor time of all descendants of a process, including ended ones that were waited for."""
    total = 0.0
    for child in descendants(pid):
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
            total += sum(map(int, fields[11:15])) / _TICKS_PER_S
    return total


def resident_mb(pid: int) -> float:
    return _megabytes(Path(f"/proc/{pid}/status"), "VmRSS:")


def _megabytes(path: Path, name: str) -> float:
    for line in path.read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) / 1024
    raise ProcessLookupError(f"{path} has no {name}: the process has ended")


class Heartbeat:
    """Schedules a wake-up of the running event loop every 5 ms, and records the delays in `late_ms`.

    `held_ms` has the part of each delay in which the loop's own thread worked.
    """

    def __init__(self) -> None:
        self.late_ms: list[float] = []
        self.held_ms: list[float] = []
        self._task = asyncio.create_task(self._beat())

    def stop(self) -> None:
        self._task.cancel()

    async def _beat(self) -> None:
        while True:
            due, worked_s = time.perf_counter() + HEARTBEAT_S, time.thread_time()
            await asyncio.sleep(HEARTBEAT_S)
            late_s = max(0.0, time.perf_counter() - due)
            self.late_ms.append(1000 * late_s)
            self.held_ms.append(1000 * min(late_s, time.thread_time() - worked_s))


# ---------------------------------------------------------------------------- growth


@dataclass(frozen=True)
class Usage:
    """Resources of a program at a moment: resident memory of its main process, open files, processes."""

    memory_mb: float
    open_files: float
    processes: float


class Sampler:
    """Samples the usage of a process and its descendants twice a second, on a thread, while the process lives."""

    def __init__(self, pid: int) -> None:
        self.samples: list[Usage] = []
        self._pid = pid
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    def _sample(self) -> None:
        with contextlib.suppress(OSError):
            while not self._ended.wait(SAMPLE_INTERVAL_S):
                processes = 1 + sum(map(is_alive, descendants(self._pid)))
                open_files = len(os.listdir(f"/proc/{self._pid}/fd"))
                self.samples.append(Usage(resident_mb(self._pid), open_files, processes))


def growth(before: Sequence[Usage], after: Sequence[Usage]) -> dict[str, dict[str, float]]:
    """Return, for each resource, the minimum of both series and the difference in percent.

    The minimum ignores connections that come and go with the load. Leaked resources stay open all the time.
    """
    result = {}
    for name in asdict(before[0]):
        start, end = (min(getattr(usage, name) for usage in samples) for samples in (before, after))
        result[name] = {"before": round(start, 1), "after": round(end, 1), "percent": round(100 * (end / start - 1), 1)}
    return result
