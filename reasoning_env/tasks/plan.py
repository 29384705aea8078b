"""What a run draws its problems from: tasks, their parameters and weights, and the sampler that chooses among them."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..errors import ConfigError
from ..library_facts import gameable_tasks
from ..records import Group, LibraryInfo, TaskReport
from ..settings import ReasoningSettings
from .learning.adaptive import Observation, SteeredSampler, static_weights
from .learning.curriculum import Curriculum, CurriculumSettings
from .parameters import SpecRules, check_ranges, extremes
from .sampling import UniformSampler
from .selection import match_tasks, resolve_patterns, select_tasks, without_gameable

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TaskPlan:
    """All names of the library that are not excluded, those selected, and those of them that are trained on.

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
    """Read everything that the settings say of tasks; raises ConfigError for what cannot be meant or done."""
    tasks = select_tasks(library.tasks, settings.task_names, tuple(settings.exclude_tasks))
    excluded = {
        name for pattern in settings.exclude_tasks for name in match_tasks(library.tasks, pattern, "exclude_tasks")
    }
    training_tasks = _choose_training_tasks(settings, tasks)
    params = resolve_patterns(library.tasks, tasks, settings.params_by_pattern, "task_params")
    check_ranges(params)
    _check_plain(params)
    # Where levels vary, one that works is enough: the others are clamped to it.
    level = settings.complexity_level if settings.complexity_mode is None else 0.5
    ends = [(task, end, level) for task in params for end in extremes(params[task])]
    faults = await checker.check(ends) if ends else []
    if faults:
        raise ConfigError("task_params: " + "; ".join(faults))
    wanted = resolve_patterns(library.tasks, training_tasks, settings.weights_by_pattern, "task_weights")
    if settings.complexity_mode is not None:
        fixed = sorted(set(training_tasks) - library.adjustable)
        if fixed:
            logger.info("complexity_mode leaves these tasks as they are, having no levels: %s", ", ".join(fixed))
    return TaskPlan(
        available=tuple(task.name for task in library.tasks if task.name not in excluded),
        tasks=tasks,
        training_tasks=training_tasks,
        adjustable=library.adjustable,
        params=params,
        weights=static_weights(training_tasks, wanted),
    )


def _check_plain(params: Mapping[str, Mapping[str, Any]]) -> None:
    for task, wanted in params.items():
        try:
            json.dumps(wanted)
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"task_params: {task} has a value that is no number, text, list or mapping ({error}); write it as one"
            ) from error


def _choose_training_tasks(settings: ReasoningSettings, tasks: tuple[str, ...]) -> tuple[str, ...]:
    if not settings.exclude_gameable:
        return tasks
    reasons = gameable_tasks(strict_rewards=settings.strict_rewards)
    kept, excluded = without_gameable(tasks, settings.task_names, reasons)
    if excluded:
        logger.warning(
            "not trained on, because their verifiers pay for nonsense: %s; name a task in `tasks`, or set "
            "exclude_gameable to false, to train on it all the same",
            "; ".join(f"{name} ({reasons[name]})" for name in excluded),
        )
    if not kept:
        raise ConfigError(
            "exclude_gameable leaves no task to train on; name the tasks in `tasks`, or set exclude_gameable to false"
        )
    return kept


class TaskStream:
    """The sampler of a run with what it learns from; `sampler` goes to the stream of problems.

    `state` is what `state()` returned in an earlier run.
    """

    def __init__(
        self,
        plan: TaskPlan,
        settings: ReasoningSettings,
        *,
        instance: int,
        group_size: int,
        state: Mapping[str, Any] | None = None,
    ) -> None:
        state = state or {}
        rules = SpecRules(
            settings.seed,
            instance,
            plan.params,
            level=settings.complexity_level,
            random_levels=settings.complexity_mode == "random",
        )
        self._curriculum: Curriculum | None = None
        self.sampler: UniformSampler | SteeredSampler
        if settings.complexity_mode == "curriculum":
            target = CurriculumSettings(target=settings.curriculum_target_accuracy)
            self._curriculum = Curriculum(target, state.get("curriculum"))
        elif settings.task_sampling == "uniform":
            self.sampler = UniformSampler(
                plan.training_tasks, plan.available, run_seed=settings.seed, instance=instance, rules=rules
            )
            return
        self.sampler = SteeredSampler(
            plan.training_tasks,
            plan.available,
            run_seed=settings.seed,
            instance=instance,
            group_size=group_size,
            weights=None if settings.task_sampling == "adaptive" else plan.weights,
            curriculum=self._curriculum,
            adjustable=plan.adjustable,
            rules=rules,
            state=state.get("sampler"),
        )

    def observe(self, group: Group) -> None:
        """Learn from a scored group: how right it was, whatever length has cost, and whether what is sent differs."""
        if isinstance(self.sampler, SteeredSampler):
            verdicts = [rollout.verdict for rollout in group.rollouts if rollout.verdict is not None]
            successes = sum(verdict.score for verdict in verdicts)
            problem, signal = group.problem, group.has_signal
            self.sampler.observe(Observation(problem.task, problem.level, successes, len(verdicts), signal))

    def report(self) -> dict[str, TaskReport]:
        """What is known of each task; nothing where tasks and levels are drawn without regard to it."""
        return self.sampler.report() if isinstance(self.sampler, SteeredSampler) else {}

    def state(self) -> dict[str, Any]:
        """What a later run needs to go on from here, as JSON."""
        return {
            "sampler": self.sampler.state() if isinstance(self.sampler, SteeredSampler) else None,
            "curriculum": None if self._curriculum is None else self._curriculum.state(),
        }


def describe_run(settings: ReasoningSettings, plan: TaskPlan) -> dict[str, Any]:
    """What decides which problems a run draws, as JSON reads it back."""
    made_with = {
        "seed": settings.seed,
        "tasks": plan.training_tasks,
        "complexity_mode": settings.complexity_mode,
        "complexity_level": settings.complexity_level,
        "task_sampling": settings.task_sampling,
        "task_params": {task: dict(params) for task, params in plan.params.items()},
        "task_weights": dict(plan.weights),
    }
    return dict(json.loads(json.dumps(made_with)))
