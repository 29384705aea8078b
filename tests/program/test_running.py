from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from reasoning_env.program.running import Interrupted, map_with_progress, run_to_end
from reasoning_env.session import Session
from reasoning_env.settings import ReasoningSettings
from tests.small_library import write_small_library


def test_signal_cancels_work_and_closes_workers(tmp_path: Path) -> None:
    session = Session(
        ReasoningSettings(num_generators=1, num_verifiers=1), checkout=write_small_library(tmp_path) / "reasoning-gym"
    )
    workers: list[int] = []

    async def work() -> None:
        async with session:
            await session.make("exact", 1)
            workers.extend(session.pool.worker_pids)
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()

    with pytest.raises(Interrupted) as end:
        run_to_end(work)
    assert end.value.exit_code == 143
    assert workers
    assert session.pool.worker_pids == ()


async def test_results_of_concurrent_calls_keep_the_input_order() -> None:
    async def work(seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

    assert await map_with_progress("items", [0.02, 0.0, 0.01], work, at_once=3) == [0.02, 0.0, 0.01]
