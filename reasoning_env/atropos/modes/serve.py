"""The loop of `serve`: BaseEnv's own, without the five seconds that it sleeps at its start.

BaseEnv's hooks do the work (`get_status`, `env_step_checks`, `add_train_workers`), so a subclass can override them.
BaseEnv also cancels a worker that runs over `worker_timeout` and forgets its item; here a request for completions has
that limit itself, and a problem stays in flight until its group is scored or dropped.
"""

from __future__ import annotations

import asyncio
import math
import time
from typing import Any

from ...errors import ConfigError
from ..config import RunMode
from ..inference.servers import Training, names_of_types
from ..run import Run


async def serve(env: Any, run: Run) -> None:
    """Serve groups until the trainer has had `total_steps` batches; raises ConfigError for chat servers."""
    _refuse_chat(run)
    run.mode = RunMode.SERVE
    await run.start_dumps()
    await run.run_api.wait_until_there(run.line.startup_timeout_s)
    await env.setup()
    _refuse_chat(run)  # of a server of type auto this is known only now
    await env.setup_wandb()
    await env.register_env()
    await env.get_server_info()
    while True:
        started = time.time()
        if env.last_loop_time is not None:
            env.mainloop_timings.append(max(0.0, started - env.last_loop_time))
        env.last_loop_time = started
        await env.get_status()
        await env.env_step_checks()
        if _is_over(env):
            break
        if _has_enough(env):
            _put_back_workers(env)
        elif len(env.workers) < env.max_num_workers:
            await env.add_train_workers()
        await asyncio.sleep(0.1)
    for worker in env.workers:
        worker.cancel()


def _refuse_chat(run: Run) -> None:
    if run.inference.reply_kind.for_training is Training.NO:
        exact = " or ".join(names_of_types(Training.YES))
        others = " or ".join(names_of_types(Training.WITHOUT_LOGPROBS))
        raise ConfigError(
            "a chat server gives text without tokens, and a trainer needs tokens",
            setting="openai.server_type",
            remedy=f"serve takes {exact}, and {others} for trainers that compute log-probabilities themselves",
        )


def _is_over(env: Any) -> bool:
    waiting_batches = env.status_dict["queue_size"] * env.config.group_size // env.config.batch_size
    return bool(env.status_dict["current_step"] + waiting_batches > env.config.total_steps)


def _has_enough(env: Any) -> bool:
    """Tell whether run-api's queue holds all that may be off policy, this environment's share included."""
    if env.derived_batch_size == -1:
        return True
    config, status = env.config, env.status_dict
    limit = config.max_batches_offpolicy * config.batch_size
    if status["queue_size"] * config.group_size < limit:
        return False
    if config.min_batch_allocation is None:
        return True
    largest = status["max_group_size"]
    own_share = math.ceil(config.min_batch_allocation * limit / largest) * (largest // config.group_size)
    return bool(status["self_queue_size"] >= own_share)


def _put_back_workers(env: Any) -> None:
    """Cancel the workers; their items are collected again, in `backlog`."""
    env.backlog.extend(running["item"] for running in env.running_items.values())
    for worker in env.workers:
        worker.cancel()
    env.running_items = {}
    env.workers = set()
