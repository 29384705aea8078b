"""What processes use, read from /proc: processor time in seconds, memory in megabytes, open files. Linux only.

All functions raise OSError for a process that is gone.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from testing.process_table import descendants, is_alive

SAMPLE_EVERY_S = 0.5
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Usage:
    """What a program holds at one moment: resident memory of its main process, its open files, its processes."""

    memory_mb: float
    open_files: float
    processes: float


def usage(pid: int) -> Usage:
    """The usage of a process with those below it."""
    alive = sum(map(is_alive, descendants(pid)))
    return Usage(resident_mb(pid), len(os.listdir(f"/proc/{pid}/fd")), 1 + alive)


class Sampler:
    """Notes the usage of a process twice a second, on a thread of its own, for as long as it lives."""

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
            while not self._ended.wait(SAMPLE_EVERY_S):
                self.samples.append(usage(self._pid))


def growth(before: Sequence[Usage], after: Sequence[Usage]) -> dict[str, dict[str, float]]:
    """For each thing that is counted, the least of two series of samples, and their difference in percent.

    The least, because connections come and go with the load; what leaks stays open all the time.
    """
    result = {}
    for name in asdict(before[0]):
        start, end = (min(getattr(one, name) for one in samples) for samples in (before, after))
        result[name] = {"before": round(start, 1), "after": round(end, 1), "percent": round(100 * (end / start - 1), 1)}
    return result


def cpu_s(pid: int) -> float:
    """Processor time that a process has used, system calls included, without its children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def resident_mb(pid: int) -> float:
    return _kilobytes(Path(f"/proc/{pid}/status"), "VmRSS:") / 1024


def proportional_mb(pids: Iterable[int]) -> float:
    """Memory of several processes, with what they share counted once."""
    return sum(_kilobytes(Path(f"/proc/{pid}/smaps_rollup"), "Pss:") for pid in pids) / 1024


def _kilobytes(path: Path, name: str) -> int:
    for line in path.read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1])
    raise ProcessLookupError(f"{path} has no {name}: the process has ended")
