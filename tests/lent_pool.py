"""A worker pool that is started once, for many sessions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import AsyncMock, Mock

from reasoning_env.workers.pool import PoolSettings, WorkerPool


@asynccontextmanager
async def lent_pool() -> AsyncIterator[Any]:
    """A running pool with one worker of each role. `start` and `close` of a session have no effect on the pool."""
    pool: Any = WorkerPool(PoolSettings(generators=1, verifiers=1))
    library, close = await pool.start(), pool.close
    pool.start, pool.grow, pool.close = AsyncMock(return_value=library), Mock(), AsyncMock()
    try:
        yield pool
    finally:
        await close()
