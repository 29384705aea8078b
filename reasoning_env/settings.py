"""Every setting of the environment that is not Atropos' own, with its default, description and range.

Values may arrive as text (from the command line), so each field parses the text it documents.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, Field

from .prompts import SYSTEM_PROMPT
from .workers import PoolSettings


def _split_names(value: object) -> object:
    """Accept "a, b" for ["a", "b"]."""
    if isinstance(value, str):
        return [name.strip() for name in value.split(",") if name.strip()]
    return value


# The plain `str` in the union makes the command line offer one text argument instead of a list of them.
NameList = Annotated["list[str] | str", BeforeValidator(_split_names)]


class ReasoningSettings(BaseModel):
    """Settings of tasks, workers, scoring, dumps and evaluation; mixed into the Atropos config by the front door."""

    tasks: NameList = Field(
        default_factory=list,
        description='Tasks to train and evaluate on, as a list or as "name,name"; empty or "all" selects every task.',
    )
    seed: int = Field(
        default=42, ge=0, description="Seed of the training stream; the same seed gives the same problems."
    )
    system_prompt: str = Field(
        default=SYSTEM_PROMPT, description="System message; an empty one sends the question alone."
    )
    temperature: float = Field(default=1.0, ge=0.0, le=2.0, description="Sampling temperature in training.")
    top_p: float = Field(default=1.0, gt=0.0, le=1.0, description="Nucleus sampling threshold in training.")
    min_completion_tokens: int = Field(
        default=64, ge=1, description="Problems whose prompt leaves fewer tokens than this are skipped and counted."
    )
    mask_too_long_completions: bool = Field(
        default=True, description="Give rollouts that ran out of tokens the override `set_advantage_to_zero`."
    )
    max_answer_bytes: int = Field(
        default=20_000, ge=1, le=10_000_000, description="Answers above this many bytes of UTF-8 score 0 (`too_long`)."
    )

    strict_rewards: bool = Field(
        default=True,
        description="Correct the verifiers that pay for nonsense; off, the library's plain scores count.",
    )
    exclude_gameable: bool = Field(
        default=True,
        description="Do not train on tasks that are known to pay for nonsense all the same, unless `tasks` names them.",
    )

    num_eval_samples_per_task: int = Field(default=5, ge=1, le=100_000, description="Evaluation problems per task.")
    num_eval_tasks: int = Field(
        default=-1, ge=-1, description="How many of the selected tasks to evaluate, spread evenly by name; -1 for all."
    )
    eval_seed: int = Field(default=123, ge=0, description="Seed of the evaluation set.")
    eval_temperature: float = Field(default=0.6, ge=0.0, le=2.0, description="Sampling temperature in evaluation.")
    eval_top_p: float = Field(default=0.95, gt=0.0, le=1.0, description="Nucleus sampling threshold in evaluation.")

    num_makers: int = Field(default=2, ge=1, le=256, description="Processes that generate problems.")
    num_judges: int = Field(default=2, ge=1, le=256, description="Processes that score answers.")
    prefetch_problems: int = Field(default=128, ge=1, le=100_000, description="Problems kept ready ahead of demand.")
    generation_deadline_s: float = Field(
        default=10.0, gt=0.0, le=3600.0, description="Seconds a training problem may take to generate."
    )
    eval_generation_deadline_s: float = Field(
        default=60.0,
        gt=0.0,
        le=3600.0,
        description="The same for evaluation; generous, so that slow machines get the same set.",
    )
    scoring_deadline_s: float = Field(
        default=5.0, gt=0.0, le=3600.0, description="Seconds the scoring of one answer may take, from its start."
    )
    fence_judges: bool = Field(
        default=True,
        description="Shut judges in with what the operating system offers: no files, network or other processes.",
    )
    worker_memory_mb: int = Field(
        default=1024, ge=512, le=1_048_576, description="Address space of a worker process, in megabytes."
    )
    worker_niceness: int = Field(
        default=10, ge=0, le=19, description="How far workers give way to the main process and its event loop."
    )
    worker_start_timeout_s: float = Field(
        default=60.0,
        gt=0.0,
        le=3600.0,
        description="Seconds until the worker processes must have imported the library.",
    )
    quarantine_after_failures: int = Field(
        default=3, ge=1, le=1000, description="Failures in a row after which a task is not drawn any more."
    )

    dump_rollouts: bool = Field(
        default=False, description="Write groups with a score above the threshold to `data_dumps_dir`."
    )
    dump_failed_rollouts: bool = Field(default=False, description="Write groups whose scores are all 0.")
    rollout_save_score_threshold: float = Field(
        default=0.7, ge=0.0, le=1.0, description="A group is dumped when one of its scores is above this."
    )
    data_dumps_dir: str | None = Field(
        default=None, description="Folder for dumps; by default `data_dumps/` beside the module."
    )

    startup_timeout_s: float = Field(
        default=30.0,
        gt=0.0,
        le=86_400.0,
        description="Seconds to wait for a server that is gone: always at startup, later in `process` and `evaluate`.",
    )
    max_failed_groups_in_a_row: int = Field(
        default=8,
        ge=1,
        le=100_000,
        description="`process` and an evaluation end with an error after this many failures.",
    )
    progress_interval_s: float = Field(
        default=30.0, gt=0.0, le=86_400.0, description="Seconds between progress lines in the log."
    )
    debug_logging: bool = Field(default=False, description="Log each item at debug level.")
    suppress_base_env_logs: bool = Field(
        default=True, description="Keep Atropos' own loggers at warning, so that this environment's lines can be read."
    )

    @property
    def task_names(self) -> tuple[str, ...]:
        return tuple(self.tasks)

    def pool_settings(self, checkout: Path | None) -> PoolSettings:
        """The part that concerns worker processes; `checkout` is a folder with a library to prefer, or None."""
        return PoolSettings(
            makers=self.num_makers,
            judges=self.num_judges,
            scoring_deadline_s=self.scoring_deadline_s,
            memory_mb=self.worker_memory_mb,
            niceness=self.worker_niceness,
            start_timeout_s=self.worker_start_timeout_s,
            strict_rewards=self.strict_rewards,
            fence_judges=self.fence_judges,
            checkout=checkout,
        )
