"""Looking at processes from outside, through /proc."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


class ProcessId(NamedTuple):
    """A process, told apart from a later one that got the same number."""

    pid: int
    started: str


def descendants(pid: int) -> set[ProcessId]:
    """The children of a process, their children, and so on."""
    children: dict[int, list[ProcessId]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        if status := _status(int(folder.name)):
            children.setdefault(int(status[1]), []).append(ProcessId(int(folder.name), status[19]))
    found: set[ProcessId] = set()
    waiting = [pid]
    while waiting:
        new = children.get(waiting.pop(), [])
        found.update(new)
        waiting += [child.pid for child in new]
    return found


def is_alive(process: ProcessId) -> bool:
    """Whether a process runs; one that ended but was not collected does not."""
    status = _status(process.pid)
    return bool(status) and status[19] == process.started and status[0] != "Z"


def survivors(processes: Iterable[ProcessId], timeout_s: float) -> set[ProcessId]:
    """Wait until the processes are gone, and return those that are not after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    alive = set(filter(is_alive, processes))
    while alive and time.monotonic() < deadline:
        time.sleep(0.05)
        alive = set(filter(is_alive, alive))
    return alive


def _status(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the third on (state, parent, ..., the 20th is the start time), or none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []
