"""What a worker process gives up before it does any work. Runs inside workers only.

Ordering: `enter_worker` is called once, straight after the fork and before any request is read. Every limit can only be
lowered afterwards, so nothing that runs later in the process can lift it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
from dataclasses import dataclass

PR_SET_PDEATHSIG = 1
MEGABYTE = 1 << 20


@dataclass(frozen=True)
class WorkerLimits:
    """Address space and the largest file a worker may write, in megabytes, and its scheduling niceness (0 to 19)."""

    memory_mb: int
    file_mb: int
    niceness: int


def enter_worker(directory: str, limits: WorkerLimits, keep_fd: int) -> None:
    """Turn a freshly forked process into a worker: own session and folder, no stdio, no other files, limited."""
    os.setsid()
    _die_with_parent()
    os.makedirs(directory, exist_ok=True)
    os.chdir(directory)
    _close_files(keep_fd)
    with contextlib.suppress(OSError):
        os.nice(limits.niceness)
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_NOFILE, 64)
    _lower(resource.RLIMIT_FSIZE, limits.file_mb * MEGABYTE)
    _lower(resource.RLIMIT_AS, limits.memory_mb * MEGABYTE)
    # A write over the file limit then raises OSError in the verifier instead of killing the process.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)


def _die_with_parent() -> None:
    """On Linux, let the kernel kill this process when the fork server ends, even a busy one that reads no socket."""
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == 1:
        os._exit(1)


def lower_group_priority(pid: int, niceness: int) -> bool:
    """Lower the priority of the scheduling group that a worker's session is; False when it is to be tried again.

    Where the kernel groups processes by session (Linux with autogroups), niceness counts inside the group alone.
    Without privileges it takes one change in 100 ms, from all processes together, which is why the fork server does
    this and no worker waits for it.
    """
    try:
        if os.getsid(pid) != pid:
            return False  # it has not come to its own session yet
        with open(f"/proc/{pid}/autogroup", "w") as autogroup:
            autogroup.write(str(niceness))
    except BlockingIOError:
        return False
    except OSError:
        pass  # no autogroups here, or the worker is gone
    return True


def _close_files(keep_fd: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    highest = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    highest = 4096 if highest == resource.RLIM_INFINITY else min(highest, 4096)
    os.closerange(3, keep_fd)
    os.closerange(keep_fd + 1, highest)


def _lower(kind: int, value: int) -> None:
    """Set a limit for good; systems without it, or with a lower one already, keep what they have."""
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(kind, (value, value))
