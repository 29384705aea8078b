"""Evaluate the served model on the fixed set, with results in a folder and as metrics; say beforehand what is sent."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from atroposlib.envs.server_handling.server_baseline import ServerBaseline

from .. import __version__
from ..evaluations.folder import MadeWith, Results, find_earlier, open_folder
from ..evaluations.plan import EvaluationPlan
from ..evaluations.protocol import describe, identify, limit_sampling, own_limit
from ..evaluations.run import Evaluation, Evaluator, metrics
from ..evaluations.scores import EvaluationScores, scores_of
from ..inference.failures import address
from ..records import Sampling, Split
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
        """Scores of the finished evaluations, the last one last."""
        self.resumed_step: int | None = None
        """The trainer's step from which the training was resumed; None for a training that was not."""
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
        plan = self._session.eval_plan
        remarks = list(plan.remarks)
        sampling = self._steps.sampling(Split.EVAL)
        if plan.preset is not None or self._config.eval_max_completion_tokens is not None:
            contexts = await asyncio.gather(*map(context_length, self._inference.servers))
            sampling, shorter = limit_sampling(self._config, plan, sampling, [*contexts, own_limit(self._config)])
            remarks += shorter
        made_with = self._made_with(sampling, step)
        folder = await asyncio.to_thread(
            open_folder,
            Path(self._config.data_dir_to_save_evals or "evals"),
            made_with,
            problems=len(plan.tasks) * plan.samples_per_task,
            remarks=remarks,
            resume=resume,
        )
        categories = {task.name: task.category for task in self._session.library.tasks}
        base_url = made_with["server"]["base_url"]
        announced = f"{made_with['model']} at {base_url}: {describe(self._session, sampling)}"
        if announced != self._announced:  # during training, each evaluation asks the same
            logger.info("%s", announced)
            self._announced = announced
        evaluation = self._evaluation = Evaluation(self._evaluator(plan, sampling), folder, plan.preset, categories)
        self.under_way = True
        try:
            await evaluation.run(self._session.evaluation_set, bar=bar)
        finally:
            self.under_way = False
            # After Ctrl-C too.
            results = await evaluation.conclude()
            self.last = EvaluationResult(results, folder.path)
        if self._finished is None and self.resumed_step is not None:
            self._finished = await asyncio.to_thread(find_earlier, folder.path, results, self.resumed_step)
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

    def _evaluator(self, plan: EvaluationPlan, sampling: Sampling) -> Evaluator:
        return Evaluator(
            judge=self._session.judge,
            plain_scorer=None if plan.preset is None else self._session.pool,
            completer=self._inference,
            make_prompt=self._steps.prompt,
            sampling=sampling,
            settings=self._config,
            thinking=self._session.thinking,
            repeats=plan.repeats,
            workers=self._config.max_eval_workers,
            timeouts=self._steps.timeouts(),
            note_dropped=self._steps.drop,
        )

    def _made_with(self, sampling: Sampling, step: int | None) -> MadeWith:
        """Return the identity of the evaluation for `results.json`: an evaluation with an equal identity resumes it."""
        server = self._server_config
        is_chat = self._inference.reply_kind is ReplyKind.CHAT
        return identify(
            self._session,
            sampling,
            model=str(getattr(server, "model_name", None)),
            server_type=CHAT if is_chat else getattr(server, "server_type", "unknown"),
            base_url=address(self._inference.servers[0]),
            step=step,
            version=__version__,
        )


async def preview(config: ReasoningGymEnvConfig, checkout: Path | None) -> str:
    """Return a line on what an evaluation would send; asks no server, although a server's context may be shorter."""
    session = Session(config, checkout=checkout)
    try:
        await session.start()
        sampling = Sampling(config.eval_temperature, config.eval_top_p, config.max_token_length, Split.EVAL.value)
        sampling, _ = limit_sampling(config, session.eval_plan, sampling, [own_limit(config)])
        return describe(session, sampling)
    finally:
        await session.close()
