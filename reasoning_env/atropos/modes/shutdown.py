"""End an environment in order; after an error in one step the other steps still run."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial

from ...runtime.concurrency import cancel_all
from ..environment import Environment
from ..run import Run
from ..servers import close_connections

logger = logging.getLogger(__name__)

SHUTDOWN_GRACE_S = 10.0
"""Time that groups in flight get to end and be delivered when `serve` or `process` is stopped."""


async def close(env: Environment, run: Run) -> None:
    """End groups in flight, delivery, state, registration, workers and files. Safe to call twice."""
    deadline = time.monotonic() + SHUTDOWN_GRACE_S

    async def stop_working() -> None:
        checks = [getattr(client, "check_task", None) for client in run.clients]
        await cancel_all(filter(None, [*env.workers, *env.eval_workers, env.eval_runner, *checks]))
        await run.stop_background()

    async def close_clients() -> None:
        # They would outlive the environment.
        await run.inference.close()
        for client in run.clients:
            await close_connections(client)

    steps = [
        lambda: run.mode.finish_groups(env, run.inference),
        stop_working,
        close_clients,
        lambda: run.stop_sending(deadline),
        lambda: run.save_last(env.curr_step),
        run.run_api.leave,
        run.session.close,
    ]
    for holder_of_files in (run.dumper, run.mode, env.jsonl_writer):
        if holder_of_files is not None:
            steps.append(partial(asyncio.to_thread, holder_of_files.close))
    await _run_all(steps)


async def _run_all(steps: Sequence[Callable[[], Awaitable[None]]]) -> None:
    """Run steps in order; an error is logged, and the next step runs."""
    for step in steps:
        try:
            await step()
        except Exception:  # the other steps must run
            logger.exception("a step of the shutdown failed; the other steps run")


async def finish_in_flight(groups: Collection[asyncio.Task[object]], *, outage_s: Callable[[], float]) -> None:
    """Wait for groups in flight up to SHUTDOWN_GRACE_S, unless inference has failed for a second.

    `groups` may contain groups that have ended; `outage_s` returns the seconds for which inference has failed.
    """
    await asyncio.sleep(0)  # cancelled workers end in this turn of the event loop and the next
    await asyncio.sleep(0)
    left = [group for group in groups if not group.done()]
    if not left:
        return
    logger.info("%d groups in flight get %g s to finish; a second signal ends at once", len(left), SHUTDOWN_GRACE_S)
    deadline = time.monotonic() + SHUTDOWN_GRACE_S
    while left and time.monotonic() < deadline and outage_s() < 1.0:
        _, waiting = await asyncio.wait(left, timeout=min(1.0, deadline - time.monotonic()))
        left = list(waiting)
