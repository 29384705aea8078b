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
    # One slow answer of a group must not hide what the others show.
    one_of_each = {"num_generators": 1, "num_verifiers": 1, "scoring_budget_s": math.inf}
    watched = replace(settings, user=settings.user.model_copy(update=one_of_each), source_wrapper=WATCHED)
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
