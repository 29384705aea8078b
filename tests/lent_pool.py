"""A worker pool that starts once and is used by many sessions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from reasoning_env.records import LibraryInfo
from reasoning_env.settings import ReasoningSettings
from reasoning_env.workers.pool import PoolSettings, WorkerPool


class LentPool(WorkerPool):
    """A pool that starts once and that sessions cannot close. `closings` counts their attempts."""

    closings = 0
    _info: LibraryInfo | None = None

    async def start(self, *, workers: int | None = None) -> LibraryInfo:
        if self._info is None:
            self._info = await super().start(workers=workers)
        return self._info

    async def close(self) -> None:
        self.closings += 1

    async def end(self) -> None:
        await super().close()


@asynccontextmanager
async def lent_pool() -> AsyncIterator[LentPool]:
    """A running pool with one worker of each role."""
    pool = LentPool(PoolSettings(ReasoningSettings(num_generators=1, num_verifiers=1)))
    await pool.start()
    try:
        yield pool
    finally:
        await pool.end()
