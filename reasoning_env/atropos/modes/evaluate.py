"""The command `evaluate`: one evaluation, which the same command resumes after an interruption."""

from __future__ import annotations

import logging
from collections.abc import Collection
from pathlib import Path
from typing import Any

from atroposlib.envs.server_handling.server_baseline import APIServerConfig

from ...evaluations.folder import DEFAULT_FOLDER
from ...evaluations.table import print_results
from ...metrics.recorder import MetricsRecorder
from ...results import EvaluationResult
from ...storage.folders import check_writable
from ..config import ReasoningGymEnvConfig
from ..environment import Environment
from ..inference.evaluated_model import choose_model
from ..run import Run
from .mode import Evaluations, Mode

logger = logging.getLogger(__name__)


class Evaluate(Mode):
    """One evaluation runs, without training."""

    name = "evaluate"

    def __init__(self) -> None:
        self._evaluations: Evaluations | None = None
        """Set when the evaluation begins."""

    def defaults(self, config: ReasoningGymEnvConfig, name: str | None) -> dict[str, Any]:
        return {"use_wandb": False}  # the results are in a folder, and need no account

    def check_files(self, config: ReasoningGymEnvConfig) -> None:
        check_writable(Path(config.data_dir_to_save_evals or DEFAULT_FOLDER), "env.data_dir_to_save_evals")

    async def fit_to_servers(
        self, config: ReasoningGymEnvConfig, servers: list[APIServerConfig], typed: Collection[str]
    ) -> tuple[ReasoningGymEnvConfig, list[APIServerConfig]]:
        """Return settings with a model, and with chat requests, where the user names neither type nor tokenizer."""
        return await choose_model(config, servers, typed)

    def progress_line(self, progress: dict[str, object]) -> str:
        """Return the progress of the evaluation; empty before its begin."""
        done = "" if self._evaluations is None else self._evaluations.progress()
        return f"progress: {done}" if done else ""

    def log_last_progress(self, progress: dict[str, object]) -> None:
        """Log nothing: the results are printed."""

    def print_summary(self, metrics: MetricsRecorder) -> None:
        """Print the results (after an interruption, of the finished problems); print nothing without results."""
        if self._evaluations is not None and self._evaluations.last is not None:
            print_results(self._evaluations.last.results)
            print(f"\n{self._evaluations.describe()}", flush=True)

    async def evaluate(self, evaluations: Evaluations, step: int) -> dict[str, float] | None:
        """Evaluate the model, or resume an equal evaluation that was interrupted; raises ReasoningEnvError."""
        self._evaluations = evaluations
        return await evaluations.run(step=None, resume=True, bar=True)

    async def run(self, env: Environment, run: Run) -> EvaluationResult:
        """Evaluate the model and return the results; raises ReasoningEnvError."""
        if env.config.complexity_level is not None and env.config.eval_level is None:
            logger.warning(
                "training problems have the difficulty complexity_level; evaluation problems have eval_level"
            )
        await env.setup()
        await env.setup_wandb()
        await env.evaluate()
        assert run.evaluations.last is not None
        return run.evaluations.last
