"""Shut down an environment step by step. If one step fails, the other steps still run."""

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
"""Time for groups in flight to finish and to be delivered when `serve` or `process` is stopped."""


async def close(env: Environment, run: Run) -> None:
    """Finish and deliver the groups in flight, save the state, disconnect, stop workers, close files.

    A second call has no effect.
    """
    deadline = time.monotonic() + SHUTDOWN_GRACE_S

    async def stop_working() -> None:
        checks = [getattr(client, "check_task", None) for client in run.clients]
        await cancel_all(filter(None, [*env.workers, *env.eval_workers, env.eval_runner, *checks]))
        await run.lifetime.stop_background()

    async def close_clients() -> None:
        # Otherwise the clients' connections stay open after the environment ends.
        await run.inference.close()
        for client in run.clients:
            await close_connections(client)

    steps = [
        lambda: run.mode.finish_groups(env, run.inference),
        stop_working,
        close_clients,
        lambda: run.lifetime.stop_sending(deadline),
        lambda: run.lifetime.save_last(env.curr_step),
        run.run_api.leave,
        run.session.close,
    ]
    for holder_of_files in (run.dumper, run.mode, env.jsonl_writer):
        if holder_of_files is not None:
            steps.append(partial(asyncio.to_thread, holder_of_files.close))
    await _run_all(steps)


async def _run_all(steps: Sequence[Callable[[], Awaitable[None]]]) -> None:
    """Run the steps in order. Log errors and continue with the next step."""
    for step in steps:
        try:
            await step()
        except Exception:  # the other steps must run
            logger.exception("a step of the shutdown failed; continuing with the next step")


async def finish_in_flight(groups: Collection[asyncio.Task[object]], *, outage_s: Callable[[], float]) -> None:
    """Wait up to SHUTDOWN_GRACE_S for groups in flight, or until inference has failed for 1 s.

    `outage_s` returns for how long inference has failed, in seconds.
    """
    await asyncio.sleep(0)  # cancelled workers end within two turns of the event loop
    await asyncio.sleep(0)
    left = [group for group in groups if not group.done()]
    if not left:
        return
    logger.info(
        "waiting up to %g s for groups in flight (%d); another signal ends the run at once", SHUTDOWN_GRACE_S, len(left)
    )
    deadline = time.monotonic() + SHUTDOWN_GRACE_S
    while left and time.monotonic() < deadline and outage_s() < 1.0:
        _, waiting = await asyncio.wait(left, timeout=min(1.0, deadline - time.monotonic()))
        left = list(waiting)
