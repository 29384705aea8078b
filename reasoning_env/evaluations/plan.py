"""The inputs of an evaluation (session and settings), its sampling parameters, and its identity (see `MadeWith`)."""

from __future__ import annotations

import platform
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from ..errors import ConfigError
from ..inference.token_limits import LIMIT_NAMES
from ..problems.evaluation_set import EvaluationSet
from ..problems.plan import EvaluationPlan
from ..problems.presets import MAX_COMPLETION_TOKENS
from ..prompts.thinking import Thinking
from ..records import DropReason, LibraryInfo, Pool, Problem, Sampling, Split, Verdict
from ..runtime.text import pluralize
from ..settings import SYSTEM_PROMPT, ReasoningSettings, fingerprint
from .folder import MadeWith
from .published import load_published, remarks_on
from .summary import TOKEN_LIMIT, SentRequests
from .table import describe_changes, show_values

if TYPE_CHECKING:
    from ..inference.served_model import ServedModel

EVAL_TOP_P = 0.95
"""Nucleus sampling threshold of evaluations, as in the published runs."""
NOT_COMPARABLE = (
    "scores of tasks with truncated completions, and means over these tasks, are not comparable with published scores"
)
NO_LIMIT = 2**24
"""A token limit that has no effect, because it is above any server's limit."""


def check_seed(settings: ReasoningSettings, typed: Container[str]) -> None:
    """Raise ConfigError if `eval_seed` is on the command line although the settings have a preset.

    `typed` has the names of the settings on the command line.
    """
    if settings.eval_preset is not None and "env.eval_seed" in typed:
        raise ConfigError("a preset has its own seeds", setting="eval_seed", remedy="omit {eval_seed} or {eval_preset}")


def without_effect(settings: ReasoningSettings) -> set[str]:
    """Return the settings that other settings make ineffective in an evaluation."""
    names = set()
    if settings.eval_tasks:
        names |= {"env.tasks", "env.exclude_tasks"}
    if settings.eval_level != "training":
        names |= {"env.task_params", "env.complexity_level"}
    if settings.eval_preset is not None:
        names |= {"env.eval_seed", "env.system_prompt"}
    return names


class EvaluatingSession(Protocol):
    """The part of a started `Session` that an evaluation uses."""

    settings: ReasoningSettings
    thinking: Thinking

    @property
    def eval_plan(self) -> EvaluationPlan: ...
    @property
    def evaluation_set(self) -> EvaluationSet: ...
    @property
    def library(self) -> LibraryInfo: ...
    @property
    def pool(self) -> Pool: ...
    def system_prompt(self, split: Split = ...) -> str: ...
    def messages(self, problem: Problem) -> tuple[Mapping[str, str], ...]: ...
    def drop(self, problem: Problem, reason: DropReason) -> None: ...
    async def judge(self, problem: Problem, completions: Sequence[str], /) -> Sequence[Verdict]: ...


class EvaluationSettings(Protocol):
    """The settings of an evaluation that are not part of `ReasoningSettings`."""

    max_token_length: int
    """Maximum tokens of prompt and completion together."""
    max_eval_workers: int | None
    data_dir_to_save_evals: str | None

    @property
    def model_fields_set(self) -> set[str]: ...


def limits_completions(session: EvaluatingSession) -> bool:
    """Return True if the user or a preset limits the tokens of a completion."""
    return session.eval_plan.preset is not None or session.settings.eval_max_completion_tokens is not None


