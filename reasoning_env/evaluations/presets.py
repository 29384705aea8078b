"""Presets: the protocols of published evaluations, with the published models' results.

`rg-easy` and `rg-hard` are the zero-shot runs of the Reasoning Gym paper: 50 problems a task with the library's own
seeds (45 and up), none of them rejected, the library's own system prompt, temperature 0.6, top_p 0.95 and 32,768 tokens
a completion. A published score is the mean over a task's problems and completions of the library's verifier, applied to
the last answer of a completion. The published headline is the unweighted mean over tasks.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Literal

from ..errors import GenerationError
from ..problems.giving_up import MAX_FAILURES
from ..records import Problem, ProblemRequest, ProblemSpec, Split
from ..tasks import find_task
from .folder import PublishedMeans
from .problem_set import EvaluationSet
from .summary import SummaryRow

logger = logging.getLogger(__name__)

PRESET_SIZE = 50
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
    params: Mapping[str, Mapping[str, object]]
    other_questions: frozenset[str]
    other_scoring: frozenset[str]
    published: Mapping[str, Mapping[str, float]]
    short: Mapping[str, str]

    @property
    def comparable(self) -> frozenset[str]:
        """The tasks whose questions and scoring are those of the published runs."""
        return frozenset(self.tasks) - self.other_questions - self.other_scoring

    def mark(self, tasks: Mapping[str, SummaryRow]) -> None:
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
    """The problems of a preset's tasks. No problem is rejected, and a failed problem is not replaced.

    A task that fails MAX_FAILURES times in a row has only the problems that were generated before, since each
    further attempt may take minutes.
    """

    library_seeds = True

    @cached_property
    def _slots(self) -> defaultdict[str, asyncio.Semaphore]:
        """Two problems of a task at a time, so that a task that keeps failing is given up soon."""
        return defaultdict(lambda: asyncio.Semaphore(2))

    @cached_property
    def _failures_in_a_row(self) -> Counter[str]:
        return Counter()

    def _depends_on_lower(self, task: str) -> bool:
        return False

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
        if find_task(task).built_for_each_seed:
            request = ProblemRequest(
                task, self._eval_seed, params, as_is=True, item=number, dataset_size=PRESET_SIZE, as_published=True
            )
        else:
            request = ProblemRequest(task, self._eval_seed + number, params, as_is=True, as_published=True)
        return ProblemSpec(request, Split.EVAL, number)


def compare_published(preset: Preset, tasks: Mapping[str, SummaryRow]) -> dict[str, PublishedMeans]:
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
