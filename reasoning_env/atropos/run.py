"""The collaborators of an environment, from its construction to its end."""

from __future__ import annotations

import asyncio
import logging
import math
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..checkpoints.keeper import Resumed, StateKeeper
from ..concurrency import cancel_all
from ..dumps.writer import RolloutDumper
from ..evaluations.plan import plan_evaluation
from ..folders import default_dumps_folder, find_checkout
from ..metrics import MetricsRecorder, service_metrics, task_metrics
from ..prompting import ChatFormat
from ..records import DropReason, LibraryInfo, Sampling, Split, Timeouts
from ..reports.unmeasured_tasks import audit_unmeasured
from ..tasks.plan import TaskPlan, describe_run, plan_tasks
from ..workers.pool import WorkerPool
from .collector import GroupCollector
from .config import RunMode, pool_settings, run_api_entry
from .inference.chat import PlainChat
from .inference.client import InferenceClient
from .inference.server_checks import check_servers
from .modes.group_file import GroupFile
from .problem_source import ProblemSource
from .run_api import DeliveryQueue, RunApiSession

logger = logging.getLogger(__name__)

SAVE_INTERVAL_S = 10.0
"""How often the state is saved beside the trainer's checkpoints, in case the environment is killed."""
OUTAGE_LIMIT_S = 30.0
"""How long a server may be gone outside `serve`, where no setting says otherwise."""
LEAST_DRAIN_S = 3.0
"""How long groups on their way to run-api get at the end, even where no grace is left."""


@dataclass(frozen=True)
class Backend:
    """The started workers, and those who draw problems, make groups and keep the state with them."""

    library: LibraryInfo
    pool: WorkerPool
    plan: TaskPlan
    source: ProblemSource
    collector: GroupCollector
    keeper: StateKeeper

    async def close(self) -> None:
        """Stop generating and end all workers."""
        await self.source.close()
        await self.pool.close()


