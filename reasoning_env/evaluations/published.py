"""Put the published results of a preset beside the results of an evaluation."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from statistics import fmean

from ..problems.presets import Preset
from .folder import PublishedMeans
from .summary import SummaryRow


def mark_differences(preset: Preset, tasks: Mapping[str, SummaryRow]) -> None:
    """Write into each task's row of a summary what `differs` from the published runs."""
    for task, row in tasks.items():
        row["differs"] = preset.difference(task)


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
