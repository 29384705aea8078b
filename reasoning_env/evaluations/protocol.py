"""What an evaluation asks of a model: sampling within the limits of tokens, a line that says so, and its identity."""

from __future__ import annotations

import logging
import platform
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol
from urllib.parse import urlsplit, urlunsplit

from ..prompts.thinking import Thinking
from ..records import LibraryInfo, Problem, Sampling, Split, Verdict
from ..rewards import AnswerScorer
from ..runtime.text import counted
from ..settings import SYSTEM_PROMPT, ReasoningSettings
from .folder import MadeWith
from .plan import EvaluationPlan
from .presets import MAX_COMPLETION_TOKENS
from .problem_set import EvaluationSet

logger = logging.getLogger(__name__)

NO_LIMIT = 2**24
"""A limit of tokens above any server's: then a preset's budget is the only limit."""


class EvaluatingSession(Protocol):
    """A started `Session`, as an evaluation uses it."""

    settings: ReasoningSettings
    thinking: Thinking

    @property
    def eval_plan(self) -> EvaluationPlan: ...
    @property
    def evaluation_set(self) -> EvaluationSet: ...
    @property
    def library(self) -> LibraryInfo: ...
    @property
    def pool(self) -> AnswerScorer: ...
    def system_prompt(self, split: Split = ...) -> str: ...
    async def judge(self, problem: Problem, completions: Sequence[str], /) -> Sequence[Verdict]: ...


class EvaluationSettings(Protocol):
    """The settings of an evaluation that the core does not have."""

    max_token_length: int
    """Most tokens of prompt and completion together."""
    max_eval_workers: int
    data_dir_to_save_evals: str | None

    @property
    def model_fields_set(self) -> set[str]: ...


def own_limit(settings: EvaluationSettings) -> int | None:
    """Return `max_token_length` if the user set it, also to its default; None if the user did not."""
    return settings.max_token_length if "max_token_length" in settings.model_fields_set else None


def has_completion_limit(settings: ReasoningSettings, plan: EvaluationPlan) -> bool:
    """Tell whether the user or a preset limits the tokens of a completion."""
    return plan.preset is not None or settings.eval_max_completion_tokens is not None


def limit_sampling(
    settings: ReasoningSettings, plan: EvaluationPlan, sampling: Sampling, limits: Iterable[int | None]
) -> tuple[Sampling, list[str]]:
    """Return the sampling with the budget of tokens that the user or the preset sets for a completion, and remarks.

    `limits` bound prompt and completion together, in tokens: the contexts of the servers, and the user's own limit.
    None is no limit.
    """
    if not has_completion_limit(settings, plan):
        return sampling, []
    limit = min(filter(None, limits), default=NO_LIMIT)
    remarks = []
    # Prompts of presets have at most 1024 tokens, except some large puzzles.
    if plan.preset is not None and limit < MAX_COMPLETION_TOKENS + 1024:
        remarks.append(
            f"prompt and completion have {limit} tokens here, and the published completions {MAX_COMPLETION_TOKENS}: "
            "scores of tasks with truncated completions, and all means over such tasks, are not comparable"
        )
        logger.warning("%s", remarks[0])
    most = settings.eval_max_completion_tokens or MAX_COMPLETION_TOKENS
    if plan.preset is not None and most != MAX_COMPLETION_TOKENS:
        remarks.append(f"a completion has {most} tokens; the published ones {MAX_COMPLETION_TOKENS}")
    return replace(sampling, token_limit=limit, max_completion_tokens=most), remarks


def describe(session: EvaluatingSession, sampling: Sampling) -> str:
    """Return a line on what an evaluation asks for: problems, completions, tokens at most, prompt, sampling."""
    plan = session.eval_plan
    problems = len(plan.tasks) * plan.samples_per_task
    completions = problems * plan.repeats
    most = sampling.max_completion_tokens or sampling.token_limit
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


def identify(
    session: EvaluatingSession,
    sampling: Sampling,
    *,
    model: str,
    server_type: str,
    base_url: str,
    step: int | None,
    version: str,
) -> MadeWith:
    """Return the identity of the evaluation for `results.json`: an evaluation with an equal identity resumes it.

    `step` is the trainer's; None without a trainer. `version` is this package's. A password in `base_url` is left out.
    """
    plan = session.eval_plan
    settings = {
        **plan.describe(session.settings),
        "eval_temperature": sampling.temperature,
        "eval_top_p": sampling.top_p,
        "max_token_length": sampling.token_limit if sampling.token_limit < NO_LIMIT else None,
        "max_completion_tokens": sampling.max_completion_tokens,
        "system_prompt": session.system_prompt(Split.EVAL),
        "thinking_formats": list(session.thinking.names),
    }
    return {
        "model": model,
        "server": {"type": server_type, "base_url": _without_password(base_url)},
        "step": step,
        "preset": plan.preset.name if plan.preset else None,
        "settings": settings,
        "versions": {
            "reasoning_gym": session.library.version,
            "environment": version,
            "python": platform.python_version(),
            **session.library.modules,
        },
    }


def _in_millions(number: int) -> str:
    return f"{number / 1e6:,.1f} million" if number >= 1_000_000 else f"{number:,}"


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
