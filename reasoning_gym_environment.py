"""The Atropos environment over reasoning-gym: the front door of this folder.

Run it (`python reasoning_gym_environment.py serve`), import `ReasoningGymEnv` into a training config, or subclass it.
This module joins two sides and holds neither: Atropos' BaseEnv on the one, the package `reasoning_env` beside it on the
other. Everything here runs on one event loop; whatever is slow is done by worker processes or threads.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import math
import os
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if __name__ == "__main__":
    # Transformers' advice to install PyTorch: nothing here runs a model.
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")

import jsonlines
import wandb
from atroposlib.envs.base import BaseEnv, BaseEnvConfig, ScoredDataGroup
from atroposlib.envs.server_handling.openai_server import OpenAIServer
from atroposlib.envs.server_handling.server_baseline import APIServerConfig, ServerBaseline
from atroposlib.envs.server_handling.trl_vllm_server import TrlVllmServer
from pydantic import ConfigDict, Field, model_validator

if TYPE_CHECKING or not __package__:
    import reasoning_env
    from reasoning_env.atropos.config import check_ranges
    from reasoning_env.atropos.group_writer import BackgroundWriter
    from reasoning_env.atropos.inference import InferenceClient, Mode, check_servers, describe_failure
    from reasoning_env.atropos.shutdown import finish_within, run_until_signal
    from reasoning_env.atropos.wandb import has_wandb_account
    from reasoning_env.attendance import Attendance, Registration
    from reasoning_env.commands import main as cli
    from reasoning_env.errors import ConfigError, ReasoningEnvError, ScoringError, ServerError, WorkerError
    from reasoning_env.evaluation import (
        EvalResult,
        EvaluationSet,
        Evaluator,
        choose_eval_tasks,
        sample_record,
        summarise,
    )
    from reasoning_env.metrics import MetricsRecorder, task_metrics
    from reasoning_env.outbox import Outbox, saved_groups
    from reasoning_env.problems import ProblemStream
    from reasoning_env.prompting import ChatFormat, build_messages
    from reasoning_env.records import DropReason, Group, Problem, ProblemSpec, Prompt, Rollout, Sampling, Timeouts
    from reasoning_env.resume import StateKeeper
    from reasoning_env.rewards import score_rollouts
    from reasoning_env.rollouts.writer import RolloutDumper
    from reasoning_env.run_api import RunApi
    from reasoning_env.settings import ReasoningSettings
    from reasoning_env.tasks.plan import TaskPlan, TaskStream, plan_tasks
    from reasoning_env.tasks.sampling import task_params
    from reasoning_env.workers.checkout import find_checkout
    from reasoning_env.workers.pool import WorkerPool
else:  # dropped into another source tree and imported by its dotted path
    from . import reasoning_env
    from .reasoning_env.atropos.config import check_ranges
    from .reasoning_env.atropos.group_writer import BackgroundWriter
    from .reasoning_env.atropos.inference import InferenceClient, Mode, check_servers, describe_failure
    from .reasoning_env.atropos.shutdown import finish_within, run_until_signal
    from .reasoning_env.atropos.wandb import has_wandb_account
    from .reasoning_env.attendance import Attendance, Registration
    from .reasoning_env.commands import main as cli
    from .reasoning_env.errors import ConfigError, ReasoningEnvError, ScoringError, ServerError, WorkerError
    from .reasoning_env.evaluation import (
        EvalResult,
        EvaluationSet,
        Evaluator,
        choose_eval_tasks,
        sample_record,
        summarise,
    )
    from .reasoning_env.metrics import MetricsRecorder, task_metrics
    from .reasoning_env.outbox import Outbox, saved_groups
    from .reasoning_env.problems import ProblemStream
    from .reasoning_env.prompting import ChatFormat, build_messages
    from .reasoning_env.records import DropReason, Group, Problem, ProblemSpec, Prompt, Rollout, Sampling, Timeouts
    from .reasoning_env.resume import StateKeeper
    from .reasoning_env.rewards import score_rollouts
    from .reasoning_env.rollouts.writer import RolloutDumper
    from .reasoning_env.run_api import RunApi
    from .reasoning_env.settings import ReasoningSettings
    from .reasoning_env.tasks.plan import TaskPlan, TaskStream, plan_tasks
    from .reasoning_env.tasks.sampling import task_params
    from .reasoning_env.workers.checkout import find_checkout
    from .reasoning_env.workers.pool import WorkerPool

logger = logging.getLogger("reasoning_gym_environment")

HERE = Path(__file__).resolve().parent
ENV_NAME = "reasoning_gym"
DEFAULT_TOKENIZER = "NousResearch/DeepHermes-3-Llama-3-3B-Preview"
DEFAULT_SERVER_URL = "http://localhost:9001/v1"
PROMPTS_TOO_LONG_LIMIT = 1000
"""After this many problems in a row whose prompts do not fit, the token limit is wrong, not the problems."""
LONG_QUESTION = 4000
"""Characters from which a question is tokenized in a thread; below, that would only cost time."""
OUTAGE_LIMIT_S = 30.0
"""How long `process` and `evaluate` wait for a server that is gone, where no setting says otherwise."""
SAVE_INTERVAL_S = 10.0
"""How often the state is saved beside the trainer's checkpoints, for an environment that is killed."""
HOPELESS_S = 1.0
"""How long inference may have failed for groups in flight to be waited for at the end."""
LEAST_DRAIN_S = 3.0
"""How long groups on their way to run-api get in any case when the environment ends."""
DUMP_PATIENCE_S = 10.0
"""How long a disk may take for a group before groups go on without it."""
ALMOST = 0.9
"""The part of `worker_timeout` after which a cancelled group counts as timed out."""
FREEZE_TIMEOUT_S = 1.0


