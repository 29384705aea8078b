"""Inspect other processes through /proc. Linux only."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path


def descendants(pid: int) -> set[int]:
    """Return the children of a process, their children, and so on."""
    statuses = {int(folder.name): _status(int(folder.name)) for folder in Path("/proc").glob("[0-9]*")}
    found: set[int] = set()
    parents = {pid}
    while parents:
        parents = {child for child, status in statuses.items() if status and int(status[1]) in parents}
        found |= parents
    return found


def is_alive(pid: int) -> bool:
    """Return True if a process runs; False for a zombie."""
    status = _status(pid)
    return bool(status) and status[0] != "Z"


def survivors(pids: Iterable[int], timeout_s: float) -> set[int]:
    """Wait until all processes have ended; return the processes that still run after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while (alive := set(filter(is_alive, pids))) and time.monotonic() < deadline:
        time.sleep(0.05)
    return alive


def _status(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the third on (state, parent, ...); empty if the process has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []
