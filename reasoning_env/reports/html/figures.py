"""Compute the numbers that the page shows about all rollouts of a run.

The page contains the TypedDicts of this module as JSON for `assets/app.js`. Memory grows by 0.5 kB per group.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple, TypedDict

from ...dumps.format import DumpedGroup, DumpedRollout
from ...evaluations.comparison import ProblemScore
from ...evaluations.summary import (
    SummaryRow,
    TaskTally,
    bootstrap_interval,
    mean_of_known,
    pass_at_interval,
    summarise,
)
from ...metrics.outcomes import FORMAT_FAILURES, OUTCOMES, PARTIAL, RIGHT, WRONG
from ...metrics.recorder import RecentAnswers
from ...metrics.remarks import outcome_remarks
from ...problems.references import module_of, without_release
from ...problems.repeats import RepeatCounter
from ...records import Ending

OTHER = "other"
PAGE_OUTCOMES = (*OUTCOMES, OTHER)
"""The outcomes of completions, and OTHER for outcomes that only later versions of this package know."""


class Means(TypedDict):
    """Score and accuracy, each as [mean, low, high] with the 95 % interval, and the share of format failures."""

    score: list[float]
    accuracy: list[float]
    format: float


class ShownRow(Means):
    """The numbers that the page shows about a task or a whole run."""

    groups: int
    rollouts: int
    signal: float | None
    """The share of groups whose completions do not all have the same score."""
    level: float | None
    outcomes: list[int]
    """Number of rollouts with each outcome, in the order of PAGE_OUTCOMES."""
    tokens: float | None
    """Mean number of tokens of a completion; None unless the number is known for more than half of the completions."""
    characters: float | None
    plain: list[float] | None
    """[mean library score, mean score of all rollouts, number of rollouts whose verifier score and library score
    differ, number of rollouts with a library score]; None if no rollout has a library score."""


class TaskRow(ShownRow):
    """The numbers that the page shows about a task. `task` is the task's position in the page's `tasks`."""

    task: int
    same_answer: float | None
    """The share of the most frequent answer among the task's most recent answers."""


class CategoryRow(Means):
    category: str
    tasks: int


class HeatCell(TypedDict):
    """Numbers about a task's groups in one bin of levels: a tenth of [0, 1], or -1 for the library's defaults."""

    task: int
    bin: int
    score: list[float]
    groups: int


FigureCurve = dict[str, object]
"""The curves of all groups or of one task, as lists with a value for each point.

A point averages groups that are consecutive in the stream of problems.

- `groups`: the number of groups of a point
- `problem`, `step`, `time`: the position of each point on an axis, averaged over the point's groups; None instead of
  the list if a position is unknown. Times are seconds since the first group of the run.
- each name in CURVES: the mean over the groups of a point; None if unknown
- `outcomes`: maps the position of an outcome in PAGE_OUTCOMES to the number of rollouts at each point
"""
CURVES: Mapping[str, int] = {
    "score": 4,
    "accuracy": 4,
    "signal": 4,
    "level": 4,
    "truncated": 4,
    "tokens": 1,
    "characters": 1,
}
"""The values that the page draws as curves, each with its number of decimals."""


class TimelineData(TypedDict):
    """The curves of a run: of all groups, and of each task. An evaluation has empty curves."""

    all: FigureCurve
    tasks: list[FigureCurve]


class Lengths(TypedDict):
    """Numbers of rollouts by length. Each bin is [lower bound, number right, number partial, number wrong]."""

    unit: str
    bins: list[list[int]]


class RunFigures(ShownRow):
    failed: int
    of_tasks: Means
    """Score, accuracy and format failures, as unweighted means over tasks."""
    by_task: list[TaskRow]
    categories: list[CategoryRow]
    cells: list[HeatCell]
    time: TimelineData
    scores: list[int]
    """Counts of rollouts by score, for the scores 0, 0.05, ..., 1."""
    lengths: Lengths
    pass_at_k: list[list[float]]
    """[k, pass@k, low and high end of the 95 % interval] for each k."""
    problems: list[list[str | float | None]]
    """[task, index, seed, level, score, reference] for each problem of an evaluation; empty for other runs. The
    reference does not include the version of the library."""
    problems_left_out: int


