"""Figures over all rollouts of a run; memory grows only with tasks and problems of evaluations."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Any

from ...dumps.reader import DumpedGroup
from ...evaluations.samples import PARTIAL, RIGHT, WRONG, score_of
from ...statistics import interval_of_means, pass_at_k, wilson_interval
from .sums import Sums, TaskSums, got_right, length_of

LEVEL_BINS = 10
SCORE_STEPS = 20
TIME_BINS = 100
FEW_BINS, GROUPS_OF_A_BIN = 10, 8
"""Stretches of time are made wider, down to so few, until they hold so many groups: one group alone is only noise."""
LENGTH_BINS_PER_DOUBLING = 2
MAX_PROBLEMS = 20_000
"""Problems of an evaluation that are kept for a comparison with another one."""
PROBLEM_DIGITS = 8
"""Digits of a problem's hash, which tell it from another one of the same task and seed."""


class Timeline:
    """Sums over stretches of the stream of problems; stretches double in width to stay few."""

    def __init__(self) -> None:
        self.width = 1
        self.sums: defaultdict[tuple[str | None, int], Sums] = defaultdict(Sums)
        """By task, None for all of them, and stretch."""

    def add(self, position: int, group: DumpedGroup) -> None:
        while position // self.width >= TIME_BINS:
            self._widen()
        for task in (None, group.item_id) if group.level is not None else (None,):
            self.sums[task, position // self.width].add(group)

    def _widen(self) -> None:
        self.width *= 2
        earlier, self.sums = self.sums, defaultdict(Sums)
        for (task, stretch), sums in earlier.items():
            self.sums[task, stretch // 2].merge(sums)

    def _stretches(self) -> list[int]:
        return sorted(stretch for task, stretch in self.sums if task is None)

    def figures(self, tasks: Sequence[str]) -> dict[str, Any]:
        groups = sum(sums.groups for (task, _), sums in self.sums.items() if task is None)
        while len(self._stretches()) > max(FEW_BINS, groups / GROUPS_OF_A_BIN):
            self._widen()
        stretches = self._stretches()
        with_levels = {task for task, _ in self.sums if task is not None}

        def level(task: str, stretch: int) -> float | None:
            sums = self.sums.get((task, stretch))
            return sums.level / sums.levels if sums else None

        return {
            "positions": [stretch * self.width for stretch in stretches],
            "width": self.width,
            "all": [self.sums[None, stretch].figures() for stretch in stretches],
            "levels": [
                {"task": number, "values": [level(task, stretch) for stretch in stretches]}
                for number, task in enumerate(tasks)
                if task in with_levels
            ],
        }


class Figures:
    """All that the page shows of one run, but for its sample of rollouts."""

    def __init__(self, *, keep_problems: bool) -> None:
        self.tasks: defaultdict[str, TaskSums] = defaultdict(TaskSums)
        self.failed = 0
        self.problems_left_out = 0
        self._cells: defaultdict[tuple[str, int], Sums] = defaultdict(Sums)
        self._timeline = Timeline()
        self._scores = [0] * (SCORE_STEPS + 1)
        self._tokens: Counter[tuple[int, str]] = Counter()
        self._characters: Counter[tuple[int, str]] = Counter()
        self._problems: list[tuple[str, list[Any]]] | None = [] if keep_problems else None

    @property
    def groups(self) -> int:
        return sum(sums.groups for sums in self.tasks.values())

    @property
    def rollouts(self) -> int:
        return sum(sums.rollouts for sums in self.tasks.values())

    def add(self, group: DumpedGroup) -> None:
        """Count a group; one without rollouts tells only of completions that failed."""
        self.failed += group.failed or 0
        if not group.rollouts:
            return
        self.tasks[group.item_id].add(group)
        self._cells[group.item_id, _level_bin(group.level)].add(group)
        self._timeline.add(max(0, self.groups - 1 if group.index is None else group.index), group)
        for rollout in group.rollouts:
            self._scores[round(SCORE_STEPS * min(1.0, max(0.0, rollout.score)))] += 1
            kind = RIGHT if got_right(rollout) else PARTIAL if score_of(rollout) > 0 else WRONG
            if rollout.tokens is not None:
                self._tokens[_length_bin(rollout.tokens), kind] += 1
            self._characters[_length_bin(length_of(rollout)), kind] += 1
        self._keep_problem(group)

    def _keep_problem(self, group: DumpedGroup) -> None:
        if self._problems is None or group.seed is None:
            return
        if len(self._problems) == MAX_PROBLEMS:
            self.problems_left_out += 1
            return
        mean, right = fmean(group.scores), sum(map(got_right, group.rollouts))
        facts = [group.index, group.seed, group.level, mean, right, (group.problem or "")[:PROBLEM_DIGITS]]
        self._problems.append((group.item_id, facts))

    def result(self, tasks: Sequence[str]) -> dict[str, Any]:
        """Return plain data for the page, where tasks are numbers: places in `tasks`."""
        number = {task: place for place, task in enumerate(tasks)}
        by_task = [{"task": number[task], **sums.figures()} for task, sums in sorted(self.tasks.items())]
        total = TaskSums()
        for sums in self.tasks.values():
            total.merge(sums)
        by_tokens = total.token_counts * 2 > total.rollouts
        return total.figures() | {
            "failed": self.failed,
            "of_tasks": {name: _over_tasks([row[name] for row in by_task]) for name in ("score", "accuracy")},
            "by_task": by_task,
            "cells": [
                {"task": number[task], "bin": level, **sums.figures()}
                for (task, level), sums in sorted(self._cells.items())
            ],
            "time": self._timeline.figures(tasks),
            "scores": self._scores,
            "lengths": {"unit": "tokens" if by_tokens else "characters", "bins": self._lengths(by_tokens)},
            "pass_at_k": self._pass_at_k(),
            "problems": [[number[task], *facts] for task, facts in self._problems or ()],
            "problems_left_out": self.problems_left_out,
        }

    def _lengths(self, by_tokens: bool) -> list[list[float]]:
        counts = self._tokens if by_tokens else self._characters
        bins = {position for position, _ in counts}
        return [
            [2 ** (position / LENGTH_BINS_PER_DOUBLING), *(counts[position, kind] for kind in (RIGHT, PARTIAL, WRONG))]
            for position in range(min(bins, default=0), max(bins, default=-1) + 1)
        ]

    def _pass_at_k(self) -> list[list[float]]:
        """Pass@k with its interval, as the unweighted mean over tasks, for each k that most groups allow."""
        sizes: Counter[int] = Counter()
        for sums in self.tasks.values():
            for (size, _), count in sums.passes.items():
                sizes[size] += count
        most = sizes.most_common(1)[0][0] if sizes else 0
        chosen = range(1, most + 1) if most <= 32 else [2**power for power in range(most.bit_length())]
        return [[k, *_over_tasks(list(self._passes(k)))] for k in chosen]

    def _passes(self, k: int) -> Iterable[list[float]]:
        for sums in self.tasks.values():
            of_task = {key: count for key, count in sums.passes.items() if key[0] >= k}
            if of_task:
                weighted = sum(pass_at_k(size, right, k) * count for (size, right), count in of_task.items())
                mean = weighted / sum(of_task.values())
                yield [mean, *wilson_interval(mean, sum(of_task.values()))]


def _over_tasks(rows: Sequence[Sequence[float]]) -> list[float]:
    """Return the unweighted mean of means and its interval, from theirs; empty where there are none."""
    means = [row[0] for row in rows]
    return [fmean(means), *interval_of_means(means, [row[1:] for row in rows])] if rows else []


def _level_bin(level: float | None) -> int:
    """Return the tenth of the scale that a level lies in; -1 for the library's defaults."""
    return -1 if level is None else min(LEVEL_BINS - 1, max(0, int(level * LEVEL_BINS)))


def _length_bin(length: int) -> int:
    return round(LENGTH_BINS_PER_DOUBLING * math.log2(max(1, length)))
