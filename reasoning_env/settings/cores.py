"""Count the cores that this process may use, and derive the number of worker processes from them."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

MAX_WORKERS = 8
"""Maximum of `default_workers()`. More workers are rarely all busy, and each takes 50 to 150 MB."""


@functools.cache
def default_workers() -> int:
    """Return the default number of processes of each kind (generators, verifiers): half the cores, 2 to MAX_WORKERS."""
    # With a single worker, one slow answer or problem would block all others.
    return max(2, min(MAX_WORKERS, available_cores() // 2))


def available_cores(proc: Path = Path("/proc/self"), cgroups: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the number of cores that CPU affinity and control groups allow the process; at least 1."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, int(min([affinity, *_quotas(proc, cgroups)])))


def _quotas(proc: Path, cgroups: Path) -> Iterator[float]:
    """Yield the number of cores that each control group of the process allows, parent groups included."""
    lines: list[str] = []
    with suppress(OSError, UnicodeDecodeError):
        lines = (proc / "cgroup").read_text().splitlines()
    for line in lines:
        _, _, controllers_and_path = line.partition(":")
        controllers, _, path = controllers_and_path.partition(":")
        if controllers == "":
            roots, read = [cgroups, cgroups / "unified"], _quota_of_version_2
        elif "cpu" in controllers.split(","):
            roots, read = [cgroups / controllers, cgroups / "cpu"], _quota_of_version_1
        else:
            continue
        below = Path(path.lstrip("/"))
        for root in roots:
            for group in (below, *below.parents):
                # In a container, the path may be the path on the host, although the container's root is the group.
                with suppress(OSError, ValueError, ZeroDivisionError):
                    yield read(root / group)


def _quota_of_version_2(group: Path) -> float:
    quota, period = (group / "cpu.max").read_text().split()
    return int(quota) / int(period)  # "max" raises ValueError


def _quota_of_version_1(group: Path) -> float:
    quota = int((group / "cpu.cfs_quota_us").read_text())
    if quota <= 0:
        raise ValueError("no limit")
    return quota / int((group / "cpu.cfs_period_us").read_text())
