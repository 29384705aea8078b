"""What settings or a preset make of an evaluation: tasks, numbers, level, prompt, and remarks.

**Presets** are protocols of published evaluations, with the published models' results. `rg-easy` and `rg-hard` are the
zero-shot runs of the Reasoning Gym paper: 50 problems a task of the library's own seeds (45 and up), served as they
come, the library's own system prompt, temperature 0.6, top_p 0.95 and 32,768 tokens a completion. A published score is
the mean over a task's problems and completions of what the plain verifier gives to the last answer; the headline is the
unweighted mean over tasks.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..errors import ConfigError, GenerationError
from ..library_facts import facts
from ..metrics.stats import LibraryInfo
from ..problems.plan import composite_params
from ..problems.selection import ALL_TASKS, match_tasks
from ..problems.stream import Generator
from ..records import Problem, ProblemSpec, Split
from ..settings import ReasoningSettings
from .problem_set import EvaluationSet

logger = logging.getLogger(__name__)

SIZE, FIRST_SEED = 50, 45
"""Of the published sets: problems a task, and the seed of the first of them."""
MAX_COMPLETION_TOKENS = 32_768
"""Of the published runs."""


@dataclass(frozen=True)
class Preset:
    """A protocol and what was published of it.

    `params` are the library's, by task, where they are not its defaults. Of the tasks in `other_questions`, release
    `library` of the library does not ask all that the published models were asked; in `other_scoring` it asks the same,
    and its verifiers have changed. `published` holds mean scores by model and task, `short` names for narrow columns.
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
        """The tasks whose questions and whose scoring are those of the published runs."""
        return frozenset(self.tasks) - self.other_questions - self.other_scoring

    def mark(self, tasks: Mapping[str, dict[str, Any]]) -> None:
        """Say in each row of a summary what `differs` from the published runs: questions, scoring, or None."""
        for task, row in tasks.items():
            other = "scoring" if task in self.other_scoring else None
            row["differs"] = "questions" if task in self.other_questions else other


def load_preset(name: str) -> Preset:
    """Read a preset from the package's own files."""
    content = json.loads((Path(__file__).with_name("published") / f"{name}.json").read_text())
    tasks = tuple(content["tasks"])
    published = {
        model: {task: score for task, score in zip(tasks, scores, strict=True) if score is not None}
        for model, scores in content["mean_score"].items()
    }
    fields = {field: content[field] for field in ("source", "library", "repeats", "params", "short")}
    return Preset(
        name=name,
        tasks=tasks,
        published=published,
        other_questions=frozenset(content["other_questions"]),
        other_scoring=frozenset(content["other_scoring"]),
        **fields,
    )


class PresetSet(EvaluationSet):
    """The problems of a preset's tasks: nothing is drawn again, whatever is wrong with it.

    A task that fails `most_failures` times in a row has only the problems that were generated until then, since each
    further attempt may take minutes.
    """

    library_seeds = True

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # Two problems of a task at a time, so that a task that keeps failing is given up soon.
        self._slots: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(2))
        self._failures_in_a_row = Counter[str]()

    async def _generate(self, task: str, number: int) -> Problem | None:
        failures = self._failures_in_a_row
        async with self._slots[task]:
            if failures[task] >= self.most_failures:
                return None
            try:
                problem = await self._generator.generate(self._spec(task, number, 0), self._deadline_s)
            except GenerationError as error:
                failures[task] += 1
                logger.warning("problem %d of %s is left out: %s", number, task, error)
                if failures[task] == self.most_failures:
                    logger.warning("the other problems of %s are left out too", task)
                return None
            if failures[task] < self.most_failures:
                failures[task] = 0
            return problem

    def _spec(self, task: str, number: int, attempt: int) -> ProblemSpec:
        # In most tasks, item k of seed s is item 0 of seed s + k.
        params = self._params.get(task, {})
        spec = ProblemSpec(task, FIRST_SEED + number, Split.EVAL, number, params=params, as_is=True)
        if facts(task).built_for_each_seed:
            return replace(spec, seed=FIRST_SEED, item=number, dataset_size=SIZE)
        return spec


