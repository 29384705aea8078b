from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from reasoning_env.reports.library import open_library, run_measurement
from reasoning_env.runtime.signals import Interrupted
from reasoning_env.workers.pool import PoolSettings, WorkerPool
from tests.small_library import write_small_library


@pytest.fixture
def settings(tmp_path: Path) -> PoolSettings:
    return PoolSettings(generators=1, verifiers=0, checkout=write_small_library(tmp_path) / "reasoning-gym")


def test_a_signal_ends_a_measurement_after_it_has_closed_what_it_opened(settings: PoolSettings) -> None:
    pools: list[WorkerPool] = []

    async def measure() -> None:
        async with open_library(settings, []) as library:
            pools.append(library.pool)
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()

    with pytest.raises(Interrupted) as end:
        run_measurement(measure)
    assert end.value.exit_code == 143
    assert [pool.worker_pids for pool in pools] == [()]


async def test_tasks_are_those_that_match_with_the_parameters_that_they_need(settings: PoolSettings) -> None:
    async with open_library(settings, ["games/*", "composite"]) as library:
        assert library.tasks == ("generous", "open_ended", "composite")
        assert library.params == {"composite": {"datasets": [{"name": "generous"}, {"name": "open_ended"}]}}


async def test_warnings_of_the_library_are_logged_once(
    tmp_path: Path, settings: PoolSettings, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "reasoning-gym" / "reasoning_gym" / "factory.py").write_text("DATASETS = None")
    async with open_library(settings, ["gcd"]):
        pass
    assert len(set(caplog.messages)) == len(caplog.messages) > 0
