"""Limit what a worker process may use. Runs inside workers and the fork server only.

Ordering: `enter_worker` is called once, straight after the fork and before any request is read. No limit can be raised
again afterwards, whatever runs later in the process.
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
MAX_DESCRIPTORS = 4096
"""File descriptors that are closed at most, where the system sets no limit."""


@dataclass(frozen=True)
class WorkerLimits:
    """Limits of a worker: address space and largest file, in megabytes; its niceness, from 0 to 19."""

    memory_mb: int
    file_mb: int
    niceness: int


def enter_worker(directory: str, limits: WorkerLimits, keep_fd: int) -> None:
    """Give a freshly forked process its own session and folder and its limits; close all files but one."""
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


def prctl(option: int, *values: int) -> int:
    """Call Linux's prctl; raises OSError."""
    arguments = [ctypes.c_ulong(value) for value in (*values, 0, 0, 0, 0)[:4]]
    result = int(ctypes.CDLL(None, use_errno=True).prctl(ctypes.c_int(option), *arguments))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def lower_group_priority(pid: int, niceness: int) -> bool:
    """Lower the priority of a worker's scheduling group; False when it is to be tried again.

    Where the kernel groups processes by session (Linux with autogroups), niceness counts inside the group alone.
    Without privileges the kernel takes one change in 100 ms from all processes together, which is why the fork server
    does this and no worker waits for it.
    """
    try:
        if os.getsid(pid) != pid:
            return False  # it does not lead a session of its own yet
        with open(f"/proc/{pid}/autogroup", "w") as autogroup:
            autogroup.write(str(niceness))
    except BlockingIOError:
        return False
    except OSError:
        pass  # no autogroups here, or the worker is gone
    return True


def _die_with_parent() -> None:
    """Have Linux kill this process, even a busy one that reads no socket, when the fork server ends."""
    if sys.platform.startswith("linux"):
        with contextlib.suppress(OSError):
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == 1:
            os._exit(1)


def _close_files(keep_fd: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    highest = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    highest = MAX_DESCRIPTORS if highest == resource.RLIM_INFINITY else min(highest, MAX_DESCRIPTORS)
    os.closerange(3, keep_fd)
    os.closerange(keep_fd + 1, highest)


def _lower(kind: int, value: int) -> None:
    """Set a limit for good; systems without it, or with a lower one already, keep what they have."""
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(kind, (value, value))
