"""Types for environments. A hook is a method of BaseEnv that a subclass may override.

Atropos has no type annotations, so the type checker uses `Environment` for BaseEnv and its subclasses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

from atroposlib.envs.base import ScoredDataGroup
from atroposlib.envs.server_handling.server_baseline import APIServerConfig, ServerBaseline

from ..records import Problem, Prompt
from .config import ReasoningGymEnvConfig
from .modes.group_file import BackgroundWriter


@dataclass(frozen=True)
class RolloutItem:
    """A problem with its prompt: BaseEnv passes it from `get_next_item` to `collect_trajectories`."""

    problem: Problem
    prompt: Prompt = field(repr=False)


class Environment(Protocol):
    """An environment, with the attributes and hooks that the adapter uses. A subclass may override the hooks."""

    config: ReasoningGymEnvConfig
    tokenizer: Any
    """BaseEnv's tokenizer; None if all servers are chat servers."""
    jsonl_writer: BackgroundWriter | None
    max_token_len: int
    """The trainer's limit of tokens for prompt and completion together; -1 for none."""
    curr_step: int

    # Workers: asyncio tasks, each of which collects one group
    max_num_workers: int
    workers: set[asyncio.Task[object]]
    running_items: dict[UUID, dict[str, Any]]
    """A dict for each worker; the key `item` has the RolloutItem whose group the worker collects."""
    backlog: list[RolloutItem]
    """Items of cancelled workers. New workers take items from here before they take new items."""
    eval_runner: asyncio.Task[object] | None
    eval_workers: set[asyncio.Task[object]]

    # The loop of `serve`
    status_dict: Mapping[str, int]
    """The last reply of run-api to `/status-env`."""
    last_loop_time: float | None
    mainloop_timings: list[float]

    @property
    def derived_batch_size(self) -> int: ...

    # Metrics since the last call of `wandb_log`
    items_sent_this_step: int
    completion_lengths: list[int]
    rollouts_for_wandb: list[object]
    task_successful: list[object]
    wandb_prepend: str | None

    async def setup(self) -> None: ...
    async def setup_wandb(self) -> None: ...
    async def register_env(self) -> None: ...
    async def get_server_info(self) -> None: ...
    async def get_status(self) -> None: ...
    async def env_step_checks(self) -> None: ...
    async def add_train_workers(self) -> None: ...
    async def get_next_item(self) -> RolloutItem: ...
    async def collect_trajectories(self, item: RolloutItem) -> tuple[ScoredDataGroup | None, list[RolloutItem]]: ...
    async def postprocess_histories(self, trajectories: ScoredDataGroup) -> ScoredDataGroup: ...
    async def evaluate(self) -> None: ...
    async def wandb_log(self, wandb_metrics: dict[str, object] | None = None) -> None: ...
    async def create_rollout_table(self, wandb_metrics: dict[str, object]) -> dict[str, object]: ...
    async def add_rollouts_for_wandb(self, scored_data: ScoredDataGroup, item: RolloutItem | None = None) -> None: ...
    async def _send_scored_data_to_api(
        self, scored_data: ScoredDataGroup | list[ScoredDataGroup]
    ) -> Collection[asyncio.Future[None]] | None: ...
    def perf_stats(self, metrics_dict: dict[str, object]) -> dict[str, object]: ...


class EnvironmentClass(Protocol):
    """An environment class, with the parts that the command line uses: defaults, and a constructor like BaseEnv's."""

    @property
    def name(self) -> str | None: ...
    @property
    def env_config_cls(self) -> type[ReasoningGymEnvConfig]: ...

    def __call__(
        self,
        config: ReasoningGymEnvConfig,
        server_configs: ServerBaseline | list[APIServerConfig],
        slurm: bool = False,
        testing: bool = False,
    ) -> CommandEnvironment: ...
    def config_init(self) -> tuple[ReasoningGymEnvConfig, list[APIServerConfig]]: ...


class CommandEnvironment(Environment, Protocol):
    """An environment, with the attributes and methods that the command line uses."""

    @property
    def groups_path(self) -> Path | None: ...
    async def close(self) -> None: ...
    def print_summary(self) -> None: ...
