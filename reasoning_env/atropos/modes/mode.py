"""The modes of an environment: behaviour that differs between `serve`, `process` and user code.

A new environment has the mode `Imported`; a command sets its own mode. Code outside this folder calls the methods of
`Mode` and never checks which mode an environment has.
"""

from __future__ import annotations

from pathlib import Path

from ...inference.addresses import PATIENCE_S
from ...inference.served_model import ServedModel
from ...metrics.recorder import MetricsRecorder
from ...records import Group
from ..config import BASE_RANGES, Range, ReasoningGymEnvConfig
from ..environment import Environment
from ..report import print_summary
from ..run_api import RunApiSession


class Mode:
    """Behaviour that depends on the command. The defaults, which subclasses override, suit interactive commands."""

    name: str
    packs_lists = False
    """Whether packed groups have lists of tokens, as user code expects, instead of the rollouts' arrays."""
    away_s: float | None = None
    """While servers are unreachable or busy, `outage_s` is at least this many seconds; None for no minimum."""
    steps: Range = BASE_RANGES["total_steps"]  # the values of `total_steps` that the command accepts
    has_trainer = False
    """Whether a trainer gets the groups. If so, a problem is in flight until its group is delivered."""

    # ---- before the start

    def defaults(self, config: ReasoningGymEnvConfig, name: str | None) -> dict[str, object]:
        """Return a mapping from settings to this mode's own defaults. `name` is the environment's name."""
        return {}

    def check_files(self, config: ReasoningGymEnvConfig) -> None:
        """Raise ConfigError for files and folders that cannot be written."""

    # ---- time limits

    def startup_timeout_s(self, config: ReasoningGymEnvConfig) -> float:
        """Return how long to wait at startup for a server that does not answer, in seconds; may be infinite."""
        return config.startup_timeout_s or PATIENCE_S

    def outage_s(self, config: ReasoningGymEnvConfig) -> float:
        """Return how long all inference requests may fail before groups are dropped, in seconds; may be infinite."""
        return self.startup_timeout_s(config)

    def max_failures(self, config: ReasoningGymEnvConfig) -> int | None:
        """Return the number of failed groups in a row that ends the run; None for no limit."""
        return None

    # ---- groups

    def drops_equal_scores(self, config: ReasoningGymEnvConfig) -> bool:
        """Return True if groups whose scores are all equal are dropped."""
        return config.ensure_scores_are_not_same

    def keep(self, group: Group) -> None:
        """Receive a scored group, to write or count it."""

    # ---- reports

    @property
    def groups_path(self) -> Path | None:
        """File of the groups that the mode wrote; None if there are no groups."""
        return None

    def print_summary(self, metrics: MetricsRecorder) -> None:
        """Print a row for each task with scored groups, the lowest score first, and a row for all tasks."""
        print_summary(metrics)

    # ---- hooks of the environment

    async def wandb_names(self, run_api: RunApiSession) -> tuple[str | None, str] | None:
        """Return the wandb group and project that the trainer registered; None if there is no trainer."""
        return None

    # ---- end

    async def finish_groups(self, env: Environment, inference: ServedModel) -> None:
        """Wait for groups in flight before the environment ends."""

    def close(self) -> None:
        """Close the mode's files. Call this on a thread, because it blocks. A second call has no effect."""


class Imported(Mode):
    """The mode without a command: user code imports the environment and calls its hooks."""

    name = "imported"
    packs_lists = True

    async def wandb_names(self, run_api: RunApiSession) -> tuple[str | None, str] | None:
        return await run_api.wandb_group_and_project()
