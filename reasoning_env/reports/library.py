"""The library behind running workers, for commands: its tasks, single problems, and a measurement of each task."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ..errors import ConfigError
from ..metrics.stats import LibraryInfo
from ..problems.plan import composite_params
from ..problems.selection import select_tasks
from ..records import Problem, ProblemRequest, ProblemSpec, Split
from ..runtime.concurrency import map_concurrently
from ..runtime.signals import run_until_signal
from ..runtime.terminal import progress_bar
from ..workers.pool import PoolSettings, WorkerPool

logger = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class OpenLibrary:
    """A running pool, the selected tasks, and the parameters of those that cannot be built without any."""

    pool: WorkerPool
    info: LibraryInfo
    tasks: tuple[str, ...]
    params: Mapping[str, Mapping[str, Any]]

    async def check_params(self, params: Mapping[str, Any], level: float | None) -> None:
        """Raise ConfigError where one of the tasks does not take the parameters."""
        if not params:
            return
        asked = [(task, {**self.params.get(task, {}), **params}, level) for task in self.tasks]
        faults = await self.pool.check(asked)
        if faults:
            raise ConfigError("; ".join(faults), setting="--params")

    async def make_problem(
        self, task: str, seed: int, *, params: Mapping[str, Any], level: float | None, deadline_s: float = 60.0
    ) -> Problem:
        """Make the problem of exactly this seed, even one that must not be served; raises GenerationError."""
        params = {**self.params.get(task, {}), **params}
        spec = ProblemSpec(ProblemRequest(task, seed, params, level, as_is=True), Split.TRAIN, 0)
        return await self.pool.generate(spec, deadline_s)


@contextlib.asynccontextmanager
async def open_library(settings: PoolSettings, names: Sequence[str]) -> AsyncIterator[OpenLibrary]:
    """Run workers, and select the tasks that the patterns in `names` match, or all where there is none.

    Raises ConfigError for a pattern that matches nothing, and WorkerError where workers cannot be started.
    """
    pool = WorkerPool(settings)
    try:
        info = await pool.start()
        for warning in info.warnings:
            logger.warning("%s", warning)
        tasks = select_tasks(info.tasks, names)
        yield OpenLibrary(pool, info, tasks, composite_params(tasks, [task.name for task in info.tasks]))
    finally:
        await pool.close()


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
