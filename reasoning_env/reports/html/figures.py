"""The page's figures over all rollouts of a run; means and intervals come from `evaluations/summary.py`.

The records here are JSON of the page, which `assets/app.js` reads. Memory grows with tasks and problems, not with
completions.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import TypedDict

from ...dumps.reader import DumpedGroup, DumpedRollout
from ...evaluations.summary import Row, TaskTally, pass_at_interval, summarise
from ...metrics.intervals import bootstrap_interval
from ...metrics.outcomes import FORMAT_FAILURES, OUTCOMES, PARTIAL, RIGHT, WRONG, Tally
from ...problems.references import without_release
from ..comparison import ProblemScore

OTHER = "other"
PAGE_OUTCOMES = (*OUTCOMES, OTHER)
"""The outcomes of completions, and OTHER for outcomes of a later version."""


class Means(TypedDict):
    """A score and an accuracy, each as [mean, low, high], and the share of completions with a format failure."""

    score: list[float]
    accuracy: list[float]
    format: float


class ShownRow(Means):
    """A task, or a whole run."""

    groups: int
    rollouts: int
    signal: float | None
    """The share of groups whose scores differ."""
    level: float | None
    outcomes: list[int]
    """Rollouts by outcome, in the order of PAGE_OUTCOMES."""
    tokens: float | None
    """Mean tokens of a completion; None where less than half of the completions say their tokens."""
    characters: float | None
    plain: list[float] | None
    """Library score, mean score, rollouts whose two scores differ, and rollouts that have both."""


class TaskRow(ShownRow):
    """A task, by its position in the page's `tasks`."""

    task: int


class CategoryRow(Means):
    category: str
    tasks: int


class Cell(TypedDict):
    """The groups of a task in a tenth of the scale of levels; -1 stands for the library's defaults."""

    task: int
    bin: int
    score: list[float]
    groups: int


class TimelineData(TypedDict):
    """Figures over the stream of problems: `all` has a record for each stretch, `levels` a list for each task."""

    positions: list[int]
    width: int
    all: list[dict[str, float | None]]
    levels: list[dict[str, object]]


class Lengths(TypedDict):
    """Rollouts by length: bins are [shortest length, right, partial, wrong]."""

    unit: str
    bins: list[list[int]]


class RunFigures(ShownRow):
    failed: int
    of_tasks: Means
    """Unweighted means over tasks."""
    by_task: list[TaskRow]
    categories: list[CategoryRow]
    cells: list[Cell]
    time: TimelineData
    scores: list[int]
    """Rollouts by score, in steps of a twentieth."""
    lengths: Lengths
    pass_at_k: list[list[float]]
    """[k, pass@k, low, high]"""
    problems: list[list[str | float | None]]
    """Of an evaluation: [task, index, seed, level, score, reference without release]."""
    problems_left_out: int


def known_outcome(rollout: DumpedRollout) -> str:
    """Return one of PAGE_OUTCOMES."""
    return rollout.outcome if rollout.outcome in OUTCOMES else OTHER


def length_of(rollout: DumpedRollout) -> int:
    """Return the characters of the completion, thinking included."""
    return len(rollout.thinking) + len(rollout.conversation[-1]["content"])


@dataclass
class GroupTally(TaskTally):
    """A tally with the figures that only the page shows."""

    signal: Tally = field(default_factory=Tally)
    """1 for each group whose scores differ, 0 for each other group; groups of one rollout are left out."""
    level: Tally = field(default_factory=Tally)
    characters: Tally = field(default_factory=Tally)
    corrected: Tally = field(default_factory=Tally)
    """1 for each rollout whose library score differs, 0 for each rollout whose library score is the same."""

    def add(self, group: DumpedGroup) -> None:
        super().add(group)
        rollouts = group.rollouts
        if len(rollouts) > 1:
            self.signal.add(float(len(set(group.scores)) > 1))
        if group.level is not None:
            self.level.add(group.level)
        self.characters.add(*map(length_of, rollouts))
        for rollout in rollouts:
            if rollout.library_score is not None:
                differs = not math.isclose(rollout.judged_score, rollout.library_score, abs_tol=1e-9)
                self.corrected.add(float(differs))

    def merge(self, other: TaskTally) -> None:
        super().merge(other)
        if isinstance(other, GroupTally):
            self.signal.merge(other.signal)
            self.level.merge(other.level)
            self.characters.merge(other.characters)
            self.corrected.merge(other.corrected)

    def shown(self, row: Row) -> ShownRow:
        """Return the page's form of this tally's row."""
        words = Counter({word: count for word, count in self.outcomes.items() if word in OUTCOMES})
        words[OTHER] = self.outcomes.total() - words.total()
        plain: list[float] | None = None
        if "library_score" in row:
            corrected = int(self.corrected.total)
            plain = [row["library_score"], row["mean_score"], corrected, self.corrected.count]
        return {
            **shown_means(row),
            "groups": self.problems,
            "rollouts": self.completions,
            "signal": self.signal.mean,
            "level": self.level.mean,
            "outcomes": [words[word] for word in PAGE_OUTCOMES],
            "tokens": row["tokens"] if self.tokens.count * 2 > self.completions else None,
            "characters": self.characters.mean,
            "plain": plain,
        }