@dataclass(frozen=True)
class EvalPlan:
    """What to evaluate on and how.

    `params` are training's, by task, where the evaluation asks what is trained. `system_prompt` is None where it is
    training's too. `remarks` are sentences about what is not as published.
    """

    tasks: tuple[str, ...]
    samples_per_task: int
    repeats: int
    params: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    preset: Preset | None = None
    system_prompt: str | None = None
    remarks: tuple[str, ...] = ()

    def make_set(self, generator: Generator, settings: ReasoningSettings, available: Sequence[str]) -> EvaluationSet:
        """Return the set, with nothing generated yet; `available` are all tasks that a composite may have."""
        set_class = EvaluationSet if self.preset is None else PresetSet
        own = {**self.params, **composite_params(self.tasks, available, self.params)}
        return set_class(
            generator,
            self.tasks,
            own if self.preset is None else self.preset.params,
            samples_per_task=self.samples_per_task,
            eval_seed=settings.eval_seed,
            deadline_s=settings.eval_generation_deadline_s,
            level=settings.eval_level,
        )


def choose_eval_tasks(tasks: Sequence[str], limit: int) -> tuple[str, ...]:
    """Return `limit` tasks, spread evenly over their order; all for -1, or where there are no more."""
    if limit < 0 or limit >= len(tasks):
        return tuple(tasks)
    return tuple(tasks[position * len(tasks) // limit] for position in range(limit))


def plan_evaluation(
    settings: ReasoningSettings,
    library: LibraryInfo,
    selected: Sequence[str],
    params: Mapping[str, Mapping[str, Any]],
) -> EvalPlan:
    """Read everything that the settings say of the evaluation; `selected` are the tasks of the run, `params` theirs.

    Raises ConfigError for tasks that there are not, and for such as a preset does not have.
    """
    patterns = ["*" if pattern.lower() == ALL_TASKS else pattern for pattern in settings.eval_tasks]
    # In the order of their names, so that the same tasks are the same set.
    tasks = tuple(sorted(match_tasks(library.tasks, patterns, "eval_tasks") if patterns else selected))
    if settings.eval_preset is None:
        chosen = choose_eval_tasks(tasks, settings.num_eval_tasks)
        asked = params if settings.eval_params == "training" else {}
        own = {task: asked[task] for task in chosen if task in asked}
        return EvalPlan(chosen, settings.num_eval_samples_per_task or 5, settings.eval_repeats or 1, own)
    preset = load_preset(settings.eval_preset)
    _check_names(settings, library, preset)
    tasks = tuple(task for task in preset.tasks if task in tasks)
    if not tasks:
        raise ConfigError(f"eval_preset: {preset.name} has none of the selected tasks; select others, or take it out")
    samples = settings.num_eval_samples_per_task or SIZE
    if samples > SIZE:
        raise ConfigError(f"num_eval_samples_per_task: {preset.name} has {SIZE} problems of each task; got {samples}")
    plan = EvalPlan(
        tasks=choose_eval_tasks(tasks, settings.num_eval_tasks),
        samples_per_task=samples,
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
            f"reasoning-gym is {library.version}; which tasks have the published questions and scoring is known of "
            f"{preset.library} only"
        )
    sampling = (("temperature", settings.eval_temperature, 0.6), ("top_p", settings.eval_top_p, 0.95))
    for name, value, published in sampling:
        if value != published:
            yield f"{name} is {value:g}; the published runs have {published:g}"
    if plan.samples_per_task != SIZE:
        yield f"{plan.samples_per_task} problems a task instead of {SIZE}: the published scores are those of all"
    missing = set(preset.tasks).difference(task.name for task in library.tasks)
    if missing:
        yield f"this library lacks {', '.join(sorted(missing))}"


def compare_published(preset: Preset, tasks: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return each published model's mean scores over the tasks that were evaluated, the best of `comparable` first.

    `tasks` are the rows of a summary. A model without a result for a task is averaged over the others.
    """
    scored = [task for task, row in tasks.items() if row["completions"]]
    means: dict[str, Any] = {}
    for model, scores in preset.published.items():
        here = {task: scores[task] for task in scored if task in scores}
        if not here:
            continue
        categories = {tasks[task]["category"] for task in here}
        means[model] = {
            "short": preset.short.get(model, model),
            "overall": _mean(here, here),
            "comparable": _mean(here, preset.comparable.intersection(here)),
            "categories": {
                name: _mean(here, [task for task in here if tasks[task]["category"] == name])
                for name in sorted(categories)
            },
            "tasks": here,
        }
    return dict(sorted(means.items(), key=lambda item: (-(item[1]["comparable"] or 0.0), -item[1]["overall"])))


def _mean(scores: Mapping[str, float], tasks: Collection[str]) -> float | None:
    return sum(scores[task] for task in tasks) / len(tasks) if tasks else None
