"""The plan of an evaluation, from the settings or from a preset: tasks, numbers, level, prompt, and remarks.

**Presets** are protocols of published evaluations, with the published models' results. `rg-easy` and `rg-hard` are the
zero-shot runs of the Reasoning Gym paper: 50 problems a task with the library's own seeds (45 and up), none of them
rejected, the library's own system prompt, temperature 0.6, top_p 0.95 and 32,768 tokens a completion. A published score
is the mean over a task's problems and completions of the library's verifier, applied to the last answer of a
completion. The published headline is the unweighted mean over tasks.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from ..errors import ConfigError, GenerationError
from ..library_facts import facts
from ..metrics.stats import LibraryInfo
from ..problems.giving_up import MAX_FAILURES
from ..problems.plan import composite_params
from ..problems.selection import ALL_TASKS, match_tasks
from ..problems.stream import Generator
from ..records import Problem, ProblemRequest, ProblemSpec, Split
from ..settings import ReasoningSettings
from .folder import PublishedMeans
from .problem_set import EvaluationSet
from .summary import Row

logger = logging.getLogger(__name__)

SIZE = 50
"""Problems of a task in the published sets."""
FIRST_SEED = 45
"""Seed of a task's first problem in the published sets."""
MAX_COMPLETION_TOKENS = 32_768
"""Most tokens of a completion in the published runs."""


@dataclass(frozen=True)
class Preset:
    """A protocol and its published results.

    `params` holds the parameters, by task, that are not the library's defaults. `library` is a release of the library:
    in the tasks of `other_questions` the release asks other questions than the published models were asked, in the
    tasks of `other_scoring` the release asks the same questions with changed verifiers. `published` holds mean scores
    by model and task, `short` the models' names for narrow columns.
    """

    name: str
    source: str
    library: str
    repeats: int
    tasks: tuple[str, ...]
    params: Mapping[str, Mapping[str, Any]]
    other_questions: frozenset[str]
    other_scoring: frozenset[str]
    published: Mapping[str, Mapping[str, float]]
    short: Mapping[str, str]

    @property
    def comparable(self) -> frozenset[str]:
        """The tasks whose questions and scoring are those of the published runs."""
        return frozenset(self.tasks) - self.other_questions - self.other_scoring

    def mark(self, tasks: Mapping[str, Row]) -> None:
        """Write into each task's row what `differs` from the published runs."""
        for task, row in tasks.items():
            row["differs"] = self._difference(task)

    def _difference(self, task: str) -> Literal["questions", "scoring"] | None:
        if task in self.other_questions:
            return "questions"
        return "scoring" if task in self.other_scoring else None


def load_preset(name: str) -> Preset:
    """Read a preset from this package's files."""
    content = json.loads((Path(__file__).with_name("published") / f"{name}.json").read_text())
    tasks = tuple(content["tasks"])
    published = {
        model: {task: score for task, score in zip(tasks, scores, strict=True) if score is not None}
        for model, scores in content["mean_score"].items()
    }
    return Preset(
        name=name,
        source=content["source"],
        library=content["library"],
        repeats=content["repeats"],
        tasks=tasks,
        params=content["params"],
        other_questions=frozenset(content["other_questions"]),
        other_scoring=frozenset(content["other_scoring"]),
        published=published,
        short=content["short"],
    )


