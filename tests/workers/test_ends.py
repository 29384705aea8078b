"""Detect whether a killed worker ran out of memory."""

from __future__ import annotations

import signal
import sys

import pytest

from reasoning_env.workers.child import MIN_GROWTH_MB, detect_out_of_memory, kills_for_memory
from reasoning_env.workers.protocol import DISCONNECTED_STATUS, OUT_OF_MEMORY_STATUS

KILLED = -signal.SIGKILL


@pytest.mark.parametrize(
    ("code", "grown_mb", "kills", "reported"),
    [
        (KILLED, MIN_GROWTH_MB, 1, OUT_OF_MEMORY_STATUS),
        (KILLED, MIN_GROWTH_MB - 1, 1, KILLED),
        (KILLED, 900, 0, KILLED),
        (-signal.SIGTERM, 900, 1, -signal.SIGTERM),
        (DISCONNECTED_STATUS, 900, 1, DISCONNECTED_STATUS),
        (0, 900, 1, 0),
    ],
)
def test_worker_counts_as_out_of_memory_only_if_its_memory_grew(
    code: int, grown_mb: int, kills: int, reported: int
) -> None:
    assert detect_out_of_memory(code, grown_mb, kills) == reported


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the counter is Linux's")
def test_memory_kill_count_is_the_oom_kill_counter_of_linux() -> None:
    with open("/proc/vmstat") as counters:
        assert f"oom_kill {kills_for_memory()}\n" in counters
