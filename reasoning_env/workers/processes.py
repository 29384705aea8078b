"""What Linux reports about a process in /proc."""

from __future__ import annotations

import contextlib
import os
from itertools import islice


def is_stopped(pid: int) -> bool:
    """Return True if SIGSTOP or a debugger has suspended a process; always False on systems other than Linux."""
    return state_of(f"/proc/{pid}/stat") in (b"T", b"t")


def is_asleep(pid: int, most_threads: int) -> bool:
    """Return True if every thread of a process waits for an event, not for a processor or a disk.

    Only the first `most_threads` threads are checked. Always False on systems other than Linux.
    """
    asleep = False
    with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/task") as threads:
        for thread in islice(threads, most_threads):
            match state_of(f"{thread.path}/stat"):
                case b"S":
                    asleep = True
                case b"Z" | b"X" | b"":  # the thread ended (an ended first thread stays in the list)
                    pass
                case _:
                    return False
    return asleep


def state_of(stat_file: str) -> bytes:
    """Return the state (one letter) from the `stat` file of a process or thread; empty if the file does not exist."""
    return _read_stat(stat_file)[:1]


def thread_count(pid: int) -> int:
    """Return the number of threads of a process; 0 if the system does not report it."""
    fields = _read_stat(f"/proc/{pid}/stat").split()
    return int(fields[17]) if fields else 0  # field 20 of the file, without the first two fields


def _read_stat(stat_file: str) -> bytes:
    """Return the fields of a process's or thread's `stat` file, first the state; empty if the file does not exist."""
    with contextlib.suppress(OSError), open(stat_file, "rb") as stat:
        return stat.read().rpartition(b") ")[2]
    return b""
