"""What settings or a preset make an evaluation of: tasks, numbers, level, prompt, and remarks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ..errors import ConfigError
from ..problems import Generator
from ..records import LibraryInfo
from ..settings import ReasoningSettings
from ..tasks.sampling import composite_params
from ..tasks.selection import ALL_TASKS, match_tasks
from .presets import SIZE, TEMPERATURE, TOP_P, Preset, PresetSet, load_preset
from .problem_set import EvaluationSet, choose_eval_tasks


@dataclass(frozen=True)
class EvalPlan:
    """What to evaluate on and how.

    `system_prompt` is None where training's is used. `remarks` are sentences about what is not as published.
    """

    tasks: tuple[str, ...]
    samples_per_task: int
    repeats: int
    preset: Preset | None = None
    system_prompt: str | None = None
    remarks: tuple[str, ...] = ()

    def make_set(self, generator: Generator, settings: ReasoningSettings, available: Sequence[str]) -> EvaluationSet:
        """Return the set, with nothing generated yet; `available` are all tasks that a composite may have."""
        kind = EvaluationSet if self.preset is None else PresetSet
        return kind(
            generator,
            self.tasks,
            composite_params(self.tasks, available) if self.preset is None else self.preset.params,
            samples_per_task=self.samples_per_task,
            eval_seed=settings.eval_seed,
            deadline_s=settings.eval_generation_deadline_s,
            level=settings.eval_level,
        )


def plan_evaluation(settings: ReasoningSettings, library: LibraryInfo, selected: Sequence[str]) -> EvalPlan:
    """Read everything that the settings say of the evaluation; `selected` are the tasks of the run.

    Raises ConfigError for tasks that there are not, and for such as a preset does not have.
    """
    patterns = ["*" if pattern.lower() == ALL_TASKS else pattern for pattern in settings.eval_tasks]
    # In the order of their names, so that the same tasks are the same set.
    tasks = tuple(sorted(match_tasks(library.tasks, patterns, "eval_tasks") if patterns else selected))
    if settings.eval_preset is None:
        chosen = choose_eval_tasks(tasks, settings.num_eval_tasks)
        return EvalPlan(chosen, settings.num_eval_samples_per_task, settings.eval_repeats or 1)
    preset = load_preset(settings.eval_preset)
    _check_names(settings, library, preset)
    tasks = tuple(task for task in preset.tasks if task in tasks)
    if not tasks:
        raise ConfigError(f"eval_preset: {preset.name} has none of the selected tasks; select others, or take it out")
    default = ReasoningSettings.model_fields["num_eval_samples_per_task"].default
    wanted = settings.num_eval_samples_per_task
    if wanted > SIZE:
        raise ConfigError(f"num_eval_samples_per_task: {preset.name} has {SIZE} problems of each task; got {wanted}")
    plan = EvalPlan(
        tasks=choose_eval_tasks(tasks, settings.num_eval_tasks),
        samples_per_task=SIZE if wanted == default else wanted,
        repeats=settings.eval_repeats or preset.repeats,
        preset=preset,
        system_prompt=library.system_prompt,
    )
    return replace(plan, remarks=tuple(_remarks(settings, library, plan, preset)))


def _check_names(settings: ReasoningSettings, library: LibraryInfo, preset: Preset) -> None:
    """Refuse tasks that are named and that the preset does not have; those of a pattern are left out."""
    field = "eval_tasks" if settings.eval_tasks else "tasks"
    names = {task.name for task in library.tasks}
    named = [name.lower() for name in getattr(settings, field)]
    unknown = [name for name in named if name in names and name not in preset.tasks]
    if unknown:
        raise ConfigError(
            f"{field}: the preset {preset.name} has no {', '.join(unknown)}; take it out, or evaluate without a preset"
        )


def _remarks(settings: ReasoningSettings, library: LibraryInfo, plan: EvalPlan, preset: Preset) -> Iterator[str]:
    """Yield what differs from the protocol, so that figures cannot be compared as they are."""
    if library.version != preset.library:
        yield (
            f"reasoning-gym is {library.version}; that other tasks have the published questions is known of "
            f"{preset.library} only"
        )
    sampling = (("temperature", settings.eval_temperature, TEMPERATURE), ("top_p", settings.eval_top_p, TOP_P))
    for name, wanted, published in sampling:
        if wanted != published:
            yield f"{name} is {wanted:g}; the published runs have {published:g}"
    if plan.samples_per_task != SIZE:
        yield f"{plan.samples_per_task} problems a task instead of {SIZE}: the published scores are those of all"
    missing = set(preset.tasks).difference(task.name for task in library.tasks)
    if missing:
        yield f"this library lacks {', '.join(sorted(missing))}"
