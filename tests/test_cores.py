"""The default number of workers depends on the available cores."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reasoning_env.settings import ReasoningSettings
from reasoning_env.settings.cores import MAX_WORKERS, available_cores, default_workers


@pytest.fixture(autouse=True)
def _many_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)), raising=False)


def write(folder: Path, files: dict[str, str]) -> tuple[Path, Path]:
    """Write files below a folder, and return the folders for the process and for its control groups."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / "proc", folder / "cgroups"


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, 64),
        ({"proc/cgroup": "0::/\n", "cgroups/cpu.max": "150000 100000"}, 1),
        ({"proc/cgroup": "0::/a/b\n", "cgroups/a/cpu.max": "400000 100000", "cgroups/a/b/cpu.max": "max 100000"}, 4),
        ({"proc/cgroup": "0::/host/id\n", "cgroups/cpu.max": "200000 100000"}, 2),
        (
            {
                "proc/cgroup": "4:cpu,cpuacct:/a\n0::/\n",
                "cgroups/cpu,cpuacct/a/cpu.cfs_quota_us": "300000",
                "cgroups/cpu,cpuacct/a/cpu.cfs_period_us": "100000",
            },
            3,
        ),
        ({"proc/cgroup": "1:cpu:/\n", "cgroups/cpu/cpu.cfs_quota_us": "-1"}, 64),
        ({"proc/cgroup": "0::/\n", "cgroups/cpu.max": "50000 100000"}, 1),
        ({"proc/cgroup": "nonsense", "cgroups/cpu.max": "nonsense"}, 64),
        ({"proc/cgroup": "0::/\n", "cgroups/cpu.max": "100000 0"}, 64),
    ],
)
def test_available_cores_respect_control_group_limits(tmp_path: Path, files: dict[str, str], cores: int) -> None:
    assert available_cores(*write(tmp_path, files)) == cores


@pytest.mark.parametrize(("cores", "workers"), [(1, 2), (4, 2), (10, 5), (128, MAX_WORKERS)])
def test_default_number_of_workers_depends_on_the_number_of_cores(
    monkeypatch: pytest.MonkeyPatch, cores: int, workers: int
) -> None:
    monkeypatch.setattr("reasoning_env.settings.cores.available_cores", lambda: cores)
    assert default_workers.__wrapped__() == workers


def test_configured_number_of_workers_is_used() -> None:
    settings = ReasoningSettings(num_verifiers=3)
    assert (settings.generators, settings.verifiers) == (default_workers(), 3)
