"""Evaluate the served model on the fixed set beside a training, with results in a folder and as metrics."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from atroposlib.envs.server_handling.server_baseline import ServerBaseline

from .. import __version__
from ..errors import ReasoningEnvError
from ..evaluations.results import EvaluationResult
from ..evaluations.run import Evaluation
from ..evaluations.scores import metrics, score_lines
from ..prompts.messages import Messages
from ..records import Prompt, Rollout, Sampling
from .inference.server_checks import context_length
from .inference.servers import CHAT, ReplyKind, address

if TYPE_CHECKING:
    from .run import Run

logger = logging.getLogger(__name__)


class PolicyModel:
    """The model that the servers of a training have, as an evaluation asks it.

    `server_config` is that of the first server, and names the model; None if there is no server, as in a test.
    """

    def __init__(self, run: Run, server_config: ServerBaseline | None) -> None:
        self.model = str(getattr(server_config, "model_name", None))
        self._run = run
        self._server_config = server_config

    @property
    def server_type(self) -> str:
        is_chat = self._run.inference.reply_kind is ReplyKind.CHAT
        return CHAT if is_chat else str(getattr(self._server_config, "server_type", "unknown"))

    @property
    def base_url(self) -> str:
        return address(self._run.inference.servers[0])

    async def context_lengths(self) -> Sequence[int | None]:
        return await asyncio.gather(*map(context_length, self._run.inference.servers))

    def prompt(self, messages: Messages) -> Prompt:
        return self._run.chat.prompt(messages)

    async def complete(self, prompt: Prompt, n: int, sampling: Sampling) -> list[Rollout]:
        return await self._run.inference.complete(prompt, n, sampling, self._run.timeouts())


class ModelEvaluations:
    """Evaluates the served model on the fixed set, as often as the training asks."""

    def __init__(self, run: Run, model: PolicyModel) -> None:
        self._run = run
        self._model = model
        self._announced = ""
        self.last: EvaluationResult | None = None
        """Results of the last evaluation, finished or interrupted; None before the first evaluation."""

    async def run(self, *, step: int | None, bar: bool) -> dict[str, float] | None:
        """Evaluate the model and return the metrics; None if the evaluation failed, which is logged.

        The log tells the scores, overall and by category. Finished problems are kept, also after an
        error or an interruption.

        Args:
            step: Step of the trainer, for the results; None without a trainer.
            bar: Show a progress bar on a terminal; else write progress lines to the log.
        """
        try:
            return await self._evaluate(step, bar=bar)
        except ReasoningEnvError as error:
            logger.error("the evaluation failed: %s", error)
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
        if evaluation.announcement != self._announced:  # each evaluation asks the same
            self._announced = evaluation.announcement
            logger.info("%s", self._announced)
        try:
            await evaluation.run(bar=bar)
        finally:
            # After Ctrl-C too.
            self.last = await evaluation.conclude()
            logger.info("%s", evaluation.describe())
        results = self.last.results
        for line in score_lines(results):
            logger.info("%s", line)
        return metrics(results)