class ReasoningGymEnvConfig(ReasoningSettings, BaseEnvConfig):
    """All settings: Atropos' own and this environment's; unknown names and values out of range raise."""

    model_config = ConfigDict(extra="forbid")

    wandb_name: str | None = Field(
        default=ENV_NAME, description="Name of the run at wandb, and of this environment at run-api."
    )
    ensure_scores_are_not_same: bool = Field(
        default=True, description="Do not send groups whose scores are all equal; off for a `group_size` of 1."
    )

    @model_validator(mode="after")
    def _check(self) -> ReasoningGymEnvConfig:
        check_ranges(self)
        if self.wandb_name is None:
            # run-api refuses an environment without a name.
            self.wandb_name = ENV_NAME
        if self.group_size == 1 and self.ensure_scores_are_not_same:
            # A group of one always has equal scores; the filter would throw everything away.
            self.ensure_scores_are_not_same = False
        return self


@dataclass(frozen=True)
class _Backend:
    """What `setup` starts and finds out: the workers, what problems are drawn from, and who keeps the state."""

    pool: WorkerPool
    plan: TaskPlan
    keeper: StateKeeper


@dataclass(frozen=True)
class RolloutItem:
    """What BaseEnv carries from `get_next_item` to `collect_trajectories`."""

    problem: Problem
    prompt: Prompt = field(repr=False)


