"""The plan of an evaluation: what a model is asked, by the settings or by a preset, and what makes two equal."""

from __future__ import annotations

import logging
import platform
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol
from urllib.parse import urlsplit, urlunsplit

from ..errors import ConfigError
from ..problems.plan import composite_params
from ..problems.selection import ALL_TASKS, match_tasks
from ..prompts.messages import Messages
from ..prompts.thinking import Thinking
from ..records import DropReason, LibraryInfo, Pool, Problem, Prompt, Rollout, Sampling, Split, Verdict
from ..runtime.text import counted
from ..settings import SYSTEM_PROMPT, ReasoningSettings, fingerprint
from .folder import MadeWith
from .presets import FIRST_SEED, MAX_COMPLETION_TOKENS, PRESET_SIZE, Preset, PresetSet, load_preset
from .problem_set import EvaluationSet

logger = logging.getLogger(__name__)

NO_LIMIT = 2**24
"""A limit of tokens above any server's: then a preset's budget is the only limit."""


@dataclass(frozen=True)
class EvaluationPlan:
    """What to evaluate on, and how.

    `params` holds training's parameters, by task, with `eval_params: training`. A `system_prompt` of None stands for
    training's. `remarks` are sentences that say how the evaluation differs from the published runs.
    """

    tasks: tuple[str, ...]
    samples_per_task: int
    repeats: int
    params: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    preset: Preset | None = None
    system_prompt: str | None = None
    remarks: tuple[str, ...] = ()

    def make_set(self, generator: Pool, settings: ReasoningSettings, available: Sequence[str]) -> EvaluationSet:
        """Return the set, with nothing generated yet; `available` are the tasks that a composite may consist of."""
        own = {**self.params, **composite_params(self.tasks, available, self.params)}
        return (EvaluationSet if self.preset is None else PresetSet)(
            generator,
            self.tasks,
            own if self.preset is None else self.preset.params,
            samples_per_task=self.samples_per_task,
            eval_seed=self.seed(settings),
            deadline_s=settings.eval_generation_deadline_s,
            level=settings.eval_level,
        )

    def describe(self, settings: ReasoningSettings) -> dict[str, object]:
        """Return the settings that decide an evaluation, with the plan's values for those that the user left open."""
        return {
            **fingerprint(settings, "evaluation"),
            "tasks": self.tasks,
            "task_params": {task: dict(params) for task, params in self.params.items()},
            "num_eval_samples_per_task": self.samples_per_task,
            "eval_repeats": self.repeats,
            "eval_seed": self.seed(settings),
        }

    def seed(self, settings: ReasoningSettings) -> int:
        """Return the seed of the set."""
        return settings.eval_seed if self.preset is None else FIRST_SEED


def check_seed(settings: ReasoningSettings, typed: Container[str]) -> None:
    """Raise ConfigError for an `eval_seed` on the command line beside a preset; `typed` has the options."""
    if settings.eval_preset is not None and "env.eval_seed" in typed:
        raise ConfigError(
            "a preset has seeds of its own", setting="eval_seed", remedy="take the seed or {eval_preset} out"
        )


def plan_evaluation(
    settings: ReasoningSettings,
    library: LibraryInfo,
    selected: Sequence[str],
    params: Mapping[str, Mapping[str, object]],
) -> EvaluationPlan:
    """Plan the evaluation that the settings ask for; `selected` are training's tasks, `params` their parameters.

    Raises ConfigError:

    - a pattern of `eval_tasks` matches no task
    - the preset lacks a task that is asked for by name, or has none of the tasks
    - more problems of a task are asked for than the preset has
    """
    patterns = ["*" if pattern.lower() == ALL_TASKS else pattern for pattern in settings.eval_tasks]
    # Sorted, so that the same tasks are the same set.
    tasks = tuple(sorted(match_tasks(library.tasks, patterns, "eval_tasks") if patterns else selected))
    if settings.eval_preset is None:
        asked = params if settings.eval_params == "training" else {}
        own = {task: asked[task] for task in tasks if task in asked}
        return EvaluationPlan(tasks, settings.num_eval_samples_per_task or 5, settings.eval_repeats or 1, own)
    preset = load_preset(settings.eval_preset)
    _check_names(settings, library, preset)
    tasks = tuple(task for task in preset.tasks if task in tasks)
    if not tasks:
        raise ConfigError(
            f"{preset.name} has none of the selected tasks",
            setting="eval_preset",
            remedy="select others, or take the preset out",
        )
    samples = settings.num_eval_samples_per_task or PRESET_SIZE
    if samples > PRESET_SIZE:
        raise ConfigError(
            f"{preset.name} has {PRESET_SIZE} problems of each task", setting="num_eval_samples_per_task", got=samples
        )
    plan = EvaluationPlan(
        tasks=tasks,
        samples_per_task=samples,
        repeats=settings.eval_repeats or preset.repeats,
        preset=preset,
        system_prompt=library.system_prompt,
    )
    return replace(plan, remarks=tuple(_remarks(settings, library, plan, preset)))


