"""What a run draws problems from: tasks with parameters and weights, and a sampler that chooses them."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..errors import ConfigError
from ..library_facts import gameable_tasks
from ..records import LibraryInfo
from ..settings import ReasoningSettings, fingerprint
from .learning.adaptive import SteeredSampler, static_weights
from .learning.curriculum import Curriculum
from .parameters import SpecRules, check_params, extremes
from .sampling import UniformSampler
from .selection import match_tasks, resolve_patterns, select_tasks

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TaskPlan:
    """The library's task names: all not excluded, those selected, and the selected ones to train on.

    `adjustable` have levels of difficulty. `params` and `weights` are what the user set, by task.
    """

    available: tuple[str, ...]
    tasks: tuple[str, ...]
    training_tasks: tuple[str, ...]
    adjustable: frozenset[str]
    params: Mapping[str, Mapping[str, Any]]
    weights: Mapping[str, float]


class Checker(Protocol):
    """The part of the worker pool that a plan is checked with."""

    async def check(self, wanted: Sequence[tuple[str, Mapping[str, Any], float | None]]) -> list[str]: ...


async def plan_tasks(settings: ReasoningSettings, library: LibraryInfo, checker: Checker) -> TaskPlan:
    """Read all that the settings say of tasks; raises ConfigError for what is invalid or impossible."""
    excluded = match_tasks(library.tasks, settings.exclude_tasks, "exclude_tasks")
    # In name order, so that the same tasks give the same problems however they were asked for.
    tasks = tuple(sorted(select_tasks(library.tasks, settings.tasks, settings.exclude_tasks)))
    training_tasks = _choose_training_tasks(settings, tasks)
    params = resolve_patterns(library.tasks, tasks, settings.task_params, "task_params")
    check_params(params)
    # Where levels vary, one that works is enough: the others are clamped to it.
    level = settings.complexity_level if settings.complexity_mode is None else 0.5
    ends = [(task, end, level) for task in params for end in extremes(params[task])]
    faults = await checker.check(ends) if ends else []
    if faults:
        raise ConfigError("task_params: " + "; ".join(faults))
    weights = resolve_patterns(library.tasks, training_tasks, settings.task_weights, "task_weights")
    fixed = sorted(set(training_tasks) - library.adjustable)
    if fixed and settings.complexity_mode is not None:
        logger.info("complexity_mode leaves these tasks as they are, having no levels: %s", ", ".join(fixed))
    return TaskPlan(
        available=tuple(task.name for task in library.tasks if task.name not in excluded),
        tasks=tasks,
        training_tasks=training_tasks,
        adjustable=library.adjustable,
        params=params,
        weights=static_weights(training_tasks, weights),
    )


def _choose_training_tasks(settings: ReasoningSettings, tasks: tuple[str, ...]) -> tuple[str, ...]:
    """Leave out tasks that pay policies without reasoning, except those that `tasks` names themselves."""
    reasons = gameable_tasks(strict=settings.strict_rewards) if settings.exclude_gameable else {}
    named = set(map(str.lower, settings.tasks))
    excluded = [name for name in tasks if name in reasons and name not in named]
    if excluded:
        logger.info(
            "exclude_gameable leaves out of training, not of evaluation, what pays for nonsense: %s; to train on it "
            "all the same, name it in `tasks`",
            "; ".join(f"{name} ({reasons[name]})" for name in excluded),
        )
    if len(excluded) == len(tasks):
        raise ConfigError(
            "exclude_gameable leaves no task to train on; name the tasks in `tasks`, or set exclude_gameable to false"
        )
    return tuple(name for name in tasks if name not in excluded)


def make_sampler(
    plan: TaskPlan,
    settings: ReasoningSettings,
    *,
    instance: int,
    group_size: int,
    state: Mapping[str, Any] | None = None,
) -> UniformSampler:
    """Return the sampler of a stream of problems; `state` is what an earlier run's sampler returned."""
    mode, saved = settings.complexity_mode, state or {}
    rules = SpecRules(settings.seed, instance, plan.params, settings.complexity_level, mode == "random")
    if mode != "curriculum" and settings.task_sampling == "uniform":
        return UniformSampler(plan.training_tasks, plan.available, rules)
    target, levels = settings.curriculum_target_accuracy, saved.get("curriculum")
    return SteeredSampler(
        plan.training_tasks,
        plan.available,
        rules,
        group_size=group_size,
        weights=None if settings.task_sampling == "adaptive" else plan.weights,
        curriculum=Curriculum(target, state=levels) if mode == "curriculum" else None,
        adjustable=plan.adjustable,
        state=saved,
    )


def describe_run(settings: ReasoningSettings, plan: TaskPlan) -> dict[str, Any]:
    """Return what decides which problems a run draws, as JSON reads it back.

    Tasks are those that the patterns and exclusions come down to, so it does not matter how they were asked for.
    """
    tasks = {
        "tasks": plan.training_tasks,
        "task_params": {task: dict(params) for task, params in plan.params.items()},
        "task_weights": dict(plan.weights),
    }
    run = {**fingerprint(settings, "problems"), **json.loads(json.dumps(tasks))}
    return {name: value for name, value in run.items() if name not in ("exclude_tasks", "exclude_gameable")}