class ReasoningGymEnv(BaseEnv):
    """Serves reasoning-gym problems, scores completions in isolated processes, sends groups that carry a signal."""

    name = ENV_NAME
    env_config_cls = ReasoningGymEnvConfig

    jsonl_writer: Any
    wandb_project: str | None

    def __init__(
        self,
        config: ReasoningGymEnvConfig,
        server_configs: ServerBaseline | list[APIServerConfig],
        slurm: bool = False,
        testing: bool = False,
    ) -> None:
        _set_log_levels(config)
        self._run_uuid = str(uuid.uuid4())
        self._dumper = _make_dumper(config, self._run_uuid)
        server_configs = _completed(server_configs, config.tokenizer_name)
        try:
            super().__init__(config, server_configs, slurm, testing)
        except Exception as error:  # tokenizers raise all sorts of things for files that they cannot read
            raise ConfigError(_explain_construction(error, config, server_configs, slurm)) from error
        self.config: ReasoningGymEnvConfig = config
        self.process_mode = False
        self._testing = testing
        # One request for a whole group: the server shares the prompt's work among its completions.
        self.server.max_n_completions = max(config.group_size, getattr(self.server, "max_n_completions", 1))
        self._chat = ChatFormat(self.tokenizer, config.tokenizer_name)
        text_only = any(isinstance(server, (OpenAIServer, TrlVllmServer)) for server in self.server.servers)
        self._mode = Mode.TEXT if text_only else Mode.TOKENS
        self._inference = InferenceClient(self.server, self._chat, self.tokenizer, self._mode)
        self._metrics = MetricsRecorder()
        if self.jsonl_writer is not None:
            # Opened again, because Atropos' own keeps lines in a buffer, which a kill would empty in the middle of one.
            self.jsonl_writer.close()
            self.jsonl_writer = BackgroundWriter(jsonlines.open(self.config.data_path_to_save_groups, "w", flush=True))
        self._run_api = RunApi(config.rollout_server_url)
        self._outbox = Outbox(
            self._run_api,
            ready=self._dumped,
            on_loss=lambda: self._metrics.record_dropped(DropReason.UNDELIVERED),
            on_delivery=lambda number: self._started().keeper.note_delivered(number),
        )
        entry = {
            "max_token_length": config.max_token_length,
            "desired_name": config.wandb_name,
            "weight": config.inference_weight,
            "min_batch_allocation": config.min_batch_allocation,
            "group_size": config.group_size,
        }
        self._attendance = Attendance(self._run_api, entry, self._outbox)
        self.env_id = 0
        self._backend: _Backend | None = None
        self._task_stream: TaskStream | None = None
        self._stream: ProblemStream | None = None
        self._instance = 0
        self._resume: Mapping[str, Any] = {}
        self._eval_set: EvaluationSet | None = None
        self._prompting = asyncio.Lock()
        self._handed_out: dict[int, ProblemSpec] = {}
        self._failures_in_a_row = 0
        self._fatal: ReasoningEnvError | None = None
        self._told: set[str] = set()
        self._checkpoint_data: dict[str, Any] = {}
        self._stuck_dump: Future[None] | None = None
        self._raise_evaluation_errors = False
        self._serving = False
        self._closing = False
        self._background: list[asyncio.Task[None]] = []
        # What is loaded by now stays loaded; each time the collector walked it, it would stall the loop for 100 ms.
        gc.collect()
        gc.freeze()

    @classmethod
    def config_init(cls) -> tuple[ReasoningGymEnvConfig, list[APIServerConfig]]:
        """Defaults that work with any OpenAI-compatible server on this machine."""
        server = APIServerConfig(
            server_type="openai", base_url=DEFAULT_SERVER_URL, api_key="x", model_name=DEFAULT_TOKENIZER
        )
        return ReasoningGymEnvConfig(tokenizer_name=DEFAULT_TOKENIZER), [server]

    # ------------------------------------------------------------------ start and end

    async def setup(self) -> None:
        """Start the workers and make sure that an inference server answers.

        Raises ConfigError, ServerError or WorkerError, each with its remedy.
        """
        checkout = find_checkout(HERE)
        pool = WorkerPool(self.config.pool_settings(checkout))
        library = await pool.start()
        try:
            plan = await plan_tasks(self.config, library, pool)
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
            if not self._testing:
                await check_servers(self.server.servers, self._mode, self._outage_limit_s)
        except BaseException:
            await pool.close()
            raise
        self._backend = _Backend(pool, plan, StateKeeper(self.config, plan))
        self._background += map(asyncio.create_task, [self._log_progress(), self._inference.watch()])

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """Process ids of the workers that are alive."""
        return () if self._backend is None else self._backend.pool.worker_pids

    def _started(self) -> _Backend:
        if self._backend is None:
            raise RuntimeError("setup() comes first")
        return self._backend

    async def close(self) -> None:
        """Finish or put back what is in flight, save the state, leave run-api and end all that was started.

        Groups in flight get `shutdown_grace_s`, and those on their way to run-api what is left of it, or some seconds.
        Safe to call twice.
        """
        deadline = time.monotonic() + self.config.shutdown_grace_s
        steps = [self._stop_working, lambda: self._stop_sending(deadline), self._stop_keeping]
        steps += [self._attendance.say_goodbye, self._stop_generating, self._stop_writing]
        if not self._closing:
            steps.insert(0, self._finish_in_flight)
        for step in steps:
            try:
                await step()
            except Exception:  # whatever one part does, the others must end
                logger.exception("an error at the end")

    async def _finish_in_flight(self) -> None:
        if not self._serving:
            return
        for task in filter(None, [self.eval_runner, *self.eval_workers]):
            task.cancel()
        await asyncio.sleep(0)  # those that BaseEnv has cancelled already end in this turn of the loop
        await asyncio.sleep(0)
        if not self.workers:
            return
        grace_s = self.config.shutdown_grace_s
        logger.info("%d groups in flight get %g s to finish; a second signal ends at once", len(self.workers), grace_s)
        deadline = time.monotonic() + grace_s
        # In an outage that began with the same signal, waiting would be in vain.
        while self.workers and time.monotonic() < deadline and self._inference.outage_s < HOPELESS_S:
            await asyncio.wait(self.workers, timeout=min(HOPELESS_S, deadline - time.monotonic()))

    async def _stop_working(self) -> None:
        self._closing = True
        running = [*self.workers, *self.eval_workers, *filter(None, [self.eval_runner]), *self._background]
        for server in self.server.servers:
            running += filter(None, [getattr(server, "check_task", None)])
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        if self._background:
            logger.info("%s", self._progress_line())
            self._background.clear()

    async def _stop_sending(self, deadline: float) -> None:
        # BaseEnv does not ask any more, and a run-api that was away must know this environment before it gets groups.
        asking = [asyncio.create_task(self.get_status())] if self._serving and self._outbox.stats.waiting else []
        await self._outbox.drain(max(deadline - time.monotonic(), LEAST_DRAIN_S))
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        await self._outbox.close()
        waiting = self._outbox.stats.waiting
        folder = self._backend.keeper.folder if waiting and self._backend is not None else None
        if folder is not None:
            logger.info("%d scored groups could not be delivered; they are kept in %s", waiting, folder)
        elif waiting:
            logger.warning("%d scored groups could not be delivered, and are lost: there is no checkpoint_dir", waiting)

    async def _stop_keeping(self) -> None:
        if self._backend is None:
            return
        keeper = self._backend.keeper
        if keeper.folder is not None and self._stream is not None:
            if self._handed_out:
                logger.info("%d problems are put back; a resumed run serves them first", len(self._handed_out))
            self._save(self.curr_step, latest=True)
        await asyncio.to_thread(keeper.close)

    async def _stop_generating(self) -> None:
        if self._stream is not None:
            await self._stream.close()
        if self._eval_set is not None:
            await self._eval_set.close()
        if self._backend is not None:
            await self._backend.pool.close()

    async def _stop_writing(self) -> None:
        if self._dumper is not None:
            await asyncio.to_thread(self._dumper.close)
        if self.jsonl_writer is not None:
            await asyncio.to_thread(self.jsonl_writer.close)

    def _before_exit(self) -> None:
        """Let nothing be written half when the process ends at once."""
        for writer in filter(None, [self._dumper, self.jsonl_writer]):
            writer.freeze(FREEZE_TIMEOUT_S)

    async def env_manager(self) -> None:
        """Serve until the run is over, Ctrl-C or SIGTERM; nothing that was accepted is lost in any of them."""

        async def serve() -> None:
            self._serving = True
            await self._run_api.wait_until_there(self._outage_limit_s)
            await super(ReasoningGymEnv, self).env_manager()

        await run_until_signal(serve, self.close, self._before_exit)

    @property
    def _outage_limit_s(self) -> float:
        """How long a server may be gone before that is an error; infinite in `serve` unless a setting says so."""
        if self.config.startup_timeout_s is not None:
            return self.config.startup_timeout_s
        return math.inf if self._serving else OUTAGE_LIMIT_S

    async def process_manager(self) -> None:
        """Write `total_steps` groups to a file, then end."""
        self._go_offline_without_account()
        # No trainer sets a limit here; BaseEnv would warn of that with every group.
        self.max_token_len = self.config.max_token_length
        await run_until_signal(super().process_manager, self.close, self._before_exit)

    async def _run_evaluate(self) -> None:
        async def evaluate() -> None:
            self._go_offline_without_account()
            await self.setup()
            if self.config.use_wandb:
                await self._start_wandb()
            self._raise_evaluation_errors = True
            await self.evaluate()

        await run_until_signal(evaluate, self.close, self._before_exit)

    async def setup_wandb(self) -> None:
        """As BaseEnv does it, but starting wandb takes a second or more, which a thread spends."""
        if not self.config.use_wandb:
            return
        self._go_offline_without_account()
        self.wandb_group, self.wandb_project = await self._run_api.wandb_group_and_project()
        await self._start_wandb()

    async def _start_wandb(self) -> None:
        name = None
        if self.config.wandb_name:
            name = f"{self.config.wandb_name}-{time.strftime('%Y-%m-%d')}-{self._run_uuid[:6]}"
        await asyncio.to_thread(
            wandb.init,
            name=name,
            project=self.wandb_project,
            group=self.wandb_group,
            config=self.config.model_dump(mode="json"),
        )

    # ------------------------------------------------------------------ run-api

    async def register_env(self) -> None:
        """Register at run-api and take up a saved state where the trainer is past its first step.

        Raises ConfigError for a checkpoint of another seed or task selection, and ServerError when something else than
        run-api answers.
        """
        registration = await self._attendance.register()
        self._note_registration(registration)
        self.wandb_prepend = registration.wandb_name
        self.checkpoint_dir = registration.checkpoint_dir
        if self.config.total_steps == -1:
            self.config.total_steps = registration.num_steps
            if self.config.total_steps == -1:
                raise ConfigError("neither env.total_steps nor the trainer sets a number of steps")
        # Each environment at one run-api has a number of its own, and with it a stream of its own.
        self._instance = self.env_id
        await asyncio.to_thread(self._open_keeper)
        if self.curr_step > 0:
            await asyncio.to_thread(self.load_checkpoint)
        self._instance = await asyncio.to_thread(self._started().keeper.claim_instance, self._instance)
        self._start_stream()
        keeper = self._started().keeper
        delivered, still_there = await asyncio.to_thread(keeper.delivered)
        self._outbox.restore(self._resume.get("outbox", ()), delivered=delivered, still_there=still_there)
        if keeper.folder is not None:
            if self._resume:  # with the new numbers of groups, before any of them is noted as delivered
                self._save(self.curr_step, latest=True)
            self._background.append(asyncio.create_task(self._save_regularly()))
        self._attendance.deliver()

    def _open_keeper(self) -> None:
        """Take a folder for the state, unless that has happened."""
        # A trainer that wants checkpoints and names no folder means the working directory, as in BaseEnv.
        folder = self.checkpoint_dir or ("." if self.checkpoint_interval > 0 else "")
        self._started().keeper.open(folder, self.wandb_prepend or f"{ENV_NAME}_0", step=self.curr_step)

    def _note_registration(self, registration: Registration) -> None:
        self.env_id = registration.env_id
        self.curr_step = registration.starting_step
        self.checkpoint_interval = registration.checkpoint_interval

    async def get_server_info(self) -> None:
        info = await self._run_api.info()
        if info["batch_size"] != -1:
            self.config.batch_size = info["batch_size"]
        if info["max_token_len"] != -1:
            self.max_token_len = info["max_token_len"]
        if self.config.batch_size == -1:
            logger.warning("neither env.batch_size nor the trainer sets a batch size")
        if self.config.group_size > self.config.batch_size:
            raise ConfigError(
                f"this environment does not fit the trainer: group_size ({self.config.group_size}) must be at most its "
                f"batch_size ({self.config.batch_size})"
            )

    async def get_status(self) -> None:
        """As BaseEnv's, but waiting for a run-api that is gone, and registering again at one that has forgotten us."""

        async def registered(registration: Registration) -> None:
            self._note_registration(registration)
            await self.get_server_info()

        status = self.status_dict = await self._attendance.status(registered)
        per_server = self.config.max_num_workers_per_node * len(self.server.servers)
        self.max_num_workers = per_server if self.config.max_num_workers == -1 else self.config.max_num_workers
        await self.server.update_weight(status["env_weight"])
        whole_batch = status["queue_size"] * self.config.group_size >= self.config.batch_size
        self._attendance.watch_trainer(batch_waits=whole_batch and status["current_step"] == self.curr_step)

    async def _send_scored_data_to_api(self, scored_data: ScoredDataGroup | list[ScoredDataGroup]) -> None:
        """Hand over to the outbox, which loses nothing, and wait for the delivery only where many groups wait."""
        groups = scored_data if isinstance(scored_data, list) else [scored_data]
        delivered = [self._outbox.put(group) for group in groups]
        if self._outbox.stats.waiting > self.max_num_workers:
            await asyncio.wait(delivered)

    async def _dumped(self) -> None:
        """Return when all groups that were accepted for dumping are on disk, or must wait for it in memory."""
        if self._dumper is None or self._dumps_are_stuck():
            return
        settled = self._dumper.settled()
        if settled.done() or (await asyncio.wait([asyncio.wrap_future(settled)], timeout=DUMP_PATIENCE_S))[0]:
            return
        if not self._dumps_are_stuck():
            self._stuck_dump = settled
            logger.error("rollouts were not written within %g s; groups do not wait for the disk now", DUMP_PATIENCE_S)

    def _dumps_are_stuck(self) -> bool:
        return self._stuck_dump is not None and not self._stuck_dump.done()

    def _go_offline_without_account(self) -> None:
        if self.config.use_wandb and "WANDB_MODE" not in os.environ and not has_wandb_account():
            os.environ["WANDB_MODE"] = "offline"
            self._tell_once(logging.WARNING, "no wandb account is configured; metrics are kept offline in ./wandb")

    # ------------------------------------------------------------------ problems

    async def get_next_item(self) -> RolloutItem:
        """The next problem whose prompt fits.

        Raises ServerError in `process` when inference failed too often in a row, and the error that ended the workers.
        """
        if self._fatal is not None:
            raise self._fatal
        if self.process_mode and self._failures_in_a_row >= self.config.max_failed_groups_in_a_row:
            raise ServerError(f"{self._failures_in_a_row} groups in a row failed; the log above says why")
        for _ in range(PROMPTS_TOO_LONG_LIMIT):
            await self._dumped()
            # One at a time, each in a turn of the loop of its own: dozens may be asked for at once.
            async with self._prompting:
                problem = await self._start_stream().next()
                self._handed_out[problem.spec.index] = problem.spec
                prompt = await self._prompt(problem)
                await asyncio.sleep(0)
            if self._sampling(evaluating=False).completion_budget(prompt) >= self.config.min_completion_tokens:
                logger.debug("next: %s", problem.spec)
                return RolloutItem(problem, prompt)
            self._metrics.record_dropped(DropReason.PROMPT_TOO_LONG)
            self._finish_position(problem)
            self._tell_once(
                logging.WARNING,
                f"problems of {problem.task} are skipped when their prompts leave too few of "
                f"{self._token_limit} tokens; raise max_token_length to train on them",
                key=problem.task,
            )
        raise ConfigError(
            f"no prompt of {PROMPTS_TOO_LONG_LIMIT} in a row fits into max_token_length={self._token_limit} "
            f"with min_completion_tokens={self.config.min_completion_tokens}; raise the one or lower the other"
        )

    def _start_stream(self) -> ProblemStream:
        if self._stream is None:
            backend = self._started()
            self._task_stream = TaskStream(
                backend.plan,
                self.config,
                instance=self._instance,
                group_size=self.config.group_size,
                state=self._resume,
            )
            self._stream = ProblemStream(
                backend.pool,
                self._task_stream.sampler,
                depth=self.config.prefetch_problems,
                deadline_s=self.config.generation_deadline_s,
                quarantine_after=self.config.quarantine_after_failures,
                avoid=self._evaluation_set().asks,
                state=self._resume.get("stream"),
            )
            self._stream.start()
        return self._stream

    def _messages(self, problem: Problem) -> tuple[Mapping[str, str], ...]:
        system = "\n\n".join(filter(None, [self.config.custom_thinking_prompt, self.config.system_prompt]))
        return build_messages(system, problem.question)

    async def _prompt(self, problem: Problem) -> Prompt:
        if len(problem.question) > LONG_QUESTION:
            return await asyncio.to_thread(self._chat.prompt, self._messages(problem))
        return self._chat.prompt(self._messages(problem))

    @property
    def _token_limit(self) -> int:
        """Prompt and completion together stay below this: BaseEnv drops a group that reaches the trainer's limit."""
        trainer = self.max_token_len
        return min(self.config.max_token_length, trainer) if trainer > 0 else self.config.max_token_length

    def _sampling(self, *, evaluating: bool) -> Sampling:
        config = self.config
        return Sampling(
            temperature=config.eval_temperature if evaluating else config.temperature,
            top_p=config.eval_top_p if evaluating else config.top_p,
            token_limit=self._token_limit,
            split="eval" if evaluating else "train",
        )

    @property
    def _timeouts(self) -> Timeouts:
        timeout_s = self.config.worker_timeout
        return Timeouts(reply_s=timeout_s if timeout_s > 0 else None, outage_s=self._outage_limit_s)

    # ------------------------------------------------------------------ rollouts and scores

    async def collect_trajectories(self, item: RolloutItem) -> tuple[ScoredDataGroup | None, list[RolloutItem]]:
        """Sample and score a group; None when it failed (counted, logged) or carries no signal."""
        started, successes = time.monotonic(), self._inference.successes
        try:
            scored = await self._collect(item)
        except TimeoutError:
            return None, self._give_up(item, successes)
        except asyncio.CancelledError:
            # BaseEnv has put the item back before this, unless it saw a timeout, perhaps by a clock that was changed.
            served_again = [*self.backlog, *(running["item"] for running in self.running_items.values())]
            put_back = self._closing or any(known is item for known in served_again)
            if self._serving and not put_back:
                timed_out = time.monotonic() - started > ALMOST * (self._worker_limit_s or math.inf)
                self.backlog += self._give_up(item, successes) if timed_out else [item]
            raise
        except Exception as error:
            self._note_dropped(DropReason.SCORING, item.problem, error)
            self._finish_position(item.problem)
            raise
        self._finish_position(item.problem)
        return scored, []

    @property
    def _worker_limit_s(self) -> float | None:
        return self.config.worker_timeout if self._serving and self.config.worker_timeout > 0 else None

    def _give_up(self, item: RolloutItem, successes: int) -> list[RolloutItem]:
        """Count a group that took too long as lost; but in an outage, when none succeeded meanwhile, put it back."""
        if not self._inference.healthy or self._inference.successes == successes:
            return [item]
        self._note_dropped(
            DropReason.TIMED_OUT, item.problem, TimeoutError(f"not done after {self._worker_limit_s:g} s")
        )
        self._finish_position(item.problem)
        return []

    def _finish_position(self, problem: Problem) -> None:
        self._handed_out.pop(problem.spec.index, None)
        if self._task_stream is not None:
            self._task_stream.release(problem.spec.index)

    async def _collect(self, item: RolloutItem) -> ScoredDataGroup | None:
        """What is sent; from the moment a group is scored, nothing in here waits, so that a group is never half done.

        Raises TimeoutError for completions that took too long.
        """
        try:
            rollouts = await finish_within(self._sample(item.prompt), self._worker_limit_s)
        except Exception as error:
            if self._serving and isinstance(error, asyncio.TimeoutError):
                raise
            self._note_dropped(DropReason.INFERENCE, item.problem, error)
            return None
        group = Group(item.problem, item.prompt.messages, tuple(rollouts))
        try:
            scored = await self.score(group)
        except ScoringError as error:
            self._note_dropped(DropReason.SCORING, item.problem, error)
            return None
        except WorkerError as error:
            self._fatal = error
            self._note_dropped(DropReason.SCORING, item.problem, error)
            return None
        self._failures_in_a_row = 0
        return scored

    async def _sample(self, prompt: Prompt) -> list[Rollout]:
        group_size, sampling = self.config.group_size, self._sampling(evaluating=False)
        if self._serving:
            return await self._inference.complete_through_outages(prompt, group_size, sampling)
        return await self._inference.complete_in_time(prompt, group_size, sampling, self._timeouts)

    async def score(self, group: Group) -> ScoredDataGroup | None:
        """Score a group's rollouts, count and dump it; None when its scores are equal and such groups are filtered.

        From its return until the group is sent nothing waits, so that a group is never counted and served again. What a
        subclass puts around it must not wait either; neither must `postprocess_histories`.

        Raises ScoringError when a fault of ours persists; the group is then lost, never scored 0.
        """
        rollouts = await score_rollouts(
            self._started().pool,
            group.problem,
            group.rollouts,
            max_answer_bytes=self.config.max_answer_bytes,
            max_tokens=self.config.max_token_length,
        )
        group = Group(group.problem, group.messages, rollouts)
        outcome = self._metrics.record_group(group)
        if self._task_stream is not None:
            self._task_stream.observe(group)
        level = group.problem.level
        logger.debug("%s at level %s: scores %s (%s)", group.problem.spec, level, group.scores, outcome.value)
        if self._dumper is not None:
            self._dumper.offer(group)
        # `process` counts what it is handed, so there BaseEnv itself drops groups without a signal.
        if self.config.ensure_scores_are_not_same and not self.process_mode and not group.has_signal:
            return None
        return self._pack(group)

    def _pack(self, group: Group) -> ScoredDataGroup:
        """The parallel lists that Atropos wants."""
        rollouts = group.rollouts
        mask_truncated = self.config.mask_too_long_completions
        with_logprobs = all(rollout.logprobs is not None for rollout in rollouts)
        packed: ScoredDataGroup = {
            "tokens": [list(rollout.tokens) for rollout in rollouts],
            "masks": [list(rollout.masks) for rollout in rollouts],
            "scores": [rollout.score for rollout in rollouts],
            "advantages": None,
            "ref_logprobs": None,
            "messages": None,
            "generation_params": None,
            "inference_logprobs": [list(rollout.logprobs or ()) for rollout in rollouts] if with_logprobs else None,
            "group_overrides": {},
            "overrides": [
                {"set_advantage_to_zero": True} if rollout.truncated and mask_truncated else {} for rollout in rollouts
            ],
            "images": None,
            "distill_token_ids": None,
            "distill_logprobs": None,
        }
        if self.config.include_messages:
            packed["messages"] = [
                [*map(dict, group.messages), {"role": "assistant", "content": rollout.text}] for rollout in rollouts
            ]
        return packed

    def _note_dropped(self, reason: DropReason, problem: Problem, error: Exception) -> None:
        self._failures_in_a_row += 1
        self._metrics.record_dropped(reason)
        logger.warning("a group of %s is dropped, %s: %s", problem.task, reason.value, describe_failure(error))

    # ------------------------------------------------------------------ evaluation

    async def evaluate(self, *args: Any, **kwargs: Any) -> None:
        """Sample one completion for every problem of the fixed set and report scores, overall and per task.

        When not one problem could be evaluated, that is an error in the log; `evaluate` on the command line raises it.
        """
        try:
            await self._evaluate_all()
        except ReasoningEnvError as error:
            if self._raise_evaluation_errors:
                raise
            logger.error("the evaluation failed: %s", error)

    async def _evaluate_all(self) -> None:
        started = time.time()
        backend = self._started()
        evaluator = Evaluator(
            pool=backend.pool,
            completer=self._inference,
            make_prompt=self._prompt,
            sampling=self._sampling(evaluating=True),
            settings=self.config,
            workers=self.config.max_eval_workers,
            timeouts=self._timeouts,
            note_dropped=self._note_dropped,
        )
        results = await evaluator.run(await self._evaluation_set().problems())
        metrics = summarise(results)
        if "eval/mean_score" not in metrics:
            raise ServerError("not one evaluation problem could be evaluated; the log above says why")
        logger.info(
            "evaluation of %d problems: mean score %.3f, share correct %.3f, %d failed",
            len(results),
            metrics["eval/mean_score"],
            metrics["eval/share_correct"],
            metrics["eval/failed"],
        )
        await self.wandb_log(dict(metrics))
        if self.config.data_dir_to_save_evals is not None:
            await self._save_evaluation(results, metrics, started)

    def _evaluation_set(self) -> EvaluationSet:
        if self._eval_set is None:
            backend = self._started()
            self._eval_set = EvaluationSet(
                backend.pool,
                choose_eval_tasks(backend.plan.tasks, self.config.num_eval_tasks),
                task_params(backend.plan.tasks, backend.plan.available),
                samples_per_task=self.config.num_eval_samples_per_task,
                eval_seed=self.config.eval_seed,
                deadline_s=self.config.eval_generation_deadline_s,
            )
        return self._eval_set

    async def _save_evaluation(self, results: Sequence[EvalResult], metrics: dict[str, float], started: float) -> None:
        sampling = self._sampling(evaluating=True)
        write = self.evaluate_log(
            metrics=metrics,
            start_time=started,
            end_time=time.time(),
            generation_parameters={"temperature": sampling.temperature, "top_p": sampling.top_p},
            samples=[sample_record(result, self._messages(result.problem)) for result in results],
        )
        # A coroutine that only writes files: it runs in a thread, on a loop of its own.
        await asyncio.to_thread(asyncio.run, write)

    # ------------------------------------------------------------------ metrics and checkpoints

    async def wandb_log(self, wandb_metrics: dict[str, Any] | None = None) -> None:
        """Log the interval's metrics, with `wandb_metrics` beside them."""
        metrics = dict(wandb_metrics or {})
        if self._backend is not None:
            pool = self._backend.pool
            stream = self._stream.stats if self._stream else None
            dumps = None if self._dumper is None else self._dumper.stats()
            delivery = self._outbox.stats if self._serving else None
            metrics |= self._metrics.report(stream, pool.stats, pool.queued_jobs, dumps=dumps, delivery=delivery)
            metrics |= task_metrics({} if self._task_stream is None else self._task_stream.report())
        await super().wandb_log(metrics)
        self._trim_timings()

    def _trim_timings(self) -> None:
        """Keep of each server's timings what its `rolling_buffer_length` says; Atropos only ever adds to them."""
        for server in self.server.servers:
            keep = getattr(getattr(server, "config", None), "rolling_buffer_length", 0) or 1
            for name in ("request_timings", "attempts_list", "eval_request_timings", "eval_attempts_list"):
                del getattr(server, name, [])[:-keep]
        del self.task_successful[:-1]

    async def add_rollouts_for_wandb(
        self, scored_data: ScoredDataGroup | list[ScoredDataGroup], item: RolloutItem | None = None
    ) -> None:
        """Keep some rollouts of the group for the next table."""
        groups = scored_data if isinstance(scored_data, list) else [scored_data]
        keep = self.config.num_rollouts_per_group_for_logging
        task = item.problem.task if item else ""
        expected = (item.problem.answer if item else None) or ""
        for group in groups:
            count = len(group["tokens"]) if keep == -1 else min(keep, len(group["tokens"]))
            self.rollouts_for_wandb.append(
                [
                    (self._chat.decode(group["tokens"][number]), group["scores"][number], expected, task)
                    for number in range(count)
                ]
            )
        del self.rollouts_for_wandb[: -self.config.num_rollouts_to_keep or None]

    async def create_rollout_table(self, wandb_metrics: dict[str, Any]) -> dict[str, Any]:
        if self.rollouts_for_wandb and self.config.use_wandb:
            table = wandb.Table(columns=["text", "score", "expected_answer", "task"])
            for group in self.rollouts_for_wandb:
                for row in group:
                    table.add_data(*row)
            wandb_metrics["train/rollouts"] = table
        return wandb_metrics

    def save_checkpoint(self, step: int, data: dict[str, Any] | None = None) -> None:
        """Save everything that decides the next problem and the next metric; a thread writes the file.

        `data`, which JSON must be able to hold, is saved with it, and set as attributes when it is loaded.
        """
        self._open_keeper()
        self._checkpoint_data = dict(data or {})
        self._save(step)

    def _save(self, step: int, *, latest: bool = False) -> None:
        state = self._state()
        waiting = self._outbox.state()
        self._started().keeper.save(step, lambda: {**state, "outbox": saved_groups(waiting)}, latest=latest)

    def _state(self) -> dict[str, Any]:
        """The whole of the state but for groups on their way to run-api; a copy, which nobody changes any more."""
        assert self._stream is not None and self._task_stream is not None
        in_flight = [self._handed_out[index] for index in sorted(self._handed_out)]
        return {
            "instance": self._instance,
            "stream": self._stream.state(in_flight),
            **self._task_stream.state(),
            "metrics": self._metrics.state(),
            "since_last_log": {
                "items_sent_this_step": self.items_sent_this_step,
                "completion_lengths": list(self.completion_lengths),
            },
            "dumps": None if self._dumper is None else self._dumper.state(),
            "data": self._checkpoint_data,
        }

    async def _save_regularly(self) -> None:
        saved: object = None
        while True:
            await asyncio.sleep(SAVE_INTERVAL_S)
            # In an outage nothing changes, but a great deal may wait.
            changes = (self.curr_step, self._progress_line(), self._outbox.stats if self._serving else None)
            if changes == saved or self._started().keeper.busy:
                continue
            try:
                self._save(self.curr_step, latest=True)
                saved = changes
            except Exception:
                logger.exception("the state could not be saved")

    def load_checkpoint(self) -> None:
        """Take up the state that was saved for the current step, or the last one before it.

        Raises ConfigError for a checkpoint of another seed or task selection, unless `resume_with_changes` is on.
        """
        self._open_keeper()
        state = self._started().keeper.load(self.curr_step)
        if state is None:
            return
        self._resume = state
        self._instance = state["instance"]
        self._metrics = MetricsRecorder(state["metrics"])
        self.items_sent_this_step = state["since_last_log"]["items_sent_this_step"]
        self.completion_lengths = list(state["since_last_log"]["completion_lengths"])
        if self._dumper is not None and state["dumps"] is not None:
            self._dumper.resume(state["dumps"])
        self._checkpoint_data = dict(state["data"])
        for name, value in self._checkpoint_data.items():
            setattr(self, name, value)

    async def _log_progress(self) -> None:
        last = ""
        while True:
            await asyncio.sleep(self.config.progress_interval_s)
            line = self._progress_line()
            if line != last:
                logger.info("%s", line)
            last = line

    def _progress_line(self) -> str:
        dumps = None if self._dumper is None else self._dumper.stats()
        delivery = self._outbox.stats if self._serving else None
        return self._metrics.progress_line(self._stream.stats if self._stream else None, dumps=dumps, delivery=delivery)

    def _tell_once(self, level: int, message: str, key: str | None = None) -> None:
        if (key or message) not in self._told:
            self._told.add(key or message)
            logger.log(level, "%s", message)

    # ------------------------------------------------------------------ command line

    @classmethod
    def cli(cls) -> None:
        """`serve`, `process` and `evaluate` of BaseEnv, with `tasks` and `demo`; ends the process."""
        raise SystemExit(cli.main(cls, sys.argv[1:], environment_file=Path(__file__).resolve()))


