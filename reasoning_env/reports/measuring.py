"""What all reports share: the library's tasks behind running workers, and a measurement per task."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ..concurrency import map_concurrently
from ..records import LibraryInfo
from ..signals import run_until_signal
from ..tasks.sampling import composite_params
from ..tasks.selection import select_tasks
from ..terminal import progress_bar
from ..workers.pool import PoolSettings, WorkerPool

logger = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class OpenLibrary:
    """Running pools, all alike; the selected tasks; parameters of those that need some to be built."""

    pools: tuple[WorkerPool, ...]
    info: LibraryInfo
    tasks: tuple[str, ...]
    params: Mapping[str, Mapping[str, Any]]


@contextlib.asynccontextmanager
async def open_library(settings: PoolSettings, names: Sequence[str], *, pools: int = 1) -> AsyncIterator[OpenLibrary]:
    """Run workers, and select the tasks that the patterns in `names` match, or all where there is none.

    Raises ConfigError for a pattern that matches nothing, and WorkerError where workers cannot be started.
    """
    running = tuple(WorkerPool(settings) for _ in range(pools))
    try:
        info, *_ = [await pool.start() for pool in running]
        for warning in info.warnings:
            logger.warning("%s", warning)
        tasks = select_tasks(info.tasks, names)
        yield OpenLibrary(running, info, tasks, composite_params(tasks, [task.name for task in info.tasks]))
    finally:
        await asyncio.gather(*(pool.close() for pool in running))


def run_measurement(measure: Callable[[], Awaitable[R]]) -> R:
    """Run a coroutine to its end; raises Interrupted, after its clean-up, when a signal ended it."""

    async def nothing_more() -> None:
        pass

    return asyncio.run(run_until_signal(measure, nothing_more))


async def measure_each(
    title: str, measured: Sequence[T], measure: Callable[[T], Awaitable[R]], *, at_once: int
) -> list[R]:
    """Measure some tasks, with a progress bar; returns one result for each, in order."""
    with progress_bar(title, len(measured)) as advance:
        return await map_concurrently(measure, measured, at_once=at_once, on_done=advance)