class Run:
    """The collaborators of one environment; `start` brings up those that need the library.

    `config` is the environment's, `manager` returns BaseEnv's server manager, `tokenizer` is BaseEnv's; `folder` is the
    front door's, in which a checkout of the library may lie.
    """

    def __init__(self, config: Any, manager: Callable[[], Any], tokenizer: Any, folder: Path) -> None:
        self.mode = RunMode.IMPORTED
        self.uuid = str(uuid.uuid4())
        self.metrics = MetricsRecorder()
        self.chat = PlainChat() if tokenizer is None else ChatFormat(tokenizer, config.tokenizer_name)
        self.inference = InferenceClient(manager, self.chat, tokenizer)
        self.dumper = _make_dumper(config, self.uuid, folder)
        self.session = RunApiSession(config.rollout_server_url, run_api_entry(config))
        self.queue = DeliveryQueue(
            self.session,
            before_send=self._dumped,
            on_drop=lambda: self.metrics.record_dropped(DropReason.UNDELIVERED),
        )
        self.config = config
        self._folder = folder
        self._backend: Backend | None = None
        self._background: list[asyncio.Task[None]] = []
        self._step: Callable[[], int] | None = None
        self._collect_state: Callable[[], Mapping[str, Any]] = dict
        self.evaluation_progress: Callable[[], str] = str
        self.group_file: GroupFile | None = None
        """Where `process` writes, once it does."""

    @property
    def backend(self) -> Backend:
        """Raises RuntimeError before `start`."""
        if self._backend is None:
            raise RuntimeError("setup() comes first")
        return self._backend

    @property
    def servers(self) -> Sequence[Any]:
        """Atropos' inference servers."""
        return self.inference.servers

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """Process ids of the workers that are alive."""
        return () if self._backend is None else self._backend.pool.worker_pids

    @property
    def startup_timeout_s(self) -> float:
        """How long to wait for a server that is not there at the start."""
        return self.config.startup_timeout_s or (math.inf if self.mode is RunMode.SERVE else OUTAGE_LIMIT_S)

    def timeouts(self) -> Timeouts:
        """Return the time limits of requests; `serve` waits for a server that goes away later as long as it takes."""
        reply_s, serving = self.config.worker_timeout, self.mode is RunMode.SERVE
        return Timeouts(
            reply_s=reply_s if reply_s > 0 else None, outage_s=math.inf if serving else self.startup_timeout_s
        )

    def sampling(self, split: Split, trainer_limit: int) -> Sampling:
        """Return how to sample; `trainer_limit` counts where it is positive.

        Prompt and completion stay below both limits: BaseEnv drops a group of which one member reaches the trainer's.
        """
        config, training = self.config, split is Split.TRAIN
        own_limit = config.max_token_length
        return Sampling(
            temperature=config.temperature if training else config.eval_temperature,
            top_p=config.top_p if training else config.eval_top_p,
            token_limit=min(own_limit, trainer_limit) if trainer_limit > 0 else own_limit,
            split=split.value,
        )

    async def start(self, *, probe: bool, collect_state: Callable[[], Mapping[str, Any]]) -> None:
        """Start the workers and, with `probe`, make sure that an inference server answers.

        `collect_state` returns BaseEnv's part of a checkpoint. Raises ConfigError, ServerError or WorkerError, each
        with its remedy; no process is left then.
        """
        config = self.config
        checkout = find_checkout(self._folder)
        pool = WorkerPool(pool_settings(config, checkout))
        library = await pool.start(understaffed=True)
        try:
            plan = await audit_unmeasured(await plan_tasks(config, library, pool), config, pool)
            eval_plan = plan_evaluation(config, library, plan.tasks)
            _log_library(library, checkout, plan)
            pool.staff(set(plan.tasks) - set(plan.params))
            await self.start_dumps()
            if probe:
                await check_servers(self.servers, self.inference.mode, self.startup_timeout_s)
        except BaseException:
            await pool.close()
            raise
        source = ProblemSource(config, plan, pool, self.chat, self.metrics, eval_plan=eval_plan, settled=self._dumped)
        collector = GroupCollector(config, self.inference, pool, source, self.metrics, self.dumper)
        keeper = StateKeeper(describe_run(config, plan), accept_changes=config.resume_with_changes)
        self._collect_state = collect_state
        self._backend = Backend(library, pool, plan, source, collector, keeper)
        self._background += map(asyncio.create_task, [self._log_progress(), self.inference.watch()])

    async def start_dumps(self) -> None:
        """Make the dumps' folder and thread; raises ConfigError where it cannot be done."""
        if self.dumper is not None:
            await asyncio.to_thread(self.dumper.start)

    def resume(self, resumed: Resumed) -> None:
        """Go on from a checkpoint, before anything is drawn or sent."""
        state = resumed.state
        self.metrics.restore(state["metrics"])
        self.backend.source.start(self.backend.keeper.number or 0, state)
        self.queue.restore(resumed.undelivered, resumed.next_number)

    def begin_delivery(self, env_id: int, step: Callable[[], int]) -> None:
        """Begin to draw problems, to deliver groups and to save the state; run-api must know the environment."""
        backend, self._step = self.backend, step
        # Each environment at one run-api has a number of its own, and with it a stream of its own.
        backend.source.start(env_id if backend.keeper.number is None else backend.keeper.number)
        self.queue.start()
        if backend.keeper.folder is not None:
            self._background.append(asyncio.create_task(self._save_regularly(step)))

    def report(self) -> dict[str, float]:
        """Return the metrics of the interval that this ends; none before `start`."""
        if self._backend is None:
            return {}
        pool, source = self._backend.pool, self._backend.source
        service = service_metrics(source.stats, pool.stats, pool.queued_jobs, **self._stats())
        return self.metrics.report() | service | task_metrics(source.report())

    def progress_line(self) -> str:
        """Return how far the run has come; in the command `evaluate`, how far the evaluation has."""
        if self.mode is RunMode.EVALUATE:
            return self.evaluation_progress()
        source = None if self._backend is None else self._backend.source
        return self.metrics.progress_line(
            source.stats if source else None,
            **self._stats(),
            in_flight=source.in_flight if source else 0,
            step=self._step() if self._step else None,
        )

    async def stop_background(self) -> None:
        """Stop what runs beside the groups, and log how far the run has come."""
        if self._background:
            await cancel_all(self._background)
            self._background.clear()
            if self.mode is not RunMode.EVALUATE:
                logger.info("%s", self.progress_line())

    async def stop_sending(self, deadline: float) -> None:
        """Deliver what waits until `deadline`, a monotonic time, but at least for some seconds; then stop."""
        await self.queue.drain(max(deadline - time.monotonic(), LEAST_DRAIN_S))
        await self.queue.close()
        waiting = self.queue.stats.waiting
        folder = None if self._backend is None else self._backend.keeper.folder
        if waiting and folder is not None:
            logger.info("%d scored groups could not be delivered; they are kept in %s", waiting, folder)
        elif waiting:
            logger.warning("%d scored groups could not be delivered, and are gone: there is no checkpoint_dir", waiting)

    def save(self, step: int, *, latest: bool = False) -> None:
        """Save the state under the step and as the latest, or only as the latest; a thread writes the file."""
        keeper, queue = self.backend.keeper, self.queue
        if keeper.folder is not None:
            state = {**self.backend.source.state(), "metrics": self.metrics.state(), **self._collect_state()}
            keeper.save(step, state, queue.waiting(), queue.delivered_up_to, latest=latest)

    async def save_last(self, step: int) -> None:
        """Save the state at the end, and let go of its folder."""
        if self._backend is None:
            return
        in_flight = self._backend.source.in_flight
        if in_flight and self._backend.keeper.folder is not None:
            logger.info("%d problems are put back; a resumed run serves them first", in_flight)
        self.save(step, latest=True)
        await asyncio.to_thread(self._backend.keeper.close)

    async def stop_generating(self) -> None:
        if self._backend is not None:
            await self._backend.close()

    async def _dumped(self) -> None:
        """Wait until the groups that were taken for dumping are on disk, or need not be waited for."""
        if self.dumper is not None:
            await self.dumper.wait_settled()

    async def _save_regularly(self, step: Callable[[], int]) -> None:
        """Save the latest state while it changes, and the disk keeps up."""
        saved: object = None
        while True:
            await asyncio.sleep(SAVE_INTERVAL_S)
            # In an outage nothing changes, but a great deal may wait.
            now = (step(), self.progress_line(), self.queue.stats)
            if now != saved and not self.backend.keeper.busy:
                try:
                    self.save(step(), latest=True)
                    saved = now
                except Exception:  # of what a subclass adds to the state
                    logger.exception("the state could not be saved")

    def _stats(self) -> dict[str, Any]:
        return {
            "dumps": None if self.dumper is None else self.dumper.stats(),
            "delivery": self.queue.stats if self.mode is RunMode.SERVE else None,
        }

    async def _log_progress(self) -> None:
        last = ""
        while True:
            await asyncio.sleep(self.config.progress_interval_s)
            line = self.progress_line()
            if line and line != last:
                logger.info("%s", line)
            last = line


def _log_library(library: LibraryInfo, checkout: Path | None, plan: TaskPlan) -> None:
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


def _make_dumper(config: Any, run_uuid: str, folder: Path) -> RolloutDumper | None:
    if not config.dump_rollouts and not config.dump_failed_rollouts:
        return None
    return RolloutDumper(
        Path(config.data_dumps_dir) if config.data_dumps_dir else default_dumps_folder(folder),
        run_uuid,
        dump_passed=config.dump_rollouts,
        dump_failed=config.dump_failed_rollouts,
        score_threshold=config.rollout_save_score_threshold,
    )
