"""Plan the tasks, the sampler and the evaluation of a run from its settings, and check the user's own tasks."""

from __future__ import annotations

import asyncio
import json
import logging
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..errors import ConfigError, GenerationError, InvalidReferenceError, ScoringError, did_you_mean
from ..records import LibraryInfo, Pool, ProblemRequest, ProblemSpec, Reason, Split, TaskInfo
from ..runtime.text import short
from ..settings import Decided, ReasoningSettings, fingerprint
from ..tasks import COMPOSITE, find_task, question_count
from .estimator import LEVELS, NO_LEVELS, SignalEstimator
from .evaluation_set import EvaluationSet
from .presets import FIRST_SEED, PRESET_SIZE, Preset, PresetSet, load_preset
from .references import Reference, hash_question
from .sampling import TaskSampler
from .selection import ALL_TASKS, match_tasks, resolve_patterns, select_tasks
from .state import ArmState

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TaskPlan:
    """The tasks of a run, by name.

    - `available`: all tasks that are not excluded.
    - `tasks`: the selected tasks.
    - `training_tasks`: the tasks for training, by default only tasks that reward reasoning.
    - `adjustable`: the tasks that have levels of difficulty.
    - `params`: the user's parameters, by task.
    - `weights`: the weight of each training task.
    """

    available: tuple[str, ...]
    tasks: tuple[str, ...]
    training_tasks: tuple[str, ...]
    adjustable: frozenset[str]
    params: Mapping[str, Mapping[str, object]]
    weights: Mapping[str, float]

    def __repr__(self) -> str:
        """Return a line with the number of selected tasks and the names of the first ones."""
        return f"<plan of {len(self.tasks)} of {len(self.available)} tasks: {reprlib.repr(self.tasks)}>"

    @property
    def all_params(self) -> dict[str, Mapping[str, object]]:
        """The parameters for generation, by task. `composite` gets the list of tasks to combine."""
        return {**self.params, **composite_params(self.training_tasks, self.available, self.params)}

    def override(self, spec: ProblemSpec, *, task: str | None, level: float | None) -> ProblemSpec:
        """Return the spec with this task and level; None keeps the old value. Raises ConfigError for invalid values."""
        if task is not None and task not in self.tasks:
            remedy = did_you_mean(str(task), self.tasks) or "add it to the setting `tasks`"
            raise ConfigError("must be one of the selected tasks", setting="task", got=short(task), remedy=remedy)
        if level is not None and not (isinstance(level, int | float) and 0.0 <= level <= 1.0):
            raise ConfigError("must be a number from 0 to 1", setting="level", got=level)
        if level is not None and task is not None and task not in self.adjustable:
            raise ConfigError(f"{task} has no levels", setting="level", got=level, remedy="omit the level")
        name = task or spec.task
        params = self.all_params.get(name, {})
        return spec.with_request(task=name, params=params, level=spec.level if level is None else level)


def select(
    settings: ReasoningSettings, available: Sequence[TaskInfo], adjustable: frozenset[str] = frozenset()
) -> TaskPlan:
    """Return the plan for the settings. Raises ConfigError for settings that contradict each other or match no task.

    This does not check parameters, because that needs the library: see `plan_tasks`.
    """
    excluded = match_tasks(available, settings.exclude_tasks, "exclude_tasks")
    # Sort the tasks, so that equal selections give equal problems, in whatever order the user wrote them.
    tasks = tuple(sorted(select_tasks(available, settings.tasks, settings.exclude_tasks)))
    training_tasks = _choose_training_tasks(settings, tasks, _left_out(settings, available))
    weights = resolve_patterns(available, training_tasks, settings.task_weights, "task_weights")
    return TaskPlan(
        available=tuple(task.name for task in available if task.name not in excluded),
        tasks=tasks,
        training_tasks=training_tasks,
        adjustable=adjustable,
        params=resolve_patterns(available, tasks, settings.task_params, "task_params"),
        weights=_weights(training_tasks, weights),
    )


async def plan_tasks(settings: ReasoningSettings, library: LibraryInfo, checker: Pool) -> TaskPlan:
    """Return the plan for the settings, with checked parameters. Raises ConfigError for an invalid setting."""
    plan = select(settings, library.tasks, library.adjustable)
    _log_gameable(settings, plan, _left_out(settings, library.tasks))
    await _check_params(plan.params, settings, checker)
    _log_without_levels(settings, plan.training_tasks, library)
    return plan


