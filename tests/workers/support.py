"""Helpers for the worker tests: a pool with the fake library, specs, parameters and waiting."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from reasoning_env.records import LibraryInfo, Problem, ProblemRequest, ProblemSpec, Split
from reasoning_env.settings import ReasoningSettings
from reasoning_env.workers.pool import PoolSettings, WorkerPool
from reasoning_gym_testing.process_table import is_alive
from tests.waiting import PATIENCE_S, until

SCORED_BY_CONFIG = ("decimal_arithmetic", "puzzle24", "time_intervals", "word_ladder")
"""Tasks whose verifiers read the dataset's config."""
OVERRIDES: Mapping[str, Mapping[str, Any]] = {
    "caesar_cipher": {"max_rotation": 24},
    "calendar_arithmetic": {"offset_upper_bound": 40},
    "chain_sum": {"min_digits": 1, "allow_negation": True},
    "codeio": {"input_prediction_probability": 1.0},
    "decimal_arithmetic": {"max_num_decimal_places": 8},
    "letter_counting": {"max_words": 40},
    "puzzle24": {"operators": ["+", "*", "-"]},
    "time_intervals": {"task_types": ["date"], "max_date_difference_days": 20},
    "word_ladder": {"max_word_length": 5},
    "word_sorting": {"max_words": 12},
}
MEMBERS = [{"name": name, "config": dict(OVERRIDES.get(name, {}))} for name in ("acre", "chain_sum", "time_intervals")]
COMPOSITE = {"datasets": [*MEMBERS, {"name": "puzzle24", "weight": 2.0}]}


def spec(task: str = "ok", seed: int = 1, level: float | None = None, **params: Any) -> ProblemSpec:
    return ProblemSpec(ProblemRequest(task, seed, params, level), Split.TRAIN, index=0)


@asynccontextmanager
async def running_pool(checkout: Path | None, *, fast: bool = True, **settings: Any) -> AsyncIterator[WorkerPool]:
    """Start a pool, wait until all its workers run, and yield it.

    The default is one worker of each role. Verifiers of a fake library run without sandbox, because the fake library
    misbehaves on purpose.
    """
    defaults = {"num_generators": 1, "num_verifiers": 1, "scoring_deadline_s": PATIENCE_S}
    defaults["sandbox_verifiers"] = checkout is None
    user = ReasoningSettings(**{**defaults, **settings})
    pool = WorkerPool(PoolSettings(user, checkout, fast=fast))
    await pool.start()
    try:
        await until(lambda: len(pool.worker_pids) == user.generators + user.verifiers)
        yield pool
    finally:
        await pool.close()


async def library_info(checkout: Path | None, **settings: Any) -> LibraryInfo:
    """Return the information about the library that a starting pool reports."""
    user = ReasoningSettings(num_generators=1, num_verifiers=1, **settings)
    pool = WorkerPool(PoolSettings(user, checkout))
    try:
        return await pool.start()
    finally:
        await pool.close()


async def make(pool: WorkerPool, task: str = "ok", seed: int = 1, **params: Any) -> Problem:
    return await pool.generate(spec(task, seed, **params), PATIENCE_S)


def kill(pids: Iterable[int], number: int = signal.SIGKILL) -> None:
    """Send a signal to processes. Some may have ended already, because the pool notices an end with a delay."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def is_gone(pid: int) -> bool:
    """Return True if a process has ended. A zombie counts as ended."""
    return not is_alive(pid)
