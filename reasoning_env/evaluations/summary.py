"""The statistics of an evaluation: per task, per category and overall.

A task's figures are means over its problems, with intervals from a bootstrap over them; those of a category and the
headline are unweighted means over tasks, with intervals from a bootstrap over tasks, which are never narrower than the
tasks' own intervals allow: a few tasks may have nearly equal means by chance. Completions that the server never
gave count nowhere but in `failed`. Scores and shares are in [0, 1]; a figure that cannot be told is None.

Each row is a mapping as `results.json` holds it: `problems` and `completions` that were scored, `failed` completions,
`not_made`, how many problems of the set could not be generated (0 until the end, when that is known),
`mean_score` and `accuracy` (the share of completions that score 0.99 or more), each with its 95 % interval
`[low, high]` in `mean_score_interval` and `accuracy_interval`, `pass_at` (by k, as text), `reasons` (the share of
completions by what became of them), `tokens` (mean of a completion), `seconds` (mean for the completions of a problem)
and, with a preset, `library_score` with its interval.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ..dumps.reader import DumpedGroup, DumpedRollout
from ..statistics import bootstrap_interval, interval_of_means, pass_at_k
from .samples import RIGHT, is_right, outcome_of

Row = dict[str, Any]
MEANS = ("mean_score", "accuracy", "library_score")
"""Figures that have an interval."""


def summarise(
    samples: Iterable[DumpedGroup], categories: Mapping[str, str], not_made: Mapping[str, int]
) -> dict[str, Any]:
    """Return rows `overall` and, by name, `categories` and `tasks`; both mapping arguments are by task.

    A task without a single scored completion has a row of counts alone, and no part in any mean. Takes a second for
    hundreds of tasks, so keep it off an event loop.
    """
    by_task: defaultdict[str, list[DumpedGroup]] = defaultdict(list)
    for sample in samples:
        by_task[sample.item_id].append(sample)
    tasks = {
        task: {"category": categories.get(task, "other"), "not_made": not_made.get(task, 0), **_task_row(by_task[task])}
        for task in sorted({*by_task, *not_made})
    }
    by_category: defaultdict[str, list[Row]] = defaultdict(list)
    for row in tasks.values():
        by_category[row["category"]].append(row)
    return {
        "overall": combine(tasks.values()),
        "categories": {name: combine(rows) for name, rows in sorted(by_category.items())},
        "tasks": tasks,
    }


def combine(rows: Collection[Mapping[str, Any]]) -> Row:
    """Return the row of several tasks: unweighted means of theirs, and sums of their counts."""
    counts: Row = {"tasks": len(rows)}
    counts |= {name: sum(row[name] for row in rows) for name in ("problems", "completions", "failed", "not_made")}
    scored = [row for row in rows if row["completions"]]
    return counts | _means(scored) | _combined_shares(scored)


def _task_row(samples: Sequence[DumpedGroup]) -> Row:
    scored = [sample for sample in samples if sample.rollouts]
    rollouts = [rollout for sample in scored for rollout in sample.rollouts]
    row: Row = {
        "problems": len(scored),
        "completions": len(rollouts),
        "failed": sum(sample.failed or 0 for sample in samples),
    }
    if not rollouts:
        return row
    words = Counter(map(outcome_of, rollouts))
    return row | {
        **_means([_problem_means(sample.rollouts) for sample in scored]),
        "pass_at": _pass_at(scored),
        "reasons": {word: count / len(rollouts) for word, count in words.most_common()},
        "tokens": _mean([rollout.tokens for rollout in rollouts]),
        "seconds": _mean([sample.rollouts[0].seconds for sample in scored]),
    }


def _problem_means(rollouts: Sequence[DumpedRollout]) -> dict[str, float | None]:
    return {
        "mean_score": _mean([rollout.score for rollout in rollouts]),
        "accuracy": _mean([float(outcome_of(rollout) == RIGHT) for rollout in rollouts]),
        "library_score": _mean([rollout.library_score for rollout in rollouts]),
    }


def _means(units: Sequence[Mapping[str, Any]]) -> Row:
    """Return each figure's mean over problems or tasks, with its interval; leaves out figures none has."""
    row: Row = {}
    for name in MEANS:
        values = [unit[name] for unit in units if unit.get(name) is not None]
        if values:
            within = [unit[f"{name}_interval"] for unit in units if f"{name}_interval" in unit]
            interval = interval_of_means(values, within) if within else bootstrap_interval(values)
            row |= {name: sum(values) / len(values), f"{name}_interval": list(interval)}
    return row


def _pass_at(samples: Sequence[DumpedGroup]) -> dict[str, float]:
    """Return pass@k for every k up to the number of completions; problems with fewer than k have no say."""
    found: dict[str, float] = {}
    for k in range(1, max(len(sample.rollouts) for sample in samples) + 1):
        enough = [sample.rollouts for sample in samples if len(sample.rollouts) >= k]
        chances = [pass_at_k(len(some), sum(is_right(one.score) for one in some), k) for some in enough]
        found[str(k)] = sum(chances) / len(chances)
    return found


def _combined_shares(rows: Sequence[Mapping[str, Any]]) -> Row:
    if not rows:
        return {}
    words = Counter[str]()
    for row in rows:
        words.update(row["reasons"])
    ks = [k for k in rows[0]["pass_at"] if all(k in row["pass_at"] for row in rows)]
    return {
        "pass_at": {k: sum(row["pass_at"][k] for row in rows) / len(rows) for k in ks},
        "reasons": {word: share / len(rows) for word, share in words.most_common()},
        "tokens": _mean([row["tokens"] for row in rows]),
        "seconds": _mean([row["seconds"] for row in rows]),
    }


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
