"""What `setup` starts: the workers, and everything that needs to know what the library offers."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..checkpoints.keeper import StateKeeper
from ..dumps.writer import RolloutDumper
from ..folders import find_checkout
from ..metrics import MetricsRecorder
from ..prompting import ChatFormat
from ..tasks.plan import TaskPlan, describe_run, plan_tasks
from ..workers.pool import WorkerPool
from .collector import GroupCollector
from .config import pool_settings
from .inference import InferenceClient
from .problem_source import ProblemSource

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Backend:
    """The started workers, and who draws problems, makes groups and keeps the state with them."""

    pool: WorkerPool
    plan: TaskPlan
    source: ProblemSource
    collector: GroupCollector
    keeper: StateKeeper

    async def close(self) -> None:
        """Stop generating and end all workers."""
        await self.source.close()
        await self.pool.close()


async def start_backend(
    config: Any,
    folder: Path,
    chat: ChatFormat,
    inference: InferenceClient,
    metrics: MetricsRecorder,
    dumper: RolloutDumper | None,
    settled: Callable[[], Awaitable[None]],
) -> Backend:
    """Start the workers and plan the tasks; a checkout of the library in `folder` is preferred.

    Raises ConfigError and WorkerError, each with its remedy; no process is left then.
    """
    checkout = find_checkout(folder)
    pool = WorkerPool(pool_settings(config, checkout))
    library = await pool.start()
    try:
        plan = await plan_tasks(config, library, pool)
    except BaseException:
        await pool.close()
        raise
    for warning in library.warnings:
        logger.warning("%s", warning)
    logger.info(
        "reasoning-gym %s from %s (%s); %d of %d tasks selected",
        library.version,
        library.path,
        "the checkout beside this module" if checkout else "the installed package",
        len(plan.tasks),
        len(library.tasks),
    )
    logger.info("%s", library.sandbox)
    source = ProblemSource(config, plan, pool, chat, metrics, settled=settled)
    collector = GroupCollector(config, inference, pool, source, metrics, dumper)
    keeper = StateKeeper(describe_run(config, plan), accept_changes=config.resume_with_changes)
    return Backend(pool, plan, source, collector, keeper)