def _check_names(settings: ReasoningSettings, library: LibraryInfo, preset: Preset) -> None:
    """Raise ConfigError for a task that is asked for by name and that the preset lacks.

    Tasks that a pattern matches and the preset lacks are left out.
    """
    field = "eval_tasks" if settings.eval_tasks else "tasks"
    names = {task.name for task in library.tasks}
    named = [name.lower() for name in getattr(settings, field)]
    unknown = [name for name in named if name in names and name not in preset.tasks]
    if unknown:
        raise ConfigError(
            f"the preset {preset.name} has no {', '.join(unknown)}",
            setting=field,
            remedy="take the task out, or evaluate without a preset",
        )


def _remarks(settings: ReasoningSettings, library: LibraryInfo, plan: EvaluationPlan, preset: Preset) -> Iterator[str]:
    """Yield the differences from the protocol that make figures incomparable with published figures."""
    if library.version != preset.library:
        yield (
            f"reasoning-gym is {library.version}; the tasks with the published questions and scoring are known for "
            f"{preset.library} only"
        )
    if settings.eval_temperature != 0.6:
        yield f"temperature is {settings.eval_temperature:g}; the published runs have 0.6"
    if settings.eval_top_p != 0.95:
        yield f"top_p is {settings.eval_top_p:g}; the published runs have 0.95"
    if plan.samples_per_task != PRESET_SIZE:
        yield f"{plan.samples_per_task} problems a task; the published scores are means over {PRESET_SIZE}"
    missing = set(preset.tasks).difference(task.name for task in library.tasks)
    if missing:
        yield f"this library lacks {', '.join(sorted(missing))}"


# ------------------------------------------------------------------ what a model is asked


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
    def pool(self) -> Pool: ...
    def system_prompt(self, split: Split = ...) -> str: ...
    def messages(self, problem: Problem) -> tuple[Mapping[str, str], ...]: ...
    def drop(self, problem: Problem, reason: DropReason) -> None: ...
    async def judge(self, problem: Problem, completions: Sequence[str], /) -> Sequence[Verdict]: ...


class EvaluationSettings(Protocol):
    """The settings of an evaluation that the core does not have."""

    max_token_length: int
    """Most tokens of prompt and completion together."""
    max_eval_workers: int
    data_dir_to_save_evals: str | None

    @property
    def model_fields_set(self) -> set[str]: ...


class ServedModel(Protocol):
    """A model at a server, as an evaluation asks it."""

    @property
    def model(self) -> str:
        """Name of the model."""

    @property
    def server_type(self) -> str: ...
    @property
    def base_url(self) -> str: ...

    async def context_lengths(self) -> Sequence[int | None]:
        """Return how many tokens each server takes for prompt and completion; None where a server does not say."""

    def prompt(self, messages: Messages) -> Prompt: ...

    async def complete(self, prompt: Prompt, n: int, sampling: Sampling) -> list[Rollout]:
        """Return `n` completions of a prompt; may raise any error."""


def limits_completions(session: EvaluatingSession) -> bool:
    """Tell whether the user or a preset limits the tokens of a completion."""
    return session.eval_plan.preset is not None or session.settings.eval_max_completion_tokens is not None


def choose_sampling(
    session: EvaluatingSession,
    settings: EvaluationSettings,
    *,
    contexts: Iterable[int | None] = (),
    token_limit: int | None = None,
) -> tuple[Sampling, list[str]]:
    """Return the sampling of an evaluation, and remarks on its differences from the published runs.

    Where the user or a preset limits the tokens of a completion, `contexts` (the tokens that each server takes for
    prompt and completion; None if unknown) and the user's own `max_token_length` bound prompt and completion together.
    Otherwise `token_limit` does; None for `max_token_length`.
    """
    own = session.settings
    sampling = Sampling(
        own.eval_temperature, own.eval_top_p, token_limit or settings.max_token_length, split=Split.EVAL.value
    )
    if not limits_completions(session):
        return sampling, []
    user_limit = settings.max_token_length if "max_token_length" in settings.model_fields_set else None
    limit = min(filter(None, [*contexts, user_limit]), default=NO_LIMIT)
    most = own.eval_max_completion_tokens or MAX_COMPLETION_TOKENS
    sampling = replace(sampling, token_limit=limit, max_completion_tokens=most)
    remarks = []
    if session.eval_plan.preset is not None:
        # Prompts of presets have at most 1024 tokens, except some large puzzles.
        if limit < MAX_COMPLETION_TOKENS + 1024:
            remarks.append(
                f"prompt and completion have {limit} tokens here, and the published completions "
                f"{MAX_COMPLETION_TOKENS}: scores of tasks with truncated completions, and all means over such tasks, "
                "are not comparable"
            )
            logger.warning("%s", remarks[0])
        if most != MAX_COMPLETION_TOKENS:
            remarks.append(f"a completion has {most} tokens; the published ones {MAX_COMPLETION_TOKENS}")
    return sampling, remarks


def describe_evaluation(session: EvaluatingSession, sampling: Sampling) -> str:
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
    session: EvaluatingSession, sampling: Sampling, model: ServedModel, *, step: int | None, version: str
) -> MadeWith:
    """Return the identity of the evaluation for `results.json`: an evaluation with an equal identity resumes it.

    `step` is the trainer's; None without a trainer. `version` is this package's. A password in the server's address is
    left out.
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
        "model": model.model,
        "server": {"type": model.server_type, "base_url": without_password(model.base_url)},
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


def without_password(url: str) -> str:
    """Return a URL without the name and the password in it."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