def _set_log_levels(config: ReasoningGymEnvConfig) -> None:
    """The one place where another package's logger is touched; `suppress_base_env_logs` turns it off."""
    level = logging.DEBUG if config.debug_logging else logging.INFO
    for ours in (logger, logging.getLogger(reasoning_env.__name__)):
        ours.setLevel(level)
    logging.getLogger("atroposlib").setLevel(logging.WARNING if config.suppress_base_env_logs else logging.NOTSET)
    logging.getLogger("atroposlib.envs.base").setLevel(
        logging.WARNING if config.suppress_base_env_logs else logging.DEBUG
    )


def _completed(
    configs: ServerBaseline | list[APIServerConfig], tokenizer_name: str
) -> ServerBaseline | list[APIServerConfig]:
    """Server configs with the environment's tokenizer and some API key where they name none.

    Raises ConfigError for servers of different types: Atropos would treat all of them as the first.
    """
    several = configs if isinstance(configs, list) else [configs]
    types = {config.server_type for config in several}
    if len(types) != 1:
        raise ConfigError(
            f"all inference servers must have one server_type; got {', '.join(sorted(types)) or 'no server'}"
        )
    completed = []
    for config in several:
        missing = {}
        if config.tokenizer_name == "none":
            missing["tokenizer_name"] = tokenizer_name
        if isinstance(config, APIServerConfig) and not config.api_key:
            # The client refuses to be made without a key, also for servers that want none.
            missing["api_key"] = "x"
        completed.append(config.model_copy(update=missing))
    # A single APIServerConfig goes on as a list: as a bare value Atropos would replace its URL by four of its own.
    return completed if isinstance(configs, (list, APIServerConfig)) else completed[0]


