"""The summary of groups, by task, by category and over all: what terminal, results.json and page show.

A task's figures are means over its problems, with 95 % intervals from a bootstrap over them. Those of a category and
the headline are unweighted means over tasks, with intervals from a bootstrap over tasks. These are never narrower than
the tasks' own intervals allow, since a few tasks may have nearly equal means by chance. Completions that the server
never gave count nowhere but in `failed`. Scores and shares are in [0, 1]; unknown figures are None.

Each row is a mapping as `results.json` holds it: `problems` and `completions` that were scored, `failed` completions,
`not_made`, how many problems of the set could not be generated (0 until the end of the evaluation), `mean_score` and
`accuracy` (the share of correct completions), each with its 95 % interval `[low, high]` in `mean_score_interval` and
`accuracy_interval`, `pass_at` (by k, as text), `reasons` (the share of completions by outcome), `tokens` (mean of a
completion), `seconds` (mean for the completions of a problem) and, with a preset, `library_score` with its interval.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from ..dumps.reader import DumpedGroup
from ..metrics.intervals import Interval, bootstrap_interval, interval_of_means, pass_at_k
from ..metrics.outcomes import Tally

Row = dict[str, Any]
FIGURES = ("mean_score", "accuracy", "library_score")
"""The figures of a row that have an interval."""


@dataclass
class TaskTally:
    """What the groups of a task, or of all tasks, add up to; memory grows with the problems, not the completions."""

    figures: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in FIGURES})
    """Each problem's mean over its completions, by figure."""
    correct_counts: Counter[tuple[int, int]] = field(default_factory=Counter)
    """Problems by how many completions they have, and how many correct ones."""
    outcomes: Counter[str] = field(default_factory=Counter)
    tokens: Tally = field(default_factory=Tally)
    seconds: Tally = field(default_factory=Tally)
    failed: int = 0

    @property
    def problems(self) -> int:
        return len(self.figures["mean_score"])

    @property
    def completions(self) -> int:
        return self.outcomes.total()

    def add(self, group: DumpedGroup) -> None:
        """Count a group; one without rollouts only tells of completions that failed."""
        self.failed += group.failed or 0
        rollouts = group.rollouts
        if not rollouts:
            return
        correct = sum(rollout.correct for rollout in rollouts)
        self.figures["mean_score"].append(fmean(group.scores))
        self.figures["accuracy"].append(correct / len(rollouts))
        library_scores = [rollout.library_score for rollout in rollouts if rollout.library_score is not None]
        if library_scores:
            self.figures["library_score"].append(fmean(library_scores))
        self.correct_counts[len(rollouts), correct] += 1
        self.outcomes.update(rollout.outcome for rollout in rollouts)
        self.tokens.add(*(rollout.tokens for rollout in rollouts if rollout.tokens is not None))
        if rollouts[0].seconds is not None:
            self.seconds.add(rollouts[0].seconds)

    def merge(self, other: TaskTally) -> None:
        """Add what another tally has counted."""
        for name, values in other.figures.items():
            self.figures[name] += values
        self.correct_counts += other.correct_counts
        self.outcomes += other.outcomes
        self.tokens.merge(other.tokens)
        self.seconds.merge(other.seconds)
        self.failed += other.failed

    def row(self) -> Row:
        """Return counts and, where a completion was scored, figures."""
        row: Row = {"problems": self.problems, "completions": self.completions, "failed": self.failed}
        if not self.completions:
            return row
        for name, values in self.figures.items():
            if values:
                row |= {name: fmean(values), f"{name}_interval": list(bootstrap_interval(values))}
        most = max(completions for completions, _ in self.correct_counts)
        return row | {
            "pass_at": {str(k): fmean(self.pass_at(k)) for k in range(1, most + 1)},
            "reasons": {word: count / self.completions for word, count in self.outcomes.most_common()},
            "tokens": self.tokens.mean,
            "seconds": self.seconds.mean,
        }

    def pass_at(self, k: int) -> list[float]:
        """Return each problem's chance that one of `k` completions is correct; those with fewer have no say."""
        return [
            chance
            for (completions, correct), problems in sorted(self.correct_counts.items())
            if completions >= k
            for chance in [pass_at_k(completions, correct, k)] * problems
        ]


def tally_by_task(groups: Iterable[DumpedGroup]) -> dict[str, TaskTally]:
    """Return what the groups of each task add up to."""
    tallies: defaultdict[str, TaskTally] = defaultdict(TaskTally)
    for group in groups:
        tallies[group.item_id].add(group)
    return tallies


def summarise(
    tallies: Mapping[str, TaskTally], categories: Mapping[str, str], not_made: Mapping[str, int]
) -> dict[str, Any]:
    """Return rows `overall` and, by name, `categories` and `tasks`; all arguments are by task.

    A task without a single scored completion has a row of counts alone, and no part in any mean. Takes a second for
    hundreds of tasks, so keep it off an event loop.
    """
    tasks: dict[str, Row] = {}
    by_category: defaultdict[str, list[Row]] = defaultdict(list)
    for task in sorted({*tallies, *not_made}):
        category = categories.get(task, "other")
        row = tallies.get(task, TaskTally()).row()
        tasks[task] = {"category": category, "not_made": not_made.get(task, 0), **row}
        by_category[category].append(tasks[task])
    return {
        "overall": combine(tasks.values()),
        "categories": {name: combine(rows) for name, rows in sorted(by_category.items())},
        "tasks": tasks,
    }


def combine(rows: Collection[Mapping[str, Any]]) -> Row:
    """Return the row of several tasks: unweighted means of theirs, and sums of their counts."""
    row: Row = {"tasks": len(rows)}
    row |= {name: sum(of_task[name] for of_task in rows) for name in ("problems", "completions", "failed", "not_made")}
    scored = [of_task for of_task in rows if of_task["completions"]]
    if not scored:
        return row
    for name in FIGURES:
        having = [of_task for of_task in scored if name in of_task]
        if having:
            means = [of_task[name] for of_task in having]
            interval = interval_of_means(means, [of_task[f"{name}_interval"] for of_task in having])
            row |= {name: fmean(means), f"{name}_interval": list(interval)}
    shares: Counter[str] = Counter()
    for of_task in scored:
        shares.update(of_task["reasons"])
    ks = [k for k in scored[0]["pass_at"] if all(k in of_task["pass_at"] for of_task in scored)]
    return row | {
        "pass_at": {k: fmean(of_task["pass_at"][k] for of_task in scored) for k in ks},
        "reasons": {word: share / len(scored) for word, share in shares.most_common()},
        "tokens": _mean_of_known([of_task["tokens"] for of_task in scored]),
        "seconds": _mean_of_known([of_task["seconds"] for of_task in scored]),
    }


def pass_at_interval(tallies: Collection[TaskTally], k: int) -> Interval:
    """Return the 95 % interval of pass@k as the unweighted mean over tasks, all of which have `k` completions."""
    chances = [tally.pass_at(k) for tally in tallies if tally.completions]
    return interval_of_means([fmean(of_task) for of_task in chances], [bootstrap_interval(each) for each in chances])


def _mean_of_known(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return fmean(numbers) if numbers else None
