"""Evaluate the served model on the fixed set, with results in a folder and as metrics; say beforehand what is sent."""

from __future__ import annotations

import asyncio
import logging

from atroposlib.envs.server_handling.server_baseline import ServerBaseline

from .. import __version__
from ..evaluations.folder import Results, find_earlier
from ..evaluations.opening import EvaluatedModel, open_evaluation
from ..evaluations.run import Evaluation, metrics
from ..evaluations.scores import EvaluationScores, scores_of
from ..inference.failures import address
from ..records import Split
from ..results import EvaluationResult
from ..session import Session
from .config import ReasoningGymEnvConfig
from .environment import RolloutItem
from .group_steps import GroupSteps
from .inference.client import InferenceClient
from .inference.server_checks import context_length
from .inference.servers import CHAT, ReplyKind

logger = logging.getLogger(__name__)


class ModelEvaluations:
    """Evaluates the served model on the fixed set, once or several times.

    `server_config` is that of the first inference server; None if there is no server, as in a test.
    """

    def __init__(
        self,
        config: ReasoningGymEnvConfig,
        session: Session[RolloutItem],
        inference: InferenceClient,
        steps: GroupSteps,
        server_config: ServerBaseline | None,
    ) -> None:
        self._config = config
        self._session = session
        self._inference = inference
        self._steps = steps
        self._server_config = server_config
        self._evaluation: Evaluation | None = None
        self._announced = ""
        self.last: EvaluationResult | None = None
        """Results of the last evaluation, finished or interrupted; None before the first evaluation."""
        self.scores: list[EvaluationScores] = []
        """Scores of the finished evaluations, oldest first."""
        self.resumed_step: int | None = None
        """The trainer's step at which the training resumed; None if it did not resume."""
        self._finished: Results | None = None
        self.under_way = False
        """Whether an evaluation runs now."""

    async def run(self, *, step: int | None, resume: bool, bar: bool) -> dict[str, float]:
        """Evaluate the model and return the metrics.

        Finished problems are kept, also after an error or an interruption.

        Args:
            step: Step of the trainer, for the results; None without a trainer.
            resume: Resume an equal evaluation that was interrupted.
            bar: Show a progress bar on a terminal.

        Raises:
            ServerError: No problem could be evaluated.
            ConfigError: The folder cannot be made.
            ReasoningEnvError: The folder cannot be written.
        """
        self._evaluation = None
        evaluation = self._evaluation = await open_evaluation(
            self._session,
            self._model(),
            self._config,
            self._steps.sampling(Split.EVAL),
            step=step,
            resume=resume,
            version=__version__,
        )
        if evaluation.announcement != self._announced:  # during training, each evaluation asks the same
            self._announced = evaluation.announcement
            logger.info("%s", self._announced)
        self.under_way = True
        try:
            await evaluation.run(bar=bar)
        finally:
            self.under_way = False
            # After Ctrl-C too.
            results = await evaluation.conclude()
            self.last = EvaluationResult(results, evaluation.folder)
        if self._finished is None and self.resumed_step is not None:
            self._finished = await asyncio.to_thread(find_earlier, evaluation.folder, results, self.resumed_step)
        scores = scores_of(results, self._finished)
        if scores is not None:
            self.scores.append(scores)
            self._finished = results
        return metrics(results)

    def progress(self) -> str:
        """Return the progress of the evaluation; empty before the first problem."""
        return "" if self._evaluation is None else self._evaluation.progress()

    def describe(self) -> str:
        """Return a line on the finished problems of the last evaluation, and its folder; empty before its begin."""
        return "" if self._evaluation is None else self._evaluation.describe()

    def _model(self) -> EvaluatedModel:
        """Return the model that the servers have. Its name is that of the first server's settings."""
        server = self._server_config
        is_chat = self._inference.reply_kind is ReplyKind.CHAT
        return EvaluatedModel(
            str(getattr(server, "model_name", None)),
            server_type=CHAT if is_chat else getattr(server, "server_type", "unknown"),
            base_url=address(self._inference.servers[0]),
            completer=self._inference,
            make_prompt=self._steps.prompt,
            context_lengths=lambda: asyncio.gather(*map(context_length, self._inference.servers)),
            timeouts=self._steps.timeouts(),
            note_dropped=self._steps.drop,
        )
