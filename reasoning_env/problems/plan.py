"""What a run draws problems from: tasks with parameters and weights, and a sampler that chooses them."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..errors import ConfigError
from ..library_facts import COMPOSITE, gameable_tasks
from ..metrics.stats import LibraryInfo
from ..settings import ReasoningSettings, fingerprint
from .estimator import SignalEstimator
from .sampling import TaskSampler
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

    @property
    def all_params(self) -> dict[str, Mapping[str, Any]]:
        """Parameters by task with which problems are generated: the user's, and the members of a composite."""
        return {**self.params, **composite_params(self.training_tasks, self.available, self.params)}


class Checker(Protocol):
    """The part of the worker pool that a plan is checked with."""

    async def check(self, params: Sequence[tuple[str, Mapping[str, Any], float | None]]) -> list[str]: ...


async def plan_tasks(settings: ReasoningSettings, library: LibraryInfo, checker: Checker) -> TaskPlan:
    """Read the settings of tasks; raises ConfigError for what is invalid or impossible."""
    excluded = match_tasks(library.tasks, settings.exclude_tasks, "exclude_tasks")
    # In name order, so that the same tasks give the same problems however they were asked for.
    tasks = tuple(sorted(select_tasks(library.tasks, settings.tasks, settings.exclude_tasks)))
    training_tasks = _choose_training_tasks(settings, tasks)
    params = resolve_patterns(library.tasks, tasks, settings.task_params, "task_params")
    await _check_params(params, settings, checker)
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
        weights=_weights(training_tasks, weights),
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
            extra={"detail": True},
        )
    if len(excluded) == len(tasks):
        raise ConfigError(
            "leaves no task to train on",
            setting="exclude_gameable",
            remedy="set it to false, or name the tasks in {tasks}",
        )
    return tuple(name for name in tasks if name not in excluded)


async def _check_params(params: Mapping[str, Mapping[str, Any]], settings: ReasoningSettings, checker: Checker) -> None:
    """Raise ConfigError for parameters that JSON cannot hold or the library refuses, and for a composite's."""
    if params.get(COMPOSITE):
        raise ConfigError(
            f"{COMPOSITE} is made of the other selected tasks",
            setting="task_params",
            remedy="select the tasks that it should have",
        )
    for task, of_task in params.items():
        for name, value in of_task.items():
            try:
                json.dumps(value)
            except (TypeError, ValueError) as error:
                raise ConfigError(
                    f"{task}.{name} must be made of numbers, texts, lists and mappings ({error})", setting="task_params"
                ) from error
    # Where levels vary, a single level that works is enough: the others are clamped to it.
    levels = [settings.complexity_level if settings.complexity_mode is None else 0.5]
    if settings.eval_params == "training" and settings.eval_level not in levels:
        levels.append(settings.eval_level)
    if params and (faults := await checker.check([(task, params[task], level) for level in levels for task in params])):
        raise ConfigError("; ".join(faults), setting="task_params")


def _weights(tasks: Iterable[str], set_by_user: Mapping[str, float]) -> dict[str, float]:
    """Return the weight of each task, 1 where the user set none; 0 leaves a task out.

    Raises ConfigError for a weight that is negative or not finite, and where all are 0.
    """
    weights = dict.fromkeys(tasks, 1.0)
    for task, weight in set_by_user.items():
        if not 0.0 <= weight < float("inf"):
            raise ConfigError(
                f"the weight of {task!r} must be a number from 0 upwards", setting="task_weights", got=weight
            )
        weights[task] = float(weight)
    if not any(weights.values()):
        raise ConfigError(
            "every selected task has the weight 0", setting="task_weights", remedy="give a task a positive weight"
        )
    return weights


def composite_params(
    tasks: Sequence[str], available: Sequence[str], params: Mapping[str, Mapping[str, Any]] | None = None
) -> dict[str, Mapping[str, Any]]:
    """Return the parameters of a composite among the tasks, the only task without usable defaults.

    Its members are the other tasks or, if there are none, all that are available, each with its own `params`.
    """
    if COMPOSITE not in tasks:
        return {}
    members = [name for name in tasks if name != COMPOSITE] or sorted(set(available) - {COMPOSITE})
    configs = {name: {"config": dict(config)} for name, config in (params or {}).items()}
    return {COMPOSITE: {"datasets": [{"name": name, **configs.get(name, {})} for name in members]}}


def make_sampler(
    plan: TaskPlan,
    settings: ReasoningSettings,
    *,
    instance: int,
    group_size: int,
    state: Mapping[str, Any] | None = None,
) -> TaskSampler:
    """Return the sampler of a stream of problems; `state` is what an earlier run's sampler returned."""
    curriculum, adaptive = settings.complexity_mode == "curriculum", settings.task_sampling == "adaptive"
    estimator = SignalEstimator(
        adjustable=plan.adjustable if curriculum else (),
        group_size=group_size,
        target=settings.curriculum_target_accuracy,
        state=state,
    )
    return TaskSampler(
        plan.weights,
        run_seed=settings.seed,
        instance=instance,
        params=plan.all_params,
        level=settings.complexity_level,
        random_levels=settings.complexity_mode == "random",
        estimator=estimator if curriculum or adaptive else None,
        adaptive=adaptive,
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
