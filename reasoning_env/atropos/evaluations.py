"""Evaluate the served model on the fixed evaluation set during a training, and report results and metrics."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from atroposlib.envs.base import EvalHandlingEnum

from .. import __version__
from ..errors import ReasoningEnvError
from ..evaluations.results import EvaluationResult
from ..evaluations.run import Evaluation
from ..evaluations.scores import metrics, score_lines
from ..inference.served_model import ServedModel

if TYPE_CHECKING:
    from .run import Run

logger = logging.getLogger(__name__)


class ModelEvaluations:
    """Evaluates the served model on the fixed evaluation set each time that the training calls `run`."""

    def __init__(self, run: Run, model: ServedModel) -> None:
        self._run = run
        self._model = model
        self._announced = ""
        self.last: EvaluationResult | None = None
        """Results of the last evaluation, finished or interrupted; None before the first evaluation."""

    def choose_workers(self) -> None:
        """Set `max_eval_workers`, the number of problems evaluated at the same time, unless the user has set it.

        An evaluation sends as many requests at once as training. If training continues during the evaluation, the
        evaluation sends only (1 - `eval_limit_ratio`) times as many.
        """
        config = self._run.config
        if config.max_eval_workers is not None:
            return
        share = 1.0 if config.eval_handling is EvalHandlingEnum.STOP_TRAIN else 1.0 - config.eval_limit_ratio
        requests = config.max_groups(len(self._run.servers)) * config.group_size * share
        config.max_eval_workers = max(1, int(requests / self._run.session.eval_plan.repeats))

    async def run(self, *, step: int | None, bar: bool) -> dict[str, float] | None:
        """Evaluate the model, log the scores and return the metrics. If the evaluation fails, log why and return None.

        The completions and scores of finished problems are kept after an error or an interruption.

        Args:
            step: Step of the trainer, for the results; None if there is no trainer.
            bar: If True and stderr is a terminal, show a progress bar. Otherwise, write progress lines to the log.
        """
        try:
            return await self._evaluate(step, bar=bar)
        except ReasoningEnvError as error:
            logger.error("the evaluation failed (%s); training continues", error)
            return None

    async def _evaluate(self, step: int | None, *, bar: bool) -> dict[str, float]:
        evaluation = await Evaluation.open(
            self._run.session,
            self._model,
            self._run.config,
            version=__version__,
            token_limit=self._run.token_limit,
            step=step,
            resume=False,
        )
        if evaluation.announcement != self._announced:  # log once, because all evaluations have the same problems
            self._announced = evaluation.announcement
            logger.info("%s", self._announced)
        try:
            await evaluation.run(bar=bar)
        finally:
            # Keep the results after Ctrl-C too.
            self.last = await evaluation.conclude()
            logger.info("%s", evaluation.describe())
        results = self.last.results
        for line in score_lines(results):
            logger.info("%s", line)
        return metrics(results)
