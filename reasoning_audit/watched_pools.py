"""Start the watched worker pools of an audit."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

from reasoning_env.workers.pool import PoolSettings, WorkerPool

from .contract import WatchedPools
from .watch import WATCHED

OTHER_HASH_SEED = 1
"""A hash seed that ordinary workers do not have."""


@asynccontextmanager
async def watched_pools(settings: PoolSettings) -> AsyncIterator[WatchedPools]:
    """Yield watched pools of workers with these settings, and close them at the end. Raises what `start` raises.

    Each has one worker of a kind, so that two calls for scores reach the same process.
    """
    watched = replace(
        settings,
        generators=min(1, settings.generators),
        verifiers=1,
        source_wrapper=WATCHED,
        scoring_budget_s=math.inf,  # one slow answer of a group must not hide what the others show
    )
    async with AsyncExitStack() as stack:

        async def start(hash_seed: int) -> WorkerPool:
            pool = WorkerPool(replace(watched, hash_seed=hash_seed))
            stack.push_async_callback(pool.close)
            await pool.start()
            return pool

        started: list[WorkerPool] = []

        async def third() -> WorkerPool:
            if not started:
                started.append(await start(watched.hash_seed))
            return started[0]

        yield WatchedPools(await start(watched.hash_seed), await start(OTHER_HASH_SEED), third)