def known_outcome(rollout: DumpedRollout) -> str:
    """Return the outcome of a rollout if it is in OUTCOMES, else OTHER."""
    return rollout.outcome if rollout.outcome in OUTCOMES else OTHER


def completion_characters(rollout: DumpedRollout) -> int:
    """Return the number of characters of the completion, including thinking."""
    return len(rollout.thinking) + len(rollout.completion)


class GroupFigures(NamedTuple):
    """The values of a group: means over its completions; None if unknown."""

    problem: int
    """The position of the problem in the stream."""
    step: int | None
    time: float | None
    score: float
    accuracy: float
    signal: float | None
    """0 if all completions have the same score, else 1; None for a single completion."""
    level: float | None
    truncated: float
    tokens: float | None
    characters: float
    outcomes: tuple[int, ...]
    """The outcome of each completion, as a position in PAGE_OUTCOMES."""
    corrected: tuple[bool, ...]
    """For each completion with a library score, whether the verifier's score differs from the library score."""

    @classmethod
    def of(cls, problem: int, group: DumpedGroup) -> GroupFigures:
        """Compute the figures of `group`, which must have at least one completion."""
        rollouts = group.rollouts
        return cls(
            problem=problem,
            step=group.step,
            time=group.time,
            score=fmean(group.scores),
            accuracy=fmean(rollout.correct for rollout in rollouts),
            signal=float(len(set(group.scores)) > 1) if len(rollouts) > 1 else None,
            level=group.level,
            truncated=fmean(Ending.of(rollout.finish_reason) is Ending.CUT for rollout in rollouts),
            tokens=mean_of_known([rollout.tokens for rollout in rollouts]),
            characters=fmean(map(completion_characters, rollouts)),
            outcomes=tuple(PAGE_OUTCOMES.index(known_outcome(rollout)) for rollout in rollouts),
            corrected=tuple(
                not math.isclose(rollout.judged_score, rollout.library_score, abs_tol=1e-9)
                for rollout in rollouts
                if rollout.library_score is not None
            ),
        )


def shown_row(tally: TaskTally, row: SummaryRow, groups: Sequence[GroupFigures]) -> ShownRow:
    """Return the page's numbers for a task or a run. `tally`, `row` and `groups` belong to this task or run."""
    plain: list[float] | None = None
    if "library_score" in row:
        corrected = [each for group in groups for each in group.corrected]
        plain = [row["library_score"], row["mean_score"], sum(corrected), len(corrected)]
    outcomes = Counter(outcome for group in groups for outcome in group.outcomes)
    return {
        **shown_means(row),
        "groups": tally.problems,
        "rollouts": tally.completions,
        "signal": mean_of_known([group.signal for group in groups]),
        "level": mean_of_known([group.level for group in groups]),
        "outcomes": [outcomes[outcome] for outcome in range(len(PAGE_OUTCOMES))],
        "tokens": tally.tokens.mean if tally.tokens.count * 2 > tally.completions else None,
        "characters": mean_of_known([group.characters for group in groups]),
        "plain": plain,
    }


def shown_means(row: SummaryRow) -> Means:
    """Return score, accuracy and format failures of a summary row with at least one scored completion."""
    return {
        "score": [row["mean_score"], *row["mean_score_interval"]],
        "accuracy": [row["accuracy"], *row["accuracy_interval"]],
        "format": sum(row["reasons"].get(word, 0.0) for word in FORMAT_FAILURES),
    }


