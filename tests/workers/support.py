"""What the tests of the workers share: a pool over the fake library, specs and waiting."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from reasoning_env.records import Problem, ProblemSpec, Split
from reasoning_env.workers.pool import PoolSettings, WorkerPool

PATIENCE_S = 20.0
"""Generous, for machines that do much else at the time; nothing here waits that long when all is well."""

UNSANDBOXED = {"sandbox_verifiers": False}
"""The fake library's verifiers misbehave on purpose, in ways that layers around verifier workers would not let them."""


def spec(task: str = "ok", seed: int = 1, **params: Any) -> ProblemSpec:
    return ProblemSpec(task, seed, Split.TRAIN, index=0, params=params)


@asynccontextmanager
async def running_pool(checkout: Path, **settings: Any) -> AsyncIterator[WorkerPool]:
    """A started pool with one worker of each kind unless told otherwise, all of whose workers are forked."""
    pool_settings = PoolSettings(
        **{
            **UNSANDBOXED,
            "generators": 1,
            "verifiers": 1,
            "scoring_deadline_s": PATIENCE_S,
            "checkout": checkout,
            **settings,
        }
    )
    pool = WorkerPool(pool_settings)
    await pool.start()
    try:
        await until(lambda: len(pool.worker_pids) == pool_settings.generators + pool_settings.verifiers)
        yield pool
    finally:
        await pool.close()


async def make(pool: WorkerPool, task: str = "ok", seed: int = 1, **params: Any) -> Problem:
    return await pool.generate(spec(task, seed, **params), PATIENCE_S)


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        await asyncio.sleep(0.005)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.005)


def is_gone(pid: int) -> bool:
    """Whether a process has ended; one that its parent has not collected yet counts as ended."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state == "Z"
