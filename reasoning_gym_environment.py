"""The Atropos environment over reasoning-gym: the front door of this folder.

Run it (`python reasoning_gym_environment.py serve`), import `ReasoningGymEnv` into a training config, or subclass it.
This module joins two sides and holds neither: Atropos' BaseEnv on the one, the package `reasoning_env` beside it on the
other. Everything here runs on one event loop; whatever is slow is done by worker processes or threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import os
import sys
import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if __name__ == "__main__":
    # Transformers' advice to install PyTorch: nothing here runs a model.
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")

import aiohttp
import wandb
from atroposlib.envs.base import BaseEnv, BaseEnvConfig, ScoredDataGroup
from atroposlib.envs.server_handling.openai_server import OpenAIServer
from atroposlib.envs.server_handling.server_baseline import APIServerConfig, ServerBaseline
from atroposlib.envs.server_handling.trl_vllm_server import TrlVllmServer
from pydantic import ConfigDict, Field, model_validator

if TYPE_CHECKING or not __package__:
    import reasoning_env as core
    from reasoning_env import cli
else:  # dropped into another source tree and imported by its dotted path
    from . import reasoning_env as core
    from .reasoning_env import cli

logger = logging.getLogger("reasoning_gym_environment")

HERE = Path(__file__).resolve().parent
ENV_NAME = "reasoning_gym"
DEFAULT_TOKENIZER = "NousResearch/DeepHermes-3-Llama-3-3B-Preview"
DEFAULT_SERVER_URL = "http://localhost:9001/v1"
PROMPTS_TOO_LONG_LIMIT = 1000
"""After this many problems in a row whose prompts do not fit, the token limit is wrong, not the problems."""
LONG_QUESTION = 4000
"""Characters from which a question is tokenized in a thread; below, that would only cost time."""
CHECKPOINT_VERSION = 1


class ReasoningGymEnvConfig(core.ReasoningSettings, BaseEnvConfig):
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
        core.check_ranges(self)
        if self.wandb_name is None:
            # run-api refuses an environment without a name.
            self.wandb_name = ENV_NAME
        if self.group_size == 1 and self.ensure_scores_are_not_same:
            # A group of one always has equal scores; the filter would throw everything away.
            self.ensure_scores_are_not_same = False
        return self


@dataclass(frozen=True)
class _Backend:
    """What `setup` starts and finds out: the workers, and what problems are drawn from."""

    pool: core.WorkerPool
    plan: core.TaskPlan


@dataclass(frozen=True)
class RolloutItem:
    """What BaseEnv carries from `get_next_item` to `collect_trajectories`."""

    problem: core.Problem
    prompt: core.Prompt = field(repr=False)


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
            raise core.ConfigError(_explain_construction(error, config, server_configs)) from error
        self.config: ReasoningGymEnvConfig = config
        self.process_mode = False
        self._testing = testing
        # One request for a whole group: the server shares the prompt's work among its completions.
        self.server.max_n_completions = max(config.group_size, getattr(self.server, "max_n_completions", 1))
        self._chat = core.ChatFormat(self.tokenizer, config.tokenizer_name)
        text_only = any(isinstance(server, (OpenAIServer, TrlVllmServer)) for server in self.server.servers)
        self._mode = core.Mode.TEXT if text_only else core.Mode.TOKENS
        self._inference = core.InferenceClient(self.server, self._chat, self.tokenizer, self._mode)
        self._metrics = core.MetricsRecorder()
        if self.jsonl_writer is not None:
            self.jsonl_writer = core.BackgroundWriter(self.jsonl_writer)
        self._backend: _Backend | None = None
        self._task_stream: core.TaskStream | None = None
        self._stream: core.ProblemStream | None = None
        self._instance = 0
        self._resume: dict[str, Any] = {}
        self._eval_set: core.EvaluationSet | None = None
        self._prompting = asyncio.Lock()
        self._handed_out: set[int] = set()
        self._failures_in_a_row = 0
        self._fatal: core.ReasoningEnvError | None = None
        self._told: set[str] = set()
        self._raise_evaluation_errors = False
        self._progress: asyncio.Task[None] | None = None
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
        checkout = core.find_checkout(HERE)
        pool = core.WorkerPool(self.config.pool_settings(checkout))
        library = await pool.start()
        try:
            plan = await core.plan_tasks(self.config, library, pool)
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
            logger.info("%s", library.fences)
            if not self._testing:
                await core.check_servers(self.server.servers, self._mode, self.config.startup_timeout_s)
        except BaseException:
            await pool.close()
            raise
        self._backend = _Backend(pool, plan)
        self._progress = asyncio.create_task(self._log_progress())

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """Process ids of the workers that are alive."""
        return () if self._backend is None else self._backend.pool.worker_pids

    def _started(self) -> _Backend:
        if self._backend is None:
            raise RuntimeError("setup() comes first")
        return self._backend

    async def close(self) -> None:
        """End the workers, finish the dumps and all background work; safe to call twice."""
        running = [*self.workers, *self.eval_workers, *filter(None, [self.eval_runner, self._progress])]
        for server in self.server.servers:
            running += filter(None, [getattr(server, "check_task", None)])
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        if self._progress is not None:
            logger.info("%s", self._progress_line())
            self._progress = None
        if self._stream is not None:
            await self._stream.close()
        if self._eval_set is not None:
            await self._eval_set.close()
        if self._backend is not None:
            await self._backend.pool.close()
        if self._dumper is not None:
            await asyncio.to_thread(self._dumper.close)
        if self.jsonl_writer is not None:
            await asyncio.to_thread(self.jsonl_writer.close)

    async def env_manager(self) -> None:
        """Serve until the run is over, Ctrl-C or SIGTERM; nothing that was accepted is lost in any of them."""

        async def serve() -> None:
            await self._wait_for_run_api()
            await super(ReasoningGymEnv, self).env_manager()

        await core.run_until_signal(serve, self.close)

    async def process_manager(self) -> None:
        """Write `total_steps` groups to a file, then end."""
        self._go_offline_without_account()
        # No trainer sets a limit here; BaseEnv would warn of that with every group.
        self.max_token_len = self.config.max_token_length
        await core.run_until_signal(super().process_manager, self.close)

    async def _run_evaluate(self) -> None:
        async def evaluate() -> None:
            self._go_offline_without_account()
            await self.setup()
            if self.config.use_wandb:
                await self._start_wandb()
            self._raise_evaluation_errors = True
            await self.evaluate()

        await core.run_until_signal(evaluate, self.close)

    async def setup_wandb(self) -> None:
        """As BaseEnv does it, but starting wandb takes a second or more, which a thread spends."""
        if not self.config.use_wandb:
            return
        self._go_offline_without_account()
        while self.wandb_project is None:
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"{self.config.rollout_server_url}/wandb_info") as response,
            ):
                info = await response.json()
            self.wandb_group, self.wandb_project = info["group"], info["project"]
            if self.wandb_project is None:
                self._tell_once(logging.INFO, "waiting for a trainer to register at run-api")
                await asyncio.sleep(1.0)
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

    async def register_env(self) -> None:
        await super().register_env()
        # Each environment at one run-api gets a number of its own, and with it a stream of its own.
        self._instance = int(self._resume["instance"] if self._resume else self.env_id)
        self._start_stream()

    async def get_server_info(self) -> None:
        try:
            await super().get_server_info()
        except ValueError as error:
            raise core.ConfigError(f"this environment does not fit the trainer: {error}") from error

    async def _wait_for_run_api(self) -> None:
        url = self.config.rollout_server_url
        deadline = time.monotonic() + self.config.startup_timeout_s
        timeout = aiohttp.ClientTimeout(total=self.config.startup_timeout_s)
        while True:
            try:
                async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url):
                    return
            except (aiohttp.ClientError, OSError, asyncio.TimeoutError) as error:
                if time.monotonic() > deadline:
                    raise core.ServerError(
                        f"run-api is not at {url} ({error}); start it with `run-api`, or correct env.rollout_server_url"
                    ) from error
                self._tell_once(logging.INFO, f"waiting for run-api at {url}")
            await asyncio.sleep(1.0)

    def _go_offline_without_account(self) -> None:
        if self.config.use_wandb and "WANDB_MODE" not in os.environ and not core.has_wandb_account():
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
            raise core.ServerError(f"{self._failures_in_a_row} groups in a row failed; the log above says why")
        for _ in range(PROMPTS_TOO_LONG_LIMIT):
            # One at a time, each in a turn of the loop of its own: dozens may be asked for at once.
            async with self._prompting:
                problem = await self._start_stream().next()
                prompt = await self._prompt(problem)
                await asyncio.sleep(0)
            if self._sampling(evaluating=False).completion_budget(prompt) >= self.config.min_completion_tokens:
                logger.debug("next: %s", problem.spec)
                self._handed_out.add(problem.spec.index)
                return RolloutItem(problem, prompt)
            self._metrics.record_loss(core.Loss.PROMPT_TOO_LONG)
            self._finish_position(problem)
            self._tell_once(
                logging.WARNING,
                f"problems of {problem.task} are skipped when their prompts leave too few of "
                f"{self._token_limit} tokens; raise max_token_length to train on them",
                key=problem.task,
            )
        raise core.ConfigError(
            f"no prompt of {PROMPTS_TOO_LONG_LIMIT} in a row fits into max_token_length={self._token_limit} "
            f"with min_completion_tokens={self.config.min_completion_tokens}; raise the one or lower the other"
        )

    def _start_stream(self) -> core.ProblemStream:
        if self._stream is None:
            backend = self._started()
            try:
                self._task_stream = core.TaskStream(
                    backend.plan,
                    self.config,
                    instance=self._instance,
                    group_size=self.config.group_size,
                    state=self._resume,
                )
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                path, kind = self._checkpoint_path(self.curr_step), type(error).__name__
                raise core.ConfigError(
                    f"the checkpoint {path} is damaged ({kind}: {error}); move it away, and the problem stream starts "
                    "from its beginning"
                ) from error
            self._stream = core.ProblemStream(
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

    def _messages(self, problem: core.Problem) -> tuple[Mapping[str, str], ...]:
        system = "\n\n".join(filter(None, [self.config.custom_thinking_prompt, self.config.system_prompt]))
        return core.build_messages(system, problem.question)

    async def _prompt(self, problem: core.Problem) -> core.Prompt:
        if len(problem.question) > LONG_QUESTION:
            return await asyncio.to_thread(self._chat.prompt, self._messages(problem))
        return self._chat.prompt(self._messages(problem))

    @property
    def _token_limit(self) -> int:
        """Prompt and completion together stay below this: BaseEnv drops a group that reaches the trainer's limit."""
        trainer = self.max_token_len
        return min(self.config.max_token_length, trainer) if trainer > 0 else self.config.max_token_length

    def _sampling(self, *, evaluating: bool) -> core.Sampling:
        config = self.config
        return core.Sampling(
            temperature=config.eval_temperature if evaluating else config.temperature,
            top_p=config.eval_top_p if evaluating else config.top_p,
            token_limit=self._token_limit,
            split="eval" if evaluating else "train",
        )

    @property
    def _patience(self) -> core.Patience:
        timeout_s = self.config.worker_timeout
        return core.Patience(reply_s=timeout_s if timeout_s > 0 else None, outage_s=self.config.startup_timeout_s)

    # ------------------------------------------------------------------ rollouts and scores

    async def collect_trajectories(self, item: RolloutItem) -> tuple[ScoredDataGroup | None, list[RolloutItem]]:
        """Sample and score a group; None when it failed (counted, logged) or carries no signal."""
        scored = await self._collect(item)
        self._finish_position(item.problem)
        return scored, []

    def _finish_position(self, problem: core.Problem) -> None:
        self._handed_out.discard(problem.spec.index)
        if self._task_stream is not None:
            self._task_stream.release(problem.spec.index)

    async def _collect(self, item: RolloutItem) -> ScoredDataGroup | None:
        try:
            rollouts = await self._sample(item.prompt)
        except Exception as error:
            self._note_loss(core.Loss.INFERENCE, item.problem, error)
            return None
        group = core.Group(item.problem, item.prompt.messages, tuple(rollouts))
        try:
            scored = await self.score(group)
        except core.ScoringError as error:
            self._note_loss(core.Loss.SCORING, item.problem, error)
            return None
        except core.WorkerError as error:
            self._fatal = error
            self._note_loss(core.Loss.SCORING, item.problem, error)
            return None
        self._failures_in_a_row = 0
        return scored

    async def _sample(self, prompt: core.Prompt) -> list[core.Rollout]:
        group_size, sampling = self.config.group_size, self._sampling(evaluating=False)
        if self.process_mode:
            return await self._inference.complete_in_time(prompt, group_size, sampling, self._patience)
        return await self._inference.complete(prompt, group_size, sampling)

    async def score(self, group: core.Group) -> ScoredDataGroup | None:
        """Score a group's rollouts, count and dump it; None when its scores are equal and such groups are filtered.

        Raises ScoringError when a fault of ours persists; the group is then lost, never scored 0.
        """
        rollouts = await core.score_rollouts(
            self._started().pool,
            group.problem,
            group.rollouts,
            max_answer_bytes=self.config.max_answer_bytes,
            max_tokens=self.config.max_token_length,
        )
        group = core.Group(group.problem, group.messages, rollouts)
        outcome = self._metrics.record_group(group)
        if self._task_stream is not None:
            self._task_stream.observe(group)
        level = group.problem.level
        logger.debug("%s at level %s: scores %s (%s)", group.problem.spec, level, group.scores, outcome.value)
        if self._dumper is not None:
            self._dumper.offer(group)
        # `process` counts what it is handed, so there BaseEnv itself drops groups without a signal.
        if self.config.ensure_scores_are_not_same and not self.process_mode and not core.has_signal(group.scores):
            return None
        return self._pack(group)

    def _pack(self, group: core.Group) -> ScoredDataGroup:
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

    def _note_loss(self, loss: core.Loss, problem: core.Problem, error: Exception) -> None:
        self._failures_in_a_row += 1
        self._metrics.record_loss(loss)
        cause = getattr(error, "last_attempt", None)  # tenacity wraps what it gave up on
        cause = cause.exception() if cause is not None else error
        logger.warning("a group of %s is dropped, %s: %s: %s", problem.task, loss.value, type(cause).__name__, cause)

    @contextlib.asynccontextmanager
    async def _post_json_with_compression(
        self, session: aiohttp.ClientSession, url: str, payload: Any, *, minimum_size: int = 1024
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        # Encoding and compressing a group of long completions takes longer than the loop may stand still.
        encoded = await asyncio.to_thread(core.encode_payload, payload, minimum_size)
        async with session.post(url, data=encoded.body, headers=encoded.headers) as response:
            yield response

    # ------------------------------------------------------------------ evaluation

    async def evaluate(self, *args: Any, **kwargs: Any) -> None:
        """Sample one completion for every problem of the fixed set and report scores, overall and per task.

        When not one problem could be evaluated, that is an error in the log; `evaluate` on the command line raises it.
        """
        try:
            await self._evaluate_all()
        except core.ReasoningEnvError as error:
            if self._raise_evaluation_errors:
                raise
            logger.error("the evaluation failed: %s", error)

    async def _evaluate_all(self) -> None:
        started = time.time()
        backend = self._started()
        evaluator = core.Evaluator(
            pool=backend.pool,
            inference=self._inference,
            make_prompt=self._prompt,
            sampling=self._sampling(evaluating=True),
            settings=self.config,
            workers=self.config.max_eval_workers,
            patience=self._patience,
            note_loss=self._note_loss,
        )
        results = await evaluator.run(await self._evaluation_set().problems())
        metrics = core.summarise(results)
        if "eval/mean_score" not in metrics:
            raise core.ServerError("not one evaluation problem could be evaluated; the log above says why")
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

    def _evaluation_set(self) -> core.EvaluationSet:
        if self._eval_set is None:
            backend = self._started()
            self._eval_set = core.EvaluationSet(
                backend.pool,
                core.choose_eval_tasks(backend.plan.tasks, self.config.num_eval_tasks),
                core.task_params(backend.plan.tasks, backend.plan.available),
                samples_per_task=self.config.num_eval_samples_per_task,
                eval_seed=self.config.eval_seed,
                deadline_s=self.config.eval_generation_deadline_s,
            )
        return self._eval_set

    async def _save_evaluation(
        self, results: Sequence[core.EvalResult], metrics: dict[str, float], started: float
    ) -> None:
        sampling = self._sampling(evaluating=True)
        write = self.evaluate_log(
            metrics=metrics,
            start_time=started,
            end_time=time.time(),
            generation_parameters={"temperature": sampling.temperature, "top_p": sampling.top_p},
            samples=[core.sample_record(result, self._messages(result.problem)) for result in results],
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
            metrics |= self._metrics.report(stream, pool.stats, pool.queued_jobs)
            metrics |= core.task_metrics({} if self._task_stream is None else self._task_stream.report())
        await super().wandb_log(metrics)

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
        """Save the position in the problem stream; problems that are under way are served again by a resumed run."""
        stream = None if self._stream is None else self._stream.state()
        if stream is not None:
            stream["owed"] = sorted({*stream["owed"], *self._handed_out})
        state = {
            "version": CHECKPOINT_VERSION,
            "seed": self.config.seed,
            "tasks": list(self._started().plan.training_tasks),
            "instance": self._instance,
            "stream": stream,
            **({} if self._task_stream is None else self._task_stream.state()),
            **(data or {}),
        }
        path = self._checkpoint_path(step)
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(".part")
        beside.write_text(json.dumps(state))
        beside.replace(path)
        logger.info("saved the checkpoint %s", path)

    def _checkpoint_path(self, step: int) -> Path:
        return Path(self.checkpoint_dir, "env_checkpoints", str(self.wandb_prepend), f"step-{step}.json")

    def load_checkpoint(self) -> None:
        """Take up the saved position. Raises ConfigError for a checkpoint of another seed or task selection."""
        path = self._checkpoint_path(self.curr_step)
        if not path.exists():
            logger.warning("there is no checkpoint at %s; the problem stream starts from its beginning", path)
            return
        try:
            state = json.loads(path.read_text())
            saved = {key: state[key] for key in ("seed", "tasks", "instance", "stream")}
        except (ValueError, TypeError, KeyError) as error:
            raise core.ConfigError(
                f"the checkpoint {path} is damaged ({type(error).__name__}: {error}); move it away, and the problem "
                "stream starts from its beginning"
            ) from error
        for key, current in (("seed", self.config.seed), ("tasks", list(self._started().plan.training_tasks))):
            if saved[key] != current:
                raise core.ConfigError(
                    f"the checkpoint {path} was made with other {key}; resume with the same, or move it away"
                )
        self._resume = {**saved, **{key: state.get(key) for key in ("sampler", "curriculum")}}

    async def _log_progress(self) -> None:
        last = ""
        while True:
            await asyncio.sleep(self.config.progress_interval_s)
            line = self._progress_line()
            if line != last:
                logger.info("%s", line)
            last = line

    def _progress_line(self) -> str:
        return self._metrics.progress_line(self._stream.stats if self._stream else None)

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
    for ours in (logger, logging.getLogger(core.__name__)):
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
        raise core.ConfigError(
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


def _make_dumper(config: ReasoningGymEnvConfig, run_uuid: str) -> core.RolloutDumper | None:
    if not config.dump_rollouts and not config.dump_failed_rollouts:
        return None
    return core.RolloutDumper(
        Path(config.data_dumps_dir) if config.data_dumps_dir else HERE / "data_dumps",
        run_uuid,
        dump_passed=config.dump_rollouts,
        dump_failed=config.dump_failed_rollouts,
        score_threshold=config.rollout_save_score_threshold,
    )


def _explain_construction(
    error: Exception, config: ReasoningGymEnvConfig, servers: ServerBaseline | list[APIServerConfig]
) -> str:
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
