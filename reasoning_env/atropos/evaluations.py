"""Evaluate the served model on the fixed set, with results in a folder and as metrics; say beforehand what is sent."""

from __future__ import annotations

import asyncio
import logging
import platform
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from atroposlib.envs.server_handling.server_baseline import ServerBaseline

from .. import __version__
from ..evaluations.folder import MadeWith, open_folder
from ..evaluations.plan import EvaluationPlan
from ..evaluations.presets import MAX_COMPLETION_TOKENS
from ..evaluations.run import Evaluation, Evaluator, metrics
from ..evaluations.scores import EvaluationScores, scores_of
from ..inference.failures import address
from ..records import Sampling, Split
from ..results import EvaluationResult
from ..runtime.text import counted
from ..session import Session
from ..settings import SYSTEM_PROMPT
from .config import ReasoningGymEnvConfig
from .environment import RolloutItem
from .group_steps import GroupSteps
from .inference.client import InferenceClient
from .inference.server_checks import context_length
from .inference.servers import CHAT, ReplyKind

logger = logging.getLogger(__name__)

NO_LIMIT = 2**24
"""A limit of tokens above any server's: then a preset's budget is the only limit."""


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
        self.last: EvaluationResult | None = None
        """Results of the last evaluation, finished or interrupted; None before the first evaluation."""
        self.scores: list[EvaluationScores] = []
        """Scores of the finished evaluations, the last one last."""
        self._finished: EvaluationResult | None = None
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
            sampling, shorter = limit_sampling(self._config, plan, sampling, contexts)
            remarks += shorter
        made_with = self._made_with(plan, sampling, step)
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
        logger.info("%s at %s: %s", made_with["model"], base_url, describe(self._session, sampling))
        evaluation = self._evaluation = Evaluation(self._evaluator(plan, sampling), folder, plan.preset, categories)
        self.under_way = True
        try:
            await evaluation.run(self._session.evaluation_set, bar=bar)
        finally:
            self.under_way = False
            # After Ctrl-C too.
            results = await evaluation.conclude()
            self.last = EvaluationResult(results, folder.path)
        scores = scores_of(results, None if self._finished is None else self._finished.results)
        if scores is not None:
            self.scores.append(scores)
            self._finished = self.last
        return metrics(results)

    def progress_line(self) -> str:
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

    def _made_with(self, plan: EvaluationPlan, sampling: Sampling, step: int | None) -> MadeWith:
        """Return the identity of the evaluation for `results.json`: an evaluation with an equal identity resumes it."""
        config = self._config
        server = self._server_config
        settings = {
            **plan.describe(config),
            "eval_temperature": sampling.temperature,
            "eval_top_p": sampling.top_p,
            "max_token_length": sampling.token_limit if sampling.token_limit < NO_LIMIT else None,
            "max_completion_tokens": sampling.max_completion_tokens,
            "system_prompt": self._session.system_prompt(Split.EVAL),
            "thinking_formats": list(self._session.thinking.names),
        }
        is_chat = self._inference.reply_kind is ReplyKind.CHAT
        server_type = CHAT if is_chat else getattr(server, "server_type", "unknown")
        base_url = _without_password(address(self._inference.servers[0]))
        return {
            "model": str(getattr(server, "model_name", None)),
            "server": {"type": server_type, "base_url": base_url},
            "step": step,
            "preset": plan.preset.name if plan.preset else None,
            "settings": settings,
            "versions": {
                "reasoning_gym": self._session.library.version,
                "environment": __version__,
                "python": platform.python_version(),
            },
        }


async def preview(config: ReasoningGymEnvConfig, checkout: Path | None) -> str:
    """Return a line on what an evaluation would send; asks no server, although a server's context may be shorter."""
    session = Session(config, checkout=checkout)
    try:
        await session.start()
        sampling = Sampling(config.eval_temperature, config.eval_top_p, config.max_token_length, Split.EVAL.value)
        sampling, _ = limit_sampling(config, session.eval_plan, sampling, [])
        return describe(session, sampling)
    finally:
        await session.close()


def describe(session: Session[Any], sampling: Sampling) -> str:
    """Return a line on what an evaluation asks for: problems, completions, tokens at most, prompt, sampling."""
    plan = session.eval_plan
    problems = len(plan.tasks) * plan.samples_per_task
    completions, most = problems * plan.repeats, sampling.max_completion_tokens or sampling.token_limit
    protocol = f" ({plan.preset.name})" if plan.preset else ""
    prompt = "this environment's" if session.settings.system_prompt == SYSTEM_PROMPT else "your system_prompt"
    if plan.system_prompt is not None:
        prompt = "the library's own"
    elif not session.settings.system_prompt:
        prompt = "the question alone"
    return (
        f"{counted(problems, 'problem')} of {counted(len(plan.tasks), 'task')}{protocol}, "
        f"{counted(completions, 'completion')}, at most "
        f"{_in_millions(completions * most)} tokens of completions; prompt: {prompt}; temperature "
        f"{sampling.temperature:g}, top_p {sampling.top_p:g}; at most {most:,} tokens a completion"
        f"{'' if sampling.max_completion_tokens else ', prompt included'}"
    )


def _in_millions(number: int) -> str:
    return f"{number / 1e6:,.1f} million" if number >= 1_000_000 else f"{number:,}"


def limit_sampling(
    config: ReasoningGymEnvConfig, plan: EvaluationPlan, sampling: Sampling, contexts: Iterable[int | None]
) -> tuple[Sampling, list[str]]:
    """Return the sampling with the budget of tokens that the user or the preset sets for a completion, and remarks.

    The budget is limited by the servers' `contexts`, in tokens, and by `max_token_length` if the user set it.
    """
    if plan.preset is None and config.eval_max_completion_tokens is None:
        return sampling, []
    limits = list(contexts)
    if config.max_token_length != type(config).model_fields["max_token_length"].default:
        limits.append(config.max_token_length)
    limit = min(filter(None, limits), default=NO_LIMIT)
    remarks = []
    # Prompts of presets have at most 1024 tokens, except some large puzzles.
    if plan.preset is not None and limit < MAX_COMPLETION_TOKENS + 1024:
        remarks.append(
            f"prompt and completion have {limit} tokens here, and the published completions {MAX_COMPLETION_TOKENS}: "
            "scores of tasks with truncated completions, and all means over such tasks, are not comparable"
        )
        logger.warning("%s", remarks[0])
    most = config.eval_max_completion_tokens or MAX_COMPLETION_TOKENS
    if plan.preset is not None and most != MAX_COMPLETION_TOKENS:
        remarks.append(f"a completion has {most} tokens; the published ones {MAX_COMPLETION_TOKENS}")
    return replace(sampling, token_limit=limit, max_completion_tokens=most), remarks


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
