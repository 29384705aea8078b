"""Presets: protocols of published evaluations, with the published models' results.

`rg-easy` and `rg-hard` are the zero-shot runs of the Reasoning Gym paper: 50 problems a task of the library's own seeds
(45 and up), served as they come, the library's own system prompt, temperature 0.6, top_p 0.95 and 32,768 tokens a
completion. A published score is the mean over a task's problems and completions of what the plain verifier gives to the
last answer; the headline is the unweighted mean over tasks.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..errors import GenerationError
from ..library_facts import Rebuild, facts
from ..records import Problem, ProblemSpec, Split
from .problem_set import EVAL_FAILURES, EvaluationSet

logger = logging.getLogger(__name__)

FOLDER = Path(__file__).with_name("published")
SIZE, FIRST_SEED = 50, 45
AT_ONCE = 2
"""Problems of a task that are made at a time, so that one that keeps failing is given up soon."""
TEMPERATURE, TOP_P, MAX_COMPLETION_TOKENS = 0.6, 0.95, 32_768


@dataclass(frozen=True)
class Preset:
    """A protocol and what was published of it.

    `params` are the library's, by task, where they are not its defaults. Of the tasks in `identical`, release `library`
    of the library asks exactly what the published models were asked. `published` holds mean scores by model and task.
    """

    name: str
    source: str
    library: str
    repeats: int
    tasks: tuple[str, ...]
    params: Mapping[str, Mapping[str, Any]]
    identical: frozenset[str]
    published: Mapping[str, Mapping[str, float]]


def load_preset(name: str) -> Preset:
    """Read a preset from the package's own files."""
    found = json.loads((FOLDER / f"{name}.json").read_text())
    tasks = tuple(found["tasks"])
    published = {
        model: {task: score for task, score in zip(tasks, scores, strict=True) if score is not None}
        for model, scores in found["mean_score"].items()
    }
    identical = frozenset(tasks).difference(found["not_identical"])
    fields = {field: found[field] for field in ("source", "library", "repeats", "params")}
    return Preset(name=name, tasks=tasks, identical=identical, published=published, **fields)


class PresetSet(EvaluationSet):
    """The problems of a preset's tasks: nothing is drawn again, whatever is wrong with it.

    A task that fails EVAL_FAILURES times in a row has only the problems that were made by then: such may take minutes
    each.
    """

    library_seeds = True

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._turns: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(AT_ONCE))
        self._failures_in_a_row = Counter[str]()

    async def _make(self, task: str, number: int) -> Problem | None:
        failures = self._failures_in_a_row
        async with self._turns[task]:
            if failures[task] >= EVAL_FAILURES:
                return None
            try:
                problem = await self._generator.generate(self._spec(task, number, 0), self._deadline_s)
            except GenerationError as error:
                failures[task] += 1
                logger.warning("problem %d of %s is left out: %s", number, task, error)
                if failures[task] == EVAL_FAILURES:
                    logger.warning("the other problems of %s are left out too", task)
                return None
            if failures[task] < EVAL_FAILURES:
                failures[task] = 0
            return problem

    def _spec(self, task: str, number: int, attempt: int) -> ProblemSpec:
        # In most tasks, item k of seed s is item 0 of seed s + k.
        params = self._params.get(task, {})
        spec = ProblemSpec(task, FIRST_SEED + number, Split.EVAL, number, params=params, as_is=True)
        if facts(task).rebuild is Rebuild.FOR_EACH_SEED:
            return replace(spec, seed=FIRST_SEED, item=number, dataset_size=SIZE)
        return spec


def compare_published(preset: Preset, tasks: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return each published model's mean scores over the tasks that were evaluated, best first.

    `tasks` are the rows of a summary. A model without a result for a task is averaged over the others.
    """
    scored = [task for task, row in tasks.items() if row["completions"]]
    found: dict[str, Any] = {}
    for model, scores in preset.published.items():
        here = {task: scores[task] for task in scored if task in scores}
        if not here:
            continue
        categories = {tasks[task]["category"] for task in here}
        found[model] = {
            "overall": _mean(here, here),
            "identical": _mean(here, preset.identical.intersection(here)),
            "categories": {
                name: _mean(here, [task for task in here if tasks[task]["category"] == name])
                for name in sorted(categories)
            },
            "tasks": here,
        }
    return dict(sorted(found.items(), key=lambda item: -item[1]["overall"]))


def _mean(scores: Mapping[str, float], tasks: Collection[str]) -> float | None:
    return sum(scores[task] for task in tasks) / len(tasks) if tasks else None