def _left_out(settings: ReasoningSettings, available: Sequence[TaskInfo]) -> dict[str, str]:
    """Return the tasks that training leaves out unless `tasks` names them, each with the reason."""
    reasons: dict[str, str] = {}
    if settings.rewards == "library":  # a comparison with the library needs all tasks
        return reasons
    for task in available:
        declared = find_task(task.name)
        nonsense = "" if settings.rewards == "strict" else declared.verifier_flaw
        reasons[task.name] = task.left_out or declared.answer_leak or nonsense
    return {task: reason for task, reason in reasons.items() if reason}


def _choose_training_tasks(
    settings: ReasoningSettings, tasks: tuple[str, ...], reasons: Mapping[str, str]
) -> tuple[str, ...]:
    """Leave out the tasks in `reasons` unless the setting `tasks` names them. If no task is left, return all tasks."""
    named = set(map(str.lower, settings.tasks))
    return tuple(name for name in tasks if name not in reasons or name.lower() in named) or tasks


def _log_gameable(settings: ReasoningSettings, plan: TaskPlan, reasons: Mapping[str, str]) -> None:
    """Log the tasks that give high scores without reasoning, and whether training uses these tasks."""
    excluded = [name for name in plan.tasks if name not in plan.training_tasks]
    if excluded:
        logger.info(
            "training leaves out %s: these tasks reward policies that do not reason; to train on one of them, name it "
            "in `tasks`; evaluations include these tasks",
            "; ".join(f"{name} ({reasons[name]})" for name in excluded),
            extra={"detail": True},
        )
    kept = [name for name in plan.training_tasks if name in reasons]
    if kept:
        logger.info(
            "`tasks` selects %s, so training uses these tasks, although they reward policies that do not reason",
            "; ".join(f"{name} ({reasons[name]})" for name in kept),
        )


def _log_without_levels(settings: ReasoningSettings, tasks: Sequence[str], library: LibraryInfo) -> None:
    """If the settings choose levels, log the tasks without levels. If no task has levels, warn."""
    asked = next(
        (name for name in ("complexity_mode", "complexity_level") if getattr(settings, name) is not None), None
    )
    without = sorted(set(tasks) - library.adjustable)
    if asked is None or not without:
        return
    severity = logging.WARNING if len(without) == len(tasks) else logging.INFO
    logger.log(severity, "%s does not change tasks without levels: %s", asked, ", ".join(without))


async def _check_params(params: Mapping[str, Mapping[str, object]], settings: ReasoningSettings, checker: Pool) -> None:
    """Raise ConfigError if `composite` has parameters, or if parameters are invalid or too long for a reference."""
    if params.get(COMPOSITE):
        raise ConfigError(
            f"{COMPOSITE} combines the other selected tasks and has no parameters of its own",
            setting="task_params",
            remedy="remove these parameters; {tasks} selects the tasks that are combined",
        )
    for task, task_params in params.items():
        for name, value in task_params.items():
            try:
                json.dumps(value)
            except (TypeError, ValueError, RecursionError) as error:
                raise ConfigError(
                    f"{task}.{name} must consist of numbers, strings, lists and mappings ({error})",
                    setting="task_params",
                ) from error
        try:
            Reference.parse(str(Reference(task, Split.TRAIN, 0, None, "", hash_question(""), task_params)))
        except InvalidReferenceError as error:
            raise ConfigError(f"{task}: {error.problem}", setting="task_params") from error
    # If levels vary, one valid level is enough, because the nearest valid level replaces an invalid level.
    levels = [settings.complexity_level if settings.complexity_mode is None else 0.5]
    if settings.eval_level == "training" and settings.evaluation_level not in levels:
        levels.append(settings.evaluation_level)
    if not params:
        return
    faults = await checker.check([(task, params[task], level) for level in levels for task in params])
    if faults:
        raise ConfigError("; ".join(faults), setting="task_params")


def _weights(tasks: Iterable[str], set_by_user: Mapping[str, float]) -> dict[str, float]:
    """Return the weight of each task, 1 by default. A task with the weight 0 is never drawn.

    Raises ConfigError if all weights are 0.
    """
    weights = {**dict.fromkeys(tasks, 1.0), **set_by_user}
    if not any(weights.values()):
        raise ConfigError(
            "every selected task has the weight 0", setting="task_weights", remedy="give a task a positive weight"
        )
    return weights


