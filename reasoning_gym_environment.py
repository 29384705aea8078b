"""The Atropos environment for reasoning-gym's problems, and the command line of this program.

Run this file (`python reasoning_gym_environment.py serve`), import `ReasoningGymEnv` into a training config, or
subclass the class. The class overrides methods of Atropos' BaseEnv and calls modules of `reasoning_env`. The code in
this file runs on one event loop. Slow work runs in worker processes and on threads.
"""

from __future__ import annotations

from reasoning_env.commands import launcher

# Called before the slow imports, so that `--help` is fast and a missing package gives an error of one line.
launcher.prepare(__name__, __file__, needs="atroposlib")

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from atroposlib.envs.base import BaseEnv, ScoredDataGroup
from atroposlib.envs.server_handling.server_baseline import APIServerConfig, ServerBaseline

import reasoning_env as core
from reasoning_env import atropos
from reasoning_env.atropos import ReasoningGymEnvConfig
from reasoning_env.commands.evaluate import evaluate as evaluate  # for scripts and notebooks
from reasoning_env.records import DropReason, Group

logger = logging.getLogger("reasoning_gym_environment")

FILE = Path(__file__).resolve()


class ReasoningGymEnv(BaseEnv):
    """Serves reasoning-gym problems, scores completions in isolated processes, and sends scored groups to a trainer."""

    name = atropos.ENV_NAME
    env_config_cls = ReasoningGymEnvConfig

    wandb_project: str | None

    def __init__(
        self,
        config: ReasoningGymEnvConfig,
        server_configs: ServerBaseline | list[APIServerConfig],
        slurm: bool = False,
        testing: bool = False,
        *,
        pool: core.WorkerPool | None = None,
    ) -> None:
        atropos.set_log_levels(logger)
        server_configs = atropos.complete_servers(server_configs, config.tokenizer_name)
        try:
            # BaseEnv would create the file of groups here, and leave an empty file if the start fails.
            base = config.model_copy(update={"data_path_to_save_groups": None})
            self.server_cls = atropos.choose_server_class(self.server_cls, server_configs)
            with atropos.tokenizer_if_needed(server_configs, testing=testing):
                super().__init__(base, server_configs, slurm, testing)
        except Exception as error:  # tokenizers raise many types of errors for unreadable files
            raise atropos.explain_construction(error, config, slurm) from error
        self.config: ReasoningGymEnvConfig = config
        self.env_id = 0
        # One request for a whole group: the server processes the prompt once for all completions.
        self.server.max_n_completions = max(config.group_size, getattr(self.server, "max_n_completions", 1))
        path = config.data_path_to_save_groups
        self.jsonl_writer = atropos.BackgroundWriter(path) if path else None
        self._run = atropos.Run(
            config,
            lambda: self.server,
            self.tokenizer,
            FILE.parent,
            mode=atropos.Imported(),
            trainer_limit=lambda: self.max_token_len,
            step=lambda: None if self._registration is None else self.curr_step,
            collect_state=lambda: {"data": self._checkpoint_data, "registration": self.env_id},
            server_config=server_configs[0] if isinstance(server_configs, list) else server_configs,
            testing=testing,
            pool=pool,
        )
        self.session = self._run.session
        self._registration: atropos.Registration | None = None
        self._checkpoint_data: dict[str, Any] = {}

    @classmethod
    def config_init(cls) -> tuple[ReasoningGymEnvConfig, list[APIServerConfig]]:
        """Return the default settings, and one inference server on this machine.

        The server's type is detected at startup.
        """
        server = atropos.ServerConfig(model_name=atropos.DEFAULT_MODEL)
        return cls.env_config_cls(tokenizer_name=atropos.DEFAULT_MODEL), [server]

    async def collect_trajectories(
        self, item: atropos.RolloutItem
    ) -> tuple[ScoredDataGroup | None, list[atropos.RolloutItem]]:
        """Sample and score the group of a problem from `get_next_item`. Return the group and an empty list.

        The group is None if an error dropped the group, or if `score` returns None. BaseEnv passes a group that is not
        None to `handle_send_to_api`.
        """
        run = self._run
        try:
            rollouts = await run.complete(item)
        except Exception as error:  # clients raise many types of errors, and none of them may become a score of 0
            reason = DropReason.TIMED_OUT if isinstance(error, TimeoutError) else DropReason.INFERENCE
            run.drop(item.problem, reason, error)
            return None, []
        try:
            scored = await self.score(Group(item.problem, item.prompt.messages, tuple(rollouts)))
        except Exception as error:  # raised by our code or by a subclass
            run.drop(item.problem, DropReason.SCORING, error)
            return None, []
        run.end_unless_sent(item.problem, scored)
        return scored, []

    async def score(self, group: Group) -> ScoredDataGroup | None:
        """Score, count and dump a group. Returns None if all scores are equal and the settings drop such groups.

        Subclasses and `postprocess_histories` must not await between counting and sending a group. If `BaseEnv`
        cancelled the asyncio task in between, the problem would be sampled and counted a second time.

        Raises ScoringError if an infrastructure error persists. The group is then dropped, never scored 0.
        """
        run = self._run
        judged = await run.judge(group)
        packed: ScoredDataGroup | None = None
        if judged.has_signal or not run.mode.drops_equal_scores(self.config):
            # A subclass may expect lists, as in BaseEnv. Without a subclass, arrays save time and memory.
            packed = await run.pack(judged, as_lists=type(self) is not ReasoningGymEnv)
        run.observe(judged)
        return packed

    async def get_next_item(self) -> atropos.RolloutItem:
        """Return the next problem that fits the token limit, with its prompt. Problems are generated ahead of demand.

        The problem is in flight until its group is delivered or dropped.

        Raises:
            ServerError: In `process`, too many groups failed in a row.
            RefusedError: The inference server refuses all requests.
            ClosedError: The environment was closed.
        """
        return await self._run.next()

    async def evaluate(self, *args: Any, **kwargs: Any) -> None:
        """Evaluate the model on the evaluation set, write the completions to a folder in `evals/`, and log the scores.

        `serve` calls this method every `steps_per_eval` steps. If the evaluation fails, an error is logged.
        """
        mode = self._run.mode
        step = self.curr_step if mode.has_trainer else None
        metrics = await self._run.evaluations.run(step=step, bar=not mode.has_trainer)
        if metrics is not None:
            await self.wandb_log(metrics)

    def load_checkpoint(self) -> None:
        """Restore the last state that was saved at or before the trainer's current step."""
        resumed = self._open_checkpoints().load()
        if resumed is None:
            return
        self._run.lifetime.resume(resumed)
        self._checkpoint_data = dict(resumed.state.get("data", {}))
        for name, value in self._checkpoint_data.items():
            setattr(self, name, value)

    def save_checkpoint(self, step: int, data: dict[str, object] | None = None) -> None:
        """Save the state that determines the next problems and metrics. A thread writes the file later.

        `data` must be JSON-serializable. `load_checkpoint` sets the items of `data` as attributes of the environment.
        """
        self._open_checkpoints()
        self._checkpoint_data = dict(data or {})
        self._run.lifetime.save(step)

    def _open_checkpoints(self) -> atropos.CheckpointStore:
        """Return the checkpoints. The first call locks their folder. Raises RuntimeError before `setup`."""
        checkpoints = self._run.lifetime.checkpoints
        if checkpoints is None:
            raise RuntimeError("call setup() first")
        # If the trainer wants checkpoints but names no folder, use the working directory, as BaseEnv does.
        folder = self.checkpoint_dir or ("." if self.checkpoint_interval > 0 else "")
        name, instance = str(self.config.wandb_name), self.config.instance
        checkpoints.open(folder, name, instance, step=self.curr_step, registration=self.env_id)
        return checkpoints

    async def setup(self) -> None:
        """Start the workers and check that an inference server answers.

        Raises ConfigError, ServerError or WorkerError, each with a remedy.
        """
        await self._run.lifetime.start()

    async def setup_wandb(self) -> None:
        """Start wandb as BaseEnv does, but in a thread. If there is a trainer, use its wandb group and project."""
        if self.config.use_wandb:
            names = await self._run.mode.wandb_names(self._run.run_api)
            if names is not None:
                self.wandb_group, self.wandb_project = names
            atropos.go_offline_without_account()
            config = self.config
            await atropos.start_run(config.wandb_name, self._run.uuid, self.wandb_project, self.wandb_group, config)

    async def register_env(self) -> None:
        """Register at run-api, and resume from a saved state if the trainer is past its first step.

        Raises:
            ConfigError: The checkpoint has another seed or other tasks, or another process uses the checkpoint folder.
            ServerError: The server at `rollout_server_url` is not run-api.
        """
        registration = await self._run.run_api.register()
        self._note_registration(registration)
        self.wandb_prepend = registration.wandb_name
        self.checkpoint_dir = registration.checkpoint_dir
        if self.config.total_steps == -1:
            steps = self.config.total_steps = registration.num_steps
            if steps < 1:
                raise core.ConfigError(
                    f"env.total_steps is -1 (as many as the trainer), but the trainer registered {steps} steps",
                    remedy="set {env.total_steps}",
                )
        await asyncio.to_thread(self._open_checkpoints)
        if self.curr_step > 0:
            self.load_checkpoint()
        self._run.lifetime.begin_delivery(self.env_id)

    def _note_registration(self, registration: atropos.Registration) -> None:
        self._registration = registration
        self.env_id = registration.env_id
        self.curr_step = registration.starting_step
        self.checkpoint_interval = registration.checkpoint_interval

    async def get_server_info(self) -> None:
        """Read the trainer's batch size and token limit; raises ConfigError if a group is larger than a batch."""
        info = await self._run.run_api.info()
        if info["batch_size"] != -1:
            self.config.batch_size = info["batch_size"]
        if info["max_token_len"] != -1:
            self.max_token_len = info["max_token_len"]
        atropos.check_batch_size(self.config)

    async def create_rollout_table(self, wandb_metrics: dict[str, object]) -> dict[str, object]:
        """If wandb is used, add a table to the metrics. It shows the rollouts that were kept for wandb."""
        if self.config.use_wandb:
            wandb_metrics |= atropos.rollout_table(self.rollouts_for_wandb)
        return wandb_metrics

    async def add_rollouts_for_wandb(
        self, scored_data: ScoredDataGroup | list[ScoredDataGroup], item: atropos.RolloutItem | None = None
    ) -> None:
        """Keep some rollouts of the group for the next wandb table."""
        groups = scored_data if isinstance(scored_data, list) else [scored_data]
        await atropos.keep_rollouts(self, groups, None if item is None else item.problem, self._run.chat.decode)

    async def wandb_log(self, wandb_metrics: dict[str, Any] | None = None) -> None:
        """Log `wandb_metrics`, and this environment's metrics since the last call."""
        await atropos.log_metrics(self, {**(wandb_metrics or {}), **self._run.report.interval()}, self._run.clients)

    async def _send_scored_data_to_api(
        self, scored_data: ScoredDataGroup | list[ScoredDataGroup]
    ) -> list[asyncio.Future[None]]:
        """Queue groups for delivery. Return a future for each group; it is done when the group is sent or dropped."""
        return atropos.enqueue(self._run, scored_data)

    async def handle_send_to_api(
        self,
        scored_data: ScoredDataGroup | list[ScoredDataGroup],
        item: atropos.RolloutItem | None = None,
        do_send_to_api: bool = True,
        abort_on_any_max_length_exceeded: bool = True,
    ) -> None:
        """Check and send groups of one problem, as BaseEnv does. When all are delivered, mark the problem as done."""
        token_limit = self.max_token_len if abort_on_any_max_length_exceeded else 0
        await atropos.send_groups(
            self, self._run, scored_data, item, do_send=do_send_to_api, token_limit=max(token_limit, 0)
        )

    async def get_status(self) -> None:
        """Read this environment's status from run-api. Wait for run-api, and register again if necessary."""
        session, config = self._run.run_api, self.config
        status = self.status_dict = await session.status()
        if session.registration is not self._registration:
            self._note_registration(session.registration)
            await self.get_server_info()
        self.max_num_workers = config.max_groups(len(self._run.servers))
        for client in self._run.clients:
            await client.update_weight(status["env_weight"])
        whole_batch = status["queue_size"] * config.group_size >= config.batch_size
        self._run.trainer.note(
            batch_waits=whole_batch and status["current_step"] == self.curr_step,
            batch_size=config.batch_size,
            group_sizes=sorted({config.group_size, max(config.group_size, status["max_group_size"])}),
        )

    async def env_manager(self) -> None:
        """Serve until the run ends, or until Ctrl-C or SIGTERM. Groups that run-api accepted are not lost."""
        await atropos.run_until_signal(lambda: self._run_in(atropos.Serve()), self.close)

    async def process_manager(self) -> None:
        """Write groups to a file until the file has `total_steps` groups. Existing groups in the file count."""
        await atropos.run_until_signal(lambda: self._run_in(atropos.Process()), self.close)

    async def _run_in(self, mode: atropos.Serve | atropos.Process) -> None:
        """Run `serve` or `process`. The caller calls `close` afterwards."""
        self._run.mode = mode
        async with self._run.report.serve_metrics():
            await mode.run(self, self._run)

    async def close(self) -> None:
        """Finish groups in flight, save the state, disconnect from run-api, and end all processes.

        Groups in flight get 10 seconds to finish. Scored groups get the rest of this time for delivery, but at least 3
        seconds. Unfinished problems are saved. Safe to call twice.
        """
        await atropos.close(self, self._run)

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """Process ids of the running workers."""
        return self._run.session.pool.worker_pids

    @property
    def results(self) -> Mapping[str, Any] | None:
        """Content of results.json of the last evaluation; None before the first evaluation."""
        last = self._run.evaluations.last
        return None if last is None else last.results

    @property
    def groups_path(self) -> Path | None:
        """File of the groups that the command `process` wrote; None if there are no groups."""
        return self._run.mode.groups_path

    def print_summary(self) -> None:
        """Print a table of the scores by task and, after `process`, the path of the file of groups."""
        self._run.mode.print_summary(self._run.session.metrics)

    @classmethod
    def cli(cls) -> None:
        """Run the command line, which includes BaseEnv's commands `serve`, `process` and `evaluate`, and exit."""
        launcher.run(FILE, atropos.commands(cls), lambda: atropos.own_defaults(cls))


if __name__ == "__main__":
    ReasoningGymEnv.cli()