def choose_sampling(
    session: EvaluatingSession,
    settings: EvaluationSettings,
    *,
    contexts: Iterable[int | None] = (),
    token_limit: int | None = None,
) -> Sampling:
    """Return the sampling parameters of an evaluation.

    `token_limit` (default: the setting `max_token_length`) limits prompt and completion together.

    If the user or a preset limits the completion, `token_limit` is ignored. In that case, the servers' context lengths
    (`contexts`; None if unknown), and a `max_token_length` that the user set, limit prompt and completion together.
    """
    own = session.settings
    sampling = Sampling(
        own.eval_temperature, EVAL_TOP_P, token_limit or settings.max_token_length, split=Split.EVAL.value
    )
    if not limits_completions(session):
        return sampling
    user_limit = settings.max_token_length if "max_token_length" in settings.model_fields_set else None
    limit = min(filter(None, [*contexts, user_limit]), default=NO_LIMIT)
    most = own.eval_max_completion_tokens or MAX_COMPLETION_TOKENS
    return replace(sampling, token_limit=limit, max_completion_tokens=most)


def find_differences(session: EvaluatingSession, sampling: Sampling, sent: SentRequests) -> list[str]:
    """Return a sentence for each difference from the published runs; [] if the evaluation has no preset.

    `sent` is the record of the requests so far.
    """
    preset = session.eval_plan.preset
    if preset is None:
        return []
    published = load_published(preset.name)
    refused = sent["changed"]
    temperature = None if "temperature" in refused else sampling.temperature
    found = list(remarks_on(session.eval_plan, published, session.library, temperature))
    # Prompts of presets have at most 1024 tokens, except some large puzzles.
    if sampling.token_limit < MAX_COMPLETION_TOKENS + 1024:
        found.append(
            f"prompt and completion together have at most {sampling.token_limit} tokens here; in the published "
            f"runs, the completion alone had up to {MAX_COMPLETION_TOKENS}: {NOT_COMPARABLE}"
        )
    if sampling.max_completion_tokens != MAX_COMPLETION_TOKENS and TOKEN_LIMIT not in refused:
        found.append(
            f"a completion has at most {sampling.max_completion_tokens} tokens; in the published runs, "
            f"a completion had up to {MAX_COMPLETION_TOKENS}"
        )
    for name, values in sent["parameters"].items():
        if name not in ("temperature", "top_p", *LIMIT_NAMES, *refused):
            found.append(f"requests have {name} {show_values(values)}; the published runs did not set {name}")
    found += describe_changes(sent)
    if TOKEN_LIMIT in refused:
        found.append(NOT_COMPARABLE)
    return found


def describe_evaluation(session: EvaluatingSession, sampling: Sampling) -> str:
    """Describe an evaluation in a line: problems, completions, tokens, prompt and sampling parameters."""
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
        f"{pluralize(problems, 'problem')} of {pluralize(len(plan.tasks), 'task')}{protocol}, "
        f"{pluralize(completions, 'completion')}, at most "
        f"{_in_millions(completions * most)} tokens of completions; prompt: {prompt}; temperature "
        f"{sampling.temperature:g}, top_p {sampling.top_p:g}; at most {most:,} tokens a completion"
        f"{'' if sampling.max_completion_tokens else ', prompt included'}"
    )


def identify(
    session: EvaluatingSession, sampling: Sampling, model: ServedModel, *, step: int | None, version: str
) -> MadeWith:
    """Return the properties that identify an evaluation (see `MadeWith`).

    `step` is the trainer's step; None if there is no trainer. `version` is this package's version.
    """
    plan = session.eval_plan
    settings = {
        **fingerprint(session.settings, "evaluation"),
        "tasks": plan.tasks,
        "task_params": {task: dict(params) for task, params in plan.params.items()},
        "num_eval_samples_per_task": plan.samples_per_task,
        "eval_repeats": plan.repeats,
        "eval_seed": plan.seed,
        "eval_temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_token_length": sampling.token_limit if sampling.token_limit < NO_LIMIT else None,
        "max_completion_tokens": sampling.max_completion_tokens,
        "system_prompt": session.system_prompt(Split.EVAL),
        "thinking_formats": list(session.thinking.names),
    }
    return {
        "model": model.model,
        "server": {"type": model.server_type, "base_url": model.base_url},
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