def composite_params(
    tasks: Sequence[str], available: Sequence[str], params: Mapping[str, Mapping[str, object]] | None = None
) -> dict[str, Mapping[str, object]]:
    """Return {"composite": parameters} if `tasks` contains `composite`; otherwise {}.

    `composite` combines the other tasks in `tasks`, each with its `params`. If there are no other tasks, `composite`
    combines all `available` tasks. Only tasks of reasoning-gym can be combined.
    """
    if COMPOSITE not in tasks:
        return {}
    # Names of tasks that are not from reasoning-gym have a slash.
    members = [name for name in tasks if name != COMPOSITE and "/" not in name]
    members = members or sorted(name for name in set(available) - {COMPOSITE} if "/" not in name)
    configs = {name: {"config": dict(config)} for name, config in (params or {}).items()}
    return {COMPOSITE: {"datasets": [{"name": name, **configs.get(name, {})} for name in members]}}


def make_sampler(
    plan: TaskPlan,
    settings: ReasoningSettings,
    *,
    instance: int,
    group_size: int,
    state: Mapping[str, Sequence[ArmState]] | None = None,
) -> TaskSampler:
    """Return the sampler for a stream of problems. `state` is the sampler's state in an earlier run."""
    curriculum = settings.complexity_mode == "curriculum"
    adaptive = settings.task_sampling == "adaptive"

    estimator = SignalEstimator(
        adjustable=plan.adjustable if curriculum else (),
        group_size=group_size,
        target=settings.curriculum_target_accuracy,
        questions=_question_counts(plan, settings),
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


def _question_counts(plan: TaskPlan, settings: ReasoningSettings) -> dict[tuple[str, float | None], float]:
    """Return the measured number of different questions, by task and level."""
    if settings.complexity_mode == "random":
        return {}
    return {
        (task, level): question_count(task, settings.complexity_level if level is None else level)
        for task in plan.training_tasks
        if task not in plan.params
        for level in (*LEVELS, *NO_LEVELS)
    }


def made_with(settings: ReasoningSettings, plan: TaskPlan, *parts: Decided, **more: object) -> dict[str, object]:
    """Return the settings that affect the given `parts` of a run, and the items of `more`, as JSON values.

    A run can continue an earlier run if both have equal settings. `tasks` has names instead of patterns, so that equal
    selections compare equal.
    """
    decided = fingerprint(settings, *parts)
    if "problems" in parts:
        decided |= {
            "tasks": plan.training_tasks,
            "task_params": {task: dict(params) for task, params in plan.params.items()},
            "task_weights": dict(plan.weights),
        }
    # `tasks` already leaves out the excluded tasks.
    decided = {name: value for name, value in decided.items() if name != "exclude_tasks"}
    return dict(json.loads(json.dumps({**decided, **more})))


BUSY_MACHINE_S = 600.0
"""Wall-clock limit of a trial generation: enough for a minute of processor time, even on a busy machine."""


async def check_own_tasks(tasks: Sequence[str], params: Mapping[str, Mapping[str, object]], workers: Pool) -> None:
    """Check each of the user's tasks: generate a problem twice, and score the task's own answer in the sandbox.

    Raises ConfigError, which names `task_modules`, in these cases:

    - Generation or the verifier raises an error, takes too long, or ends the worker process.
    - A problem has no question, or its dataset entry cannot be pickled.
    - A task's curriculum has no levels, or the task's config rejects a level.
    - The score of the expected answer is not a number from 0 to 1, or the verifier fails in the sandbox.

    Logs a warning for tasks that make different problems from the same seed.
    """
    tried = await asyncio.gather(*(_try(task, params.get(task, {}), workers) for task in tasks))
    faults = [each.fault for each in tried if each.fault is not None]
    # `check` has no limits of time and memory, so call it only for tasks that stayed within the limits of `_try`.
    sound = [(task, params.get(task, {}), None) for task, each in zip(tasks, tried, strict=True) if each.fault is None]
    faults += await workers.check(sound) if sound else []
    if faults:
        raise ConfigError("; ".join(faults), setting="task_modules")
    unlike = [task for task, each in zip(tasks, tried, strict=True) if not each.is_repeatable]
    if unlike:
        logger.warning(
            "these tasks can make different problems from the same seed: %s; problem references and evaluation sets "
            "are not reproducible; in the code of these tasks, draw random numbers only from random.Random(self.seed + "
            "index)",
            ", ".join(unlike),
        )


@dataclass(frozen=True)
class TrialResult:
    """The result of trying a task: an error message or None, and whether the same seed makes the same problem again."""

    fault: str | None = None
    is_repeatable: bool = True


async def _try(task: str, params: Mapping[str, object], workers: Pool) -> TrialResult:
    spec = ProblemSpec(ProblemRequest(task, 0, params, exact_seed=True), Split.TRAIN, 0)
    try:
        # The limit is one minute of processor time, like the default for evaluation problems.
        problem, again = [await workers.generate(spec, BUSY_MACHINE_S, cpu_s=60.0) for _ in range(2)]
        verdicts = [] if problem.answer is None else await workers.score(problem, [problem.answer])
    except (GenerationError, ScoringError) as error:
        return TrialResult(str(error))
    for verdict in verdicts:
        if verdict.reason is not Reason.SCORED:
            words = verdict.error or verdict.reason
            return TrialResult(f"{task}: in the sandbox, the verifier cannot score the expected answer ({words})")
    return TrialResult(is_repeatable=again.question == problem.question)


# ------------------------------------------------------------------ the evaluation


@dataclass(frozen=True)
class EvaluationPlan:
    """The problems of an evaluation, and the number of completions per problem (`repeats`).

    `seed` is the seed of the set. `params` has the training parameters, by task, if `eval_level` is `training`. If
    `system_prompt` is None, the training prompt is used.
    """

    tasks: tuple[str, ...]
    samples_per_task: int
    repeats: int
    seed: int
    params: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    preset: Preset | None = None
    system_prompt: str | None = None

    def make_set(self, generator: Pool, settings: ReasoningSettings, available: Sequence[str]) -> EvaluationSet:
        """Return the evaluation set, without generating problems.

        If `composite` is the only task, its problems combine all `available` tasks.
        """
        own = {**self.params, **composite_params(self.tasks, available, self.params)}
        return (EvaluationSet if self.preset is None else PresetSet)(
            generator,
            self.tasks,
            own if self.preset is None else self.preset.params,
            samples_per_task=self.samples_per_task,
            eval_seed=self.seed,
            deadline_s=settings.eval_generation_deadline_s,
            level=settings.evaluation_level,
        )


def plan_evaluation(
    settings: ReasoningSettings,
    library: LibraryInfo,
    selected: Sequence[str],
    params: Mapping[str, Mapping[str, object]],
) -> EvaluationPlan:
    """Plan the evaluation. `selected` are the training tasks, and `params` their parameters.

    Raises ConfigError in these cases:

    - A pattern of `eval_tasks` matches no task.
    - The preset lacks a task that the settings name, or has none of the selected tasks.
    - The settings request more problems of a task than the preset has.
    """
    patterns = ["*" if pattern.lower() == ALL_TASKS else pattern for pattern in settings.eval_tasks]
    # Sort the tasks, so that the same tasks give the same set.
    tasks = tuple(sorted(match_tasks(library.tasks, patterns, "eval_tasks") if patterns else selected))
    if settings.eval_preset is None:
        asked = params if settings.eval_level == "training" else {}
        own = {task: asked[task] for task in tasks if task in asked}
        samples = settings.num_eval_samples_per_task or 5
        return EvaluationPlan(tasks, samples, settings.eval_repeats or 1, settings.eval_seed, own)
    preset = load_preset(settings.eval_preset)
    _check_names(settings, library, preset)
    tasks = tuple(task for task in preset.tasks if task in tasks)
    if not tasks:
        raise ConfigError(
            f"{preset.name} has none of the selected tasks",
            setting="eval_preset",
            remedy="select other tasks, or remove the preset",
        )
    samples = settings.num_eval_samples_per_task or PRESET_SIZE
    if samples > PRESET_SIZE:
        raise ConfigError(
            f"{preset.name} has only {PRESET_SIZE} problems per task", setting="num_eval_samples_per_task", got=samples
        )
    return EvaluationPlan(
        tasks=tasks,
        samples_per_task=samples,
        repeats=settings.eval_repeats or preset.repeats,
        seed=FIRST_SEED,
        preset=preset,
        system_prompt=library.system_prompt,
    )


def _check_names(settings: ReasoningSettings, library: LibraryInfo, preset: Preset) -> None:
    """Raise ConfigError if the settings name a task that the preset lacks. Patterns that match it are allowed."""
    field = "eval_tasks" if settings.eval_tasks else "tasks"
    names = {task.name for task in library.tasks}
    named = [name.lower() for name in getattr(settings, field)]
    unknown = [name for name in named if name in names and name not in preset.tasks]
    if unknown:
        raise ConfigError(
            f"the preset {preset.name} has no problems of {', '.join(unknown)}",
            setting=field,
            remedy="remove the task, or evaluate without a preset",
        )