def curve(groups: Sequence[GroupFigures], started: float) -> FigureCurve:
    """Return the curves of the given groups. `started` is the time of the run's first group."""
    points = split_into_points(sorted(groups, key=lambda group: group.problem))

    def means(name: str, digits: int, start: float = 0.0) -> list[float | None]:
        found = [mean_of_known([getattr(group, name) for group in point]) for point in points]
        return [None if mean is None else round(mean - start, digits) for mean in found]

    made: FigureCurve = {"groups": [len(point) for point in points]}
    for axis in ("problem", "step", "time"):
        places = means(axis, 2, started if axis == "time" else 0.0)
        made[axis] = None if None in places else places
    for name, digits in CURVES.items():
        made[name] = means(name, digits)
    outcomes = [Counter(outcome for group in point for outcome in group.outcomes) for point in points]
    made["outcomes"] = {
        outcome: [of_point[outcome] for of_point in outcomes] for outcome in sorted({*itertools.chain(*outcomes)})
    }
    return made


def split_into_points(groups: Sequence[GroupFigures]) -> list[Sequence[GroupFigures]]:
    """Split consecutive groups into 10 to 100 points of a curve; fewer than 10 groups get one point each.

    All points have nearly equal numbers of groups. From 80 groups on, each point has at least eight groups.
    """
    # The mean of few groups is noisy.
    number = min(len(groups), 100, max(10, len(groups) // 8))
    ends = [point * len(groups) // number for point in range(number + 1)] if number else []
    return [groups[start:end] for start, end in itertools.pairwise(ends)]


class Figures:
    """Computes the page's numbers about one run from the run's groups.

    If `keep_problems` is true, the mean score of each problem is kept, to compare evaluations.
    """

    def __init__(self, *, keep_problems: bool) -> None:
        self.tasks: defaultdict[str, TaskTally] = defaultdict(TaskTally)
        self.problems: dict[str, ProblemScore] = {}
        """The scores of an evaluation's problems. A key is a problem's reference without the version of the library."""
        self.problems_left_out = 0
        self.modules: dict[str, str | None] = {}
        """The module that defines each task; None for reasoning-gym's tasks."""
        self._keep_problems = keep_problems
        self._groups: defaultdict[str, list[GroupFigures]] = defaultdict(list)
        """The groups that have completions, by task."""
        self._number_of_groups = 0
        self._answers = RecentAnswers()
        self._repeats = RepeatCounter()
        self._scores = [0] * 21
        """Counts of rollouts by score, for the scores 0, 0.05, ..., 1."""
        self._tokens: Counter[tuple[int, str]] = Counter()
        self._characters: Counter[tuple[int, str]] = Counter()

    @property
    def rollouts(self) -> int:
        return sum(tally.completions for tally in self.tasks.values())

    @property
    def often_repeated(self) -> Mapping[str, float]:
        """The share of repeated questions in each task that has many; empty for evaluations."""
        return self._repeats.repetitive_tasks()

    @property
    def remarks(self) -> list[str]:
        """Sentences about likely mistakes in the run's setup, judging from the outcomes."""
        outcomes = sum((tally.outcomes for tally in self.tasks.values()), Counter())
        shares = {word: count / outcomes.total() for word, count in outcomes.items()}
        return list(outcome_remarks(shares, "max_token_length").values())

    def add(self, group: DumpedGroup) -> None:
        """Count a group. For a group without rollouts, count only the failed completions."""
        self.tasks[group.item_id].add(group)
        if group.item_id not in self.modules and group.reference is not None:
            self.modules[group.item_id] = module_of(group.reference)
        if not group.rollouts:
            return
        place = self._number_of_groups if group.index is None else group.index
        self._groups[group.item_id].append(GroupFigures.of(place, group))
        if not self._keep_problems and group.question is not None:
            self._repeats.add(group.item_id, group.question)
        self._number_of_groups += 1
        self._answers.add(group.item_id, [rollout.answer for rollout in group.rollouts])
        for rollout in group.rollouts:
            self._scores[round(20 * min(1.0, max(0.0, rollout.score)))] += 1
            correctness = RIGHT if rollout.correct else PARTIAL if rollout.judged_score > 0 else WRONG
            if rollout.tokens is not None:
                self._tokens[_length_bin(rollout.tokens), correctness] += 1
            self._characters[_length_bin(completion_characters(rollout)), correctness] += 1
        if self._keep_problems:
            self._keep_problem(group)

    def _keep_problem(self, group: DumpedGroup) -> None:
        if group.reference is None:
            return
        if len(self.problems) == 20_000:  # limit the memory and the size of the page
            self.problems_left_out += 1
        else:
            self.problems[without_release(group.reference)] = ProblemScore.of(group)

    def result(self, tasks: Sequence[str], categories: Mapping[str, str]) -> RunFigures:
        """Return the page's numbers as JSON values. A task is given as its position in `tasks`."""
        number = {task: position for position, task in enumerate(tasks)}
        scored = {task: tally for task, tally in sorted(self.tasks.items()) if tally.completions}
        summary = summarise(scored, categories, {})
        total = TaskTally()
        for tally in self.tasks.values():
            total.merge(tally)
        same_answers = self._answers.shares_of_most_frequent()
        by_tokens = total.tokens.count * 2 > total.completions
        every_group = [group for of_task in self._groups.values() for group in of_task]
        return {
            **shown_row(total, total.row(), every_group),
            "failed": total.failed,
            "of_tasks": shown_means(summary["overall"]),
            "by_task": [
                {
                    "task": number[task],
                    "same_answer": same_answers.get(task),
                    **shown_row(tally, summary["tasks"][task], self._groups[task]),
                }
                for task, tally in scored.items()
            ],
            "categories": [
                {"category": category, "tasks": row["tasks"], **shown_means(row)}
                for category, row in summary["categories"].items()
            ],
            "cells": [cell for task in scored for cell in _cells(number[task], self._groups[task])],
            "time": self._curves(number, every_group),
            "scores": self._scores,
            "lengths": {"unit": "tokens" if by_tokens else "characters", "bins": self._lengths(by_tokens)},
            "pass_at_k": [
                [k, summary["overall"]["pass_at"][str(k)], *pass_at_interval(scored.values(), k)]
                for k in _shown_ks(len(summary["overall"]["pass_at"]))
            ],
            "problems": [
                [number[problem.task], problem.index, problem.seed, problem.level, problem.score, reference]
                for reference, problem in self.problems.items()
            ],
            "problems_left_out": self.problems_left_out,
        }

    def _curves(self, numbers: Mapping[str, int], every_group: Sequence[GroupFigures]) -> TimelineData:
        """Return the curves of the run. `numbers` maps a task to its position in the page's `tasks`."""
        if self._keep_problems:  # the problems of an evaluation have no order
            return {"all": curve([], 0.0), "tasks": []}
        started = min((group.time for group in every_group if group.time is not None), default=0.0)
        tasks = sorted(self._groups.items())
        return {
            "all": curve(every_group, started),
            "tasks": [{"task": numbers[task], **curve(groups, started)} for task, groups in tasks],
        }

    def _lengths(self, by_tokens: bool) -> list[list[int]]:
        counts = self._tokens if by_tokens else self._characters
        bins = {position for position, _ in counts}
        return [
            [2**position, *(counts[position, word] for word in (RIGHT, PARTIAL, WRONG))]
            for position in range(min(bins, default=0), max(bins, default=-1) + 1)
        ]


def _shown_ks(most: int) -> Sequence[int]:
    """Return the values of k for which the page shows pass@k: 1 to `most`, or only powers of two if `most` > 32."""
    return range(1, most + 1) if most <= 32 else [2**power for power in range(most.bit_length())]


def _cells(task: int, groups: Sequence[GroupFigures]) -> Iterator[HeatCell]:
    """Yield a HeatCell for each bin of levels that contains groups, the lowest levels first."""
    by_bin: defaultdict[int, list[float]] = defaultdict(list)
    for group in groups:
        by_bin[_level_bin(group.level)].append(group.score)
    for level, scores in sorted(by_bin.items()):
        yield {"task": task, "bin": level, "score": [fmean(scores), *bootstrap_interval(scores)], "groups": len(scores)}


def _level_bin(level: float | None) -> int:
    """Return the bin of a level, from 0 to 9; -1 for None, which stands for the library's default parameters."""
    return -1 if level is None else min(9, max(0, int(10 * level)))


def _length_bin(length: int) -> int:
    """Return the exponent of the largest power of two that is at most the length."""
    return max(1, length).bit_length() - 1