class PresetSet(EvaluationSet):
    """The problems of a preset's tasks. No problem is rejected, and no other problem is drawn for a failure.

    A task that fails MAX_FAILURES times in a row has only the problems that were generated before, since each
    further attempt may take minutes.
    """

    library_seeds = True

    def __init__(
        self,
        generator: Generator,
        tasks: Sequence[str],
        params: Mapping[str, Mapping[str, Any]],
        *,
        samples_per_task: int,
        deadline_s: float,
    ) -> None:
        super().__init__(
            generator,
            tasks,
            params,
            samples_per_task=samples_per_task,
            eval_seed=FIRST_SEED,
            deadline_s=deadline_s,
        )
        # Two problems of a task at a time, so that a task that keeps failing is given up soon.
        self._slots: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(2))
        self._failures_in_a_row = Counter[str]()

    async def _generate(self, task: str, number: int) -> Problem | None:
        failures = self._failures_in_a_row
        async with self._slots[task]:
            if failures[task] >= MAX_FAILURES:
                return None
            try:
                problem = await self._generator.generate(self._spec(task, number, 0), self._deadline_s)
            except GenerationError as error:
                failures[task] += 1
                logger.warning("problem %d of %s is left out: %s", number, task, error)
                if failures[task] == MAX_FAILURES:
                    logger.warning("the other problems of %s are left out too", task)
                return None
            if failures[task] < MAX_FAILURES:
                failures[task] = 0
            return problem

    def _spec(self, task: str, number: int, attempt: int) -> ProblemSpec:
        # In most tasks, item k of seed s is item 0 of seed s + k.
        params = self._params.get(task, {})
        if facts(task).built_for_each_seed:
            request = ProblemRequest(task, FIRST_SEED, params, as_is=True, item=number, dataset_size=SIZE)
        else:
            request = ProblemRequest(task, FIRST_SEED + number, params, as_is=True)
        return ProblemSpec(request, Split.EVAL, number)


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


def choose_eval_tasks(tasks: Sequence[str], limit: int) -> tuple[str, ...]:
    """Return `limit` tasks, spread evenly over their order; all tasks for -1 or a larger limit than their number."""
    if limit < 0 or limit >= len(tasks):
        return tuple(tasks)
    return tuple(tasks[position * len(tasks) // limit] for position in range(limit))


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
    samples = settings.num_eval_samples_per_task or SIZE
    if samples > SIZE:
        raise ConfigError(
            f"{preset.name} has {SIZE} problems of each task", setting="num_eval_samples_per_task", got=samples
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
    """Yield the differences from the protocol, for which figures are not comparable with published figures."""
    if library.version != preset.library:
        yield (
            f"reasoning-gym is {library.version}; the tasks with the published questions and scoring are known for "
            f"{preset.library} only"
        )
    if settings.eval_temperature != 0.6:
        yield f"temperature is {settings.eval_temperature:g}; the published runs have 0.6"
    if settings.eval_top_p != 0.95:
        yield f"top_p is {settings.eval_top_p:g}; the published runs have 0.95"
    if plan.samples_per_task != SIZE:
        yield f"{plan.samples_per_task} problems a task; the published scores are means over {SIZE}"
    missing = set(preset.tasks).difference(task.name for task in library.tasks)
    if missing:
        yield f"this library lacks {', '.join(sorted(missing))}"


def compare_published(preset: Preset, tasks: Mapping[str, Row]) -> dict[str, PublishedMeans]:
    """Return each published model's mean scores over the evaluated tasks, the best by `comparable` first.

    `tasks` are the rows of a summary. The means of a model without a result for a task are over the other tasks.
    """
    scored = [task for task, row in tasks.items() if row["completions"]]
    means: dict[str, PublishedMeans] = {}
    for model, scores in preset.published.items():
        here = {task: scores[task] for task in scored if task in scores}
        if not here:
            continue
        categories = {tasks[task]["category"] for task in here}
        means[model] = {
            "short": preset.short.get(model, model),
            "overall": fmean(here.values()),
            "comparable": _mean(here, preset.comparable.intersection(here)),
            "categories": {
                name: _mean(here, [task for task in here if tasks[task]["category"] == name])
                for name in sorted(categories)
            },
            "tasks": here,
        }
    return dict(sorted(means.items(), key=lambda item: (-(item[1]["comparable"] or 0.0), -item[1]["overall"])))


def _mean(scores: Mapping[str, float], tasks: Collection[str]) -> float | None:
    return fmean(scores[task] for task in tasks) if tasks else None
