"""Workers that are started once and lent to many sessions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import AsyncMock, Mock

from reasoning_env.workers.pool import PoolSettings, WorkerPool


@asynccontextmanager
async def lent_pool() -> AsyncIterator[Any]:
    """A pool of one worker of each role, which neither `start` nor `close` of a session that has it changes."""
    pool: Any = WorkerPool(PoolSettings(generators=1, verifiers=1))
    library, close = await pool.start(), pool.close
    pool.start, pool.grow, pool.close = AsyncMock(return_value=library), Mock(), AsyncMock()
    try:
        yield pool
    finally:
        await close()
