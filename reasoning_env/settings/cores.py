"""Count the cores that this process may use, and derive the number of worker processes from them."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

MOST_WORKERS = 8
"""More of a role are rarely busy at once, and each has 50 to 150 MB of its own."""


@functools.cache
def default_workers() -> int:
    """Return how many workers of each role fit this machine: half of its cores, at least 2 and at most MOST_WORKERS.

    With a single worker, one slow answer or problem would hold up all others.
    """
    return max(2, min(MOST_WORKERS, available_cores() // 2))


def available_cores(proc: Path = Path("/proc/self"), cgroups: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the cores that the process may use, by its CPU affinity and by its control groups; at least 1."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, int(min([affinity, *_quotas(proc, cgroups)])))


def _quotas(proc: Path, cgroups: Path) -> Iterator[float]:
    """Yield the cores that each control group of the process allows, those of the groups above it included."""
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
                # A container may see the path of its group on the host, but only the group itself, as the root.
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