def shown_means(row: Row) -> Means:
    """Return the part of a row with a scored completion that the page always shows."""
    return {
        "score": [row["mean_score"], *row["mean_score_interval"]],
        "accuracy": [row["accuracy"], *row["accuracy_interval"]],
        "format": sum(row["reasons"].get(word, 0.0) for word in FORMAT_FAILURES),
    }


@dataclass
class Stretch:
    """Tallies over the groups of a stretch of the stream of problems."""

    score: Tally = field(default_factory=Tally)
    accuracy: Tally = field(default_factory=Tally)
    signal: Tally = field(default_factory=Tally)
    level: Tally = field(default_factory=Tally)

    def add(self, group: DumpedGroup) -> None:
        self.score.add(fmean(group.scores))
        self.accuracy.add(fmean(rollout.correct for rollout in group.rollouts))
        if len(group.rollouts) > 1:
            self.signal.add(float(len(set(group.scores)) > 1))
        if group.level is not None:
            self.level.add(group.level)

    def merge(self, other: Stretch) -> None:
        for name, tally in vars(self).items():
            tally.merge(getattr(other, name))


class Timeline:
    """Tallies over stretches of the stream of problems; the width of stretches doubles when there are too many."""

    def __init__(self) -> None:
        self.width = 1
        self.stretches: defaultdict[int, Stretch] = defaultdict(Stretch)
        self.levels: defaultdict[tuple[str, int], Tally] = defaultdict(Tally)
        """By task and stretch."""

    def add(self, position: int, group: DumpedGroup) -> None:
        while position // self.width >= 100:  # more stretches could not be told apart on the page
            self._widen()
        stretch = position // self.width
        self.stretches[stretch].add(group)
        if group.level is not None:
            self.levels[group.item_id, stretch].add(group.level)

    def _widen(self) -> None:
        """Double the width of stretches."""
        self.width *= 2
        stretches: defaultdict[int, Stretch] = defaultdict(Stretch)
        for number, stretch in self.stretches.items():
            stretches[number // 2].merge(stretch)
        self.stretches = stretches
        levels: defaultdict[tuple[str, int], Tally] = defaultdict(Tally)
        for (task, number), tally in self.levels.items():
            levels[task, number // 2].merge(tally)
        self.levels = levels

    def figures(self, tasks: Sequence[str]) -> TimelineData:
        groups = sum(stretch.score.count for stretch in self.stretches.values())
        # The mean of a few groups is noise: stretches become wider until they hold eight groups, or are only ten.
        while len(self.stretches) > max(10, groups / 8):
            self._widen()
        numbers = sorted(self.stretches)
        with_levels = {task for task, _ in self.levels}

        def level(task: str, number: int) -> float | None:
            tally = self.levels.get((task, number))
            return tally.mean if tally else None

        return {
            "positions": [number * self.width for number in numbers],
            "width": self.width,
            "all": [
                {
                    "groups": self.stretches[number].score.count,
                    **{name: tally.mean for name, tally in vars(self.stretches[number]).items()},
                }
                for number in numbers
            ],
            "levels": [
                {"task": task_number, "values": [level(task, number) for number in numbers]}
                for task_number, task in enumerate(tasks)
                if task in with_levels
            ],
        }


class Figures:
    """The figures of one run, over all its groups.

    `keep_problems` keeps the score of each problem, for comparisons: the share of correct completions with `accuracy`,
    else the mean score.
    """

    def __init__(self, *, keep_problems: bool, accuracy: bool = False) -> None:
        self.tasks: defaultdict[str, GroupTally] = defaultdict(GroupTally)
        self.problems: dict[str, ProblemScore] = {}
        """The scores of an evaluation's problems, by reference without release."""
        self.problems_left_out = 0
        self.lacks_references = False
        """Whether a line of an evaluation has no reference, so that its problems cannot be compared."""
        self._keep_problems = keep_problems
        self._accuracy = accuracy
        self._cells: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
        """Mean scores of the groups of a task in a tenth of the scale of levels."""
        self._timeline = Timeline()
        self._groups = 0
        self._scores = [0] * 21
        """Rollouts by score, in steps of a twentieth."""
        self._tokens: Counter[tuple[int, str]] = Counter()
        self._characters: Counter[tuple[int, str]] = Counter()

    @property
    def rollouts(self) -> int:
        return sum(tally.completions for tally in self.tasks.values())

    def add(self, group: DumpedGroup) -> None:
        """Count a group; a group without rollouts has failed completions alone."""
        self.tasks[group.item_id].add(group)
        if not group.rollouts:
            return
        self._cells[group.item_id, _level_bin(group.level)].append(fmean(group.scores))
        self._timeline.add(max(0, self._groups if group.index is None else group.index), group)
        self._groups += 1
        for rollout in group.rollouts:
            self._scores[round(20 * min(1.0, max(0.0, rollout.score)))] += 1
            correctness = RIGHT if rollout.correct else PARTIAL if rollout.judged_score > 0 else WRONG
            if rollout.tokens is not None:
                self._tokens[_length_bin(rollout.tokens), correctness] += 1
            self._characters[_length_bin(length_of(rollout)), correctness] += 1
        if self._keep_problems:
            self._keep_problem(group)

    def _keep_problem(self, group: DumpedGroup) -> None:
        if group.reference is None:
            self.lacks_references = True
        elif len(self.problems) == 20_000:  # each is a line of the page, and stays in memory
            self.problems_left_out += 1
        else:
            self.problems[without_release(group.reference)] = ProblemScore.of(group, accuracy=self._accuracy)

    def result(self, tasks: Sequence[str], categories: Mapping[str, str]) -> RunFigures:
        """Return the figures as JSON of the page; a task is named by its position in `tasks`."""
        number = {task: position for position, task in enumerate(tasks)}
        scored = {task: tally for task, tally in sorted(self.tasks.items()) if tally.completions}
        summary = summarise(scored, categories, {})
        total = GroupTally()
        for tally in self.tasks.values():
            total.merge(tally)
        by_tokens = total.tokens.count * 2 > total.completions
        return {
            **total.shown(total.row()),
            "failed": total.failed,
            "of_tasks": shown_means(summary["overall"]),
            "by_task": [
                {"task": number[task], **tally.shown(summary["tasks"][task])} for task, tally in scored.items()
            ],
            "categories": [
                {"category": category, "tasks": row["tasks"], **shown_means(row)}
                for category, row in summary["categories"].items()
            ],
            "cells": [
                {
                    "task": number[task],
                    "bin": level,
                    "score": [fmean(scores), *bootstrap_interval(scores)],
                    "groups": len(scores),
                }
                for (task, level), scores in sorted(self._cells.items())
            ],
            "time": self._timeline.figures(tasks),
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

    def _lengths(self, by_tokens: bool) -> list[list[int]]:
        counts = self._tokens if by_tokens else self._characters
        bins = {position for position, _ in counts}
        return [
            [2**position, *(counts[position, word] for word in (RIGHT, PARTIAL, WRONG))]
            for position in range(min(bins, default=0), max(bins, default=-1) + 1)
        ]


def _shown_ks(most: int) -> Sequence[int]:
    """Return the k of pass@k to show: every k for up to 32 completions, for more the powers of two."""
    return range(1, most + 1) if most <= 32 else [2**power for power in range(most.bit_length())]


def _level_bin(level: float | None) -> int:
    """Return the tenth of the scale of levels, from 0 to 9; -1 for the library's defaults."""
    return -1 if level is None else min(9, max(0, int(10 * level)))


def _length_bin(length: int) -> int:
    """Return the exponent of the largest power of two that is at most the length."""
    return max(1, length).bit_length() - 1
