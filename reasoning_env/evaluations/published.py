"""Compare the results of an evaluation with a preset's published results.

A published score of a task is the mean over problems and completions. The library's verifier scored the last answer of
each completion. The overall published score is the unweighted mean over tasks.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from ..problems.plan import EvaluationPlan
from ..problems.presets import PRESET_SIZE, Preset, load_preset, preset_path
from ..records import LibraryInfo
from .folder import PublishedMeans
from .summary import SummaryRow

PUBLISHED_TEMPERATURE = 0.6


@dataclass(frozen=True)
class PublishedPreset(Preset):
    """A preset with its published results.

    - `library`: the release of the library that was compared with the published runs.
    - `other_questions`: the tasks whose questions in this release differ from those of the published runs.
    - `other_scoring`: the tasks with the same questions, but a changed verifier.
    - `published`: mean scores by model and task.
    - `short`: the models' names for narrow columns.
    """

    source: str
    library: str
    other_questions: frozenset[str]
    other_scoring: frozenset[str]
    published: Mapping[str, Mapping[str, float]]
    short: Mapping[str, str]

    @property
    def comparable(self) -> frozenset[str]:
        """The tasks whose questions and scoring have not changed since the published runs."""
        return frozenset(self.tasks) - self.other_questions - self.other_scoring

    def difference(self, task: str) -> Literal["questions", "scoring"] | None:
        """Return what has changed in a task since the published runs; None if nothing has changed."""
        if task in self.other_questions:
            return "questions"
        return "scoring" if task in self.other_scoring else None


def load_published(name: str) -> PublishedPreset:
    """Read a preset with its published results from this package's files."""
    content = json.loads(preset_path(name).read_text(encoding="utf-8"))
    preset = load_preset(name)
    published = {
        model: {task: score for task, score in zip(preset.tasks, scores, strict=True) if score is not None}
        for model, scores in content["mean_score"].items()
    }
    return PublishedPreset(
        **vars(preset),
        source=content["source"],
        library=content["library"],
        other_questions=frozenset(content["other_questions"]),
        other_scoring=frozenset(content["other_scoring"]),
        published=published,
        short=content["short"],
    )


def remarks_on(
    plan: EvaluationPlan, preset: PublishedPreset, library: LibraryInfo, temperature: float | None
) -> Iterator[str]:
    """Yield a sentence for each reason why scores cannot be compared with the published scores.

    `temperature` is None if requests had no temperature.
    """
    if library.version != preset.library:
        yield (
            f"reasoning-gym {library.version} is installed, but only for version {preset.library} is it known which "
            "tasks changed since the published runs"
        )
    if temperature not in (None, PUBLISHED_TEMPERATURE):
        yield f"temperature is {temperature:g}; the published runs used {PUBLISHED_TEMPERATURE:g}"
    if plan.samples_per_task != PRESET_SIZE:
        yield f"this evaluation has {plan.samples_per_task} problems per task, the published runs have {PRESET_SIZE}"
    missing = set(preset.tasks).difference(task.name for task in library.tasks)
    if missing:
        yield f"the installed reasoning-gym lacks the tasks {', '.join(sorted(missing))}"


def mark_differences(preset: PublishedPreset, tasks: Mapping[str, SummaryRow]) -> None:
    """Set `differs` in the row of each task: what has changed since the published runs, or None."""
    for task, row in tasks.items():
        row["differs"] = preset.difference(task)


def compare_published(preset: PublishedPreset, tasks: Mapping[str, SummaryRow]) -> dict[str, PublishedMeans]:
    """Return each published model's mean scores: over the evaluated `tasks`, the comparable ones, and each category.

    The model with the highest mean over `preset.comparable` comes first. The means of a model ignore tasks for which
    the model has no result.
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
