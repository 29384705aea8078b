"""The plan of an evaluation, from the settings or from a preset: tasks, numbers, level, prompt, and remarks."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..errors import ConfigError
from ..problems.plan import composite_params
from ..problems.selection import ALL_TASKS, match_tasks
from ..problems.stream import Generator
from ..records import LibraryInfo
from ..settings import ReasoningSettings, fingerprint
from .presets import FIRST_SEED, PRESET_SIZE, Preset, PresetSet, load_preset
from .problem_set import EvaluationSet


@dataclass(frozen=True)
class EvaluationPlan:
    """What to evaluate on, and how.

    `params` holds training's parameters, by task, with `eval_params: training`. A `system_prompt` of None stands for
    training's. `remarks` are sentences that say how the evaluation differs from the published runs.
    """

    tasks: tuple[str, ...]
    samples_per_task: int
    repeats: int
    params: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    preset: Preset | None = None
    system_prompt: str | None = None
    remarks: tuple[str, ...] = ()

    def make_set(self, generator: Generator, settings: ReasoningSettings, available: Sequence[str]) -> EvaluationSet:
        """Return the set, with nothing generated yet; `available` are the tasks that a composite may consist of."""
        if self.preset is not None:
            return PresetSet(
                generator,
                self.tasks,
                self.preset.params,
                samples_per_task=self.samples_per_task,
                deadline_s=settings.eval_generation_deadline_s,
            )
        return EvaluationSet(
            generator,
            self.tasks,
            {**self.params, **composite_params(self.tasks, available, self.params)},
            samples_per_task=self.samples_per_task,
            eval_seed=settings.eval_seed,
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
            "eval_seed": settings.eval_seed if self.preset is None else FIRST_SEED,
        }


def choose_eval_tasks(tasks: Sequence[str], limit: int) -> tuple[str, ...]:
    """Return `limit` tasks, spread evenly over their order; all tasks for -1 or a larger limit than their number."""
    if limit < 0 or limit >= len(tasks):
        return tuple(tasks)
    return tuple(tasks[position * len(tasks) // limit] for position in range(limit))


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
    params: Mapping[str, Mapping[str, Any]],
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
        chosen = choose_eval_tasks(tasks, settings.num_eval_tasks)
        asked = params if settings.eval_params == "training" else {}
        own = {task: asked[task] for task in chosen if task in asked}
        return EvaluationPlan(chosen, settings.num_eval_samples_per_task or 5, settings.eval_repeats or 1, own)
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
        tasks=choose_eval_tasks(tasks, settings.num_eval_tasks),
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
