"""The command `serve`: a loop like BaseEnv's, without the five seconds of sleep at the start.

The loop calls BaseEnv's hooks (`get_status`, `env_step_checks`, `add_train_workers`), which a subclass can override.
`worker_timeout` limits each request for completions. In BaseEnv's loop, it limits a whole group, and a timeout loses
the group's problem.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from pathlib import Path

from ...errors import ConfigError
from ...inference.formats import names_of_kind
from ...inference.formats.reply_format import ReplyKind
from ...inference.served_model import ServedModel
from ...storage.folders import check_writable
from ..config import ReasoningGymEnvConfig
from ..environment import Environment
from ..run import Run
from ..run_api import RunApiSession
from .mode import Mode
from .shutdown import finish_in_flight

logger = logging.getLogger(__name__)


class Serve(Mode):
    """Sends groups to a trainer through run-api, until the trainer has received `total_steps` batches."""

    name = "serve"
    has_trainer = True

    def check_files(self, config: ReasoningGymEnvConfig) -> None:
        if config.data_dir_to_save_evals and config.steps_per_eval > 0:
            check_writable(Path(config.data_dir_to_save_evals), "env.data_dir_to_save_evals")

    def startup_timeout_s(self, config: ReasoningGymEnvConfig) -> float:
        return config.startup_timeout_s or math.inf

    def outage_s(self, config: ReasoningGymEnvConfig) -> float:
        return math.inf

    async def wandb_names(self, run_api: RunApiSession) -> tuple[str | None, str] | None:
        return await run_api.wandb_group_and_project()

    async def finish_groups(self, env: Environment, inference: ServedModel) -> None:
        """Cancel evaluations, and wait up to SHUTDOWN_GRACE_S for groups in flight."""
        for task in filter(None, [env.eval_runner, *env.eval_workers]):
            task.cancel()
        await finish_in_flight(env.workers, outage_s=lambda: inference.outage_s)

    async def run(self, env: Environment, run: Run) -> None:
        """Send groups until the batch of the last step is complete. Raises ConfigError for chat servers."""
        _require_token_ids(run)
        await run.lifetime.start_dumps()  # report an unwritable folder before waiting for a trainer
        await run.run_api.wait_until_there(self.startup_timeout_s(env.config))
        await env.setup()
        _require_token_ids(run)  # the type of a server with `auto` is known only now
        await env.setup_wandb()
        source = "the trainer" if env.config.total_steps == -1 else "env.total_steps"  # the registration replaces -1
        await env.register_env()
        await env.get_server_info()
        while True:
            started = time.time()
            if env.last_loop_time is not None:
                env.mainloop_timings.append(max(0.0, started - env.last_loop_time))
            env.last_loop_time = started
            await env.get_status()
            await env.env_step_checks()
            if _is_last_step_queued(env):
                break
            if _is_queue_full(env):
                _return_items_to_backlog(env)
            elif len(env.workers) < env.max_num_workers:
                await env.add_train_workers()
            await asyncio.sleep(0.1)
        logger.info("done: the trainer has received the batches of all %d steps (%s)", env.config.total_steps, source)
        for worker in env.workers:
            worker.cancel()


def _require_token_ids(run: Run) -> None:
    if run.inference.reply_kind is ReplyKind.CHAT:
        raise ConfigError(
            "a chat server returns text without token ids, but a trainer needs token ids",
            setting="openai.server_type",
            remedy=f"use {names_of_kind(ReplyKind.TOKENS)}, or {names_of_kind(ReplyKind.TEXT)} if the trainer computes "
            "log-probabilities itself",
        )


def _is_last_step_queued(env: Environment) -> bool:
    waiting_batches = env.status_dict["queue_size"] * env.config.group_size // env.config.batch_size
    return bool(env.status_dict["current_step"] + waiting_batches > env.config.total_steps)


def _is_queue_full(env: Environment) -> bool:
    """Return True if run-api needs no more groups of this environment for the next `max_batches_offpolicy` batches."""
    if env.derived_batch_size == -1:
        return True
    config, status = env.config, env.status_dict
    limit = config.max_batches_offpolicy * config.batch_size
    if status["queue_size"] * config.group_size < limit:
        return False
    if config.min_batch_allocation is None:
        return True
    largest = status["max_group_size"]
    # The same share as in BaseEnv's loop. Run-api counts it in groups of this environment's size.
    own_share = math.ceil(config.min_batch_allocation * limit / largest) * (largest // config.group_size)
    return bool(status["self_queue_size"] >= own_share)


def _return_items_to_backlog(env: Environment) -> None:
    """Cancel the workers, and put their items into `backlog` for later workers."""
    env.backlog.extend(running["item"] for running in env.running_items.values())
    for worker in env.workers:
        worker.cancel()
    env.running_items = {}
    env.workers = set()
