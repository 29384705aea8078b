"""The page's figures over all rollouts of a run: its rows are those of `evaluations/summary.py`.

Memory grows with tasks and problems, not with completions.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from ...dumps.reader import DumpedGroup, DumpedRollout
from ...evaluations.summary import Row, TaskTally, pass_at_interval, summarise
from ...metrics.intervals import bootstrap_interval
from ...metrics.outcomes import FORMAT_FAILURES, OUTCOMES, PARTIAL, RIGHT, WRONG, Tally
from ...problems.references import without_release
from ..comparison import ProblemScore

OTHER = "other"
PAGE_OUTCOMES = (*OUTCOMES, OTHER)
"""The words for completions, and OTHER for the reasons of a later version."""


def known_outcome(rollout: DumpedRollout) -> str:
    """Return one of PAGE_OUTCOMES."""
    return rollout.outcome if rollout.outcome in OUTCOMES else OTHER


def length_of(rollout: DumpedRollout) -> int:
    """Return the characters of the completion, thinking included."""
    return len(rollout.thinking) + (len(rollout.conversation[-1]["content"]) if rollout.conversation else 0)


@dataclass
class GroupTally(TaskTally):
    """What the page shows of a task beside its row."""

    signal: Tally = field(default_factory=Tally)
    """1 for each group whose scores differ, 0 for others; those of one rollout cannot differ, and are left out."""
    level: Tally = field(default_factory=Tally)
    characters: Tally = field(default_factory=Tally)
    corrected: Tally = field(default_factory=Tally)
    """1 for each rollout that the library scores otherwise, 0 for others with a score of the library."""

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
            for name in ("signal", "level", "characters", "corrected"):
                getattr(self, name).merge(getattr(other, name))

    def shown(self, row: Row) -> dict[str, Any]:
        """Return the page's form of a row of this tally."""
        words = Counter({word: count for word, count in self.outcomes.items() if word in OUTCOMES})
        words[OTHER] = self.outcomes.total() - words.total()
        corrected = [int(self.corrected.total), self.corrected.count]
        return {
            **shown_means(row),
            "groups": self.problems,
            "rollouts": self.completions,
            "signal": self.signal.mean,
            "level": self.level.mean,
            "outcomes": [words[word] for word in PAGE_OUTCOMES],
            "tokens": row["tokens"] if self.tokens.count * 2 > self.completions else None,
            "characters": self.characters.mean,
            "plain": [row["library_score"], row["mean_score"], *corrected] if "library_score" in row else None,
        }


def shown_means(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the page shows of any row: means with the two ends of their intervals, and a share."""
    return {
        "score": [row["mean_score"], *row["mean_score_interval"]],
        "accuracy": [row["accuracy"], *row["accuracy_interval"]],
        "format": sum(row["reasons"].get(word, 0.0) for word in FORMAT_FAILURES),
    }


@dataclass
class Stretch:
    """A stretch of the stream of problems: tallies over its groups."""

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
    """Tallies over stretches of the stream of problems; stretches double in width to stay few."""

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
        self.width *= 2
        stretches, levels = self.stretches, self.levels
        self.stretches, self.levels = defaultdict(Stretch), defaultdict(Tally)
        for number, stretch in stretches.items():
            self.stretches[number // 2].merge(stretch)
        for (task, number), tally in levels.items():
            self.levels[task, number // 2].merge(tally)

    def figures(self, tasks: Sequence[str]) -> dict[str, Any]:
        groups = sum(stretch.score.count for stretch in self.stretches.values())
        # A single group is only noise: stretches become wider until they hold eight groups, or there are only ten.
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
    """All that the page shows of one run, but for its sample of rollouts."""

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
        """Count a group; one without rollouts tells only of completions that failed."""
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

    def result(self, tasks: Sequence[str], categories: Mapping[str, str]) -> dict[str, Any]:
        """Return plain data for the page, where tasks are numbers: their positions in `tasks`."""
        number = {task: position for position, task in enumerate(tasks)}
        scored = {task: tally for task, tally in sorted(self.tasks.items()) if tally.completions}
        summary = summarise(scored, categories, {})
        total = GroupTally()
        for tally in self.tasks.values():
            total.merge(tally)
        by_tokens = total.tokens.count * 2 > total.completions
        return total.shown(total.row()) | {
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

    def _lengths(self, by_tokens: bool) -> list[list[float]]:
        counts = self._tokens if by_tokens else self._characters
        bins = {position for position, _ in counts}
        return [
            [2**position, *(counts[position, word] for word in (RIGHT, PARTIAL, WRONG))]
            for position in range(min(bins, default=0), max(bins, default=-1) + 1)
        ]


def _shown_ks(most: int) -> Sequence[int]:
    """Return the numbers k of pass@k to show: all up to 32, and of more the powers of two."""
    return range(1, most + 1) if most <= 32 else [2**power for power in range(most.bit_length())]


def _level_bin(level: float | None) -> int:
    """Return the tenth of the scale that a level lies in; -1 for the library's defaults."""
    return -1 if level is None else min(9, max(0, int(10 * level)))


def _length_bin(length: int) -> int:
    """Return the power of two that a length is at least."""
    return max(1, length).bit_length() - 1