def _make_dumper(config: ReasoningGymEnvConfig, run_uuid: str) -> RolloutDumper | None:
    if not config.dump_rollouts and not config.dump_failed_rollouts:
        return None
    return RolloutDumper(
        Path(config.data_dumps_dir) if config.data_dumps_dir else HERE / "data_dumps",
        run_uuid,
        dump_passed=config.dump_rollouts,
        dump_failed=config.dump_failed_rollouts,
        score_threshold=config.rollout_save_score_threshold,
    )


def _explain_construction(
    error: Exception, config: ReasoningGymEnvConfig, servers: ServerBaseline | list[APIServerConfig], slurm: bool
) -> str:
    if slurm and isinstance(error, TypeError):
        return "with slurm, Atropos needs NUM_TRAINING_NODES to be set, and cannot do with INFER_TP being set"
    if isinstance(error, OSError) and error.errno is not None:
        return str(error)
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    models = ", ".join(repr(server.model_name) for server in (servers if isinstance(servers, list) else [servers]))
    return (
        f"the environment cannot be built, most likely for a tokenizer that cannot be read ({reason}); "
        f"env.tokenizer_name (now {config.tokenizer_name!r}), openai.tokenizer_name and, for a trl server, "
        f"openai.model_name (now {models}) take a folder, or a name on the Hugging Face hub"
    )


def main() -> None:
    """Entry point of the console script."""
    ReasoningGymEnv.cli()


if __name__ == "__main__":
    main()
