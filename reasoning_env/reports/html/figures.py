"""Figures over all rollouts of a run, in memory that grows with tasks and problems of evaluations only."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from ...dumps.reader import DumpedGroup, DumpedRollout
from ...evaluations import samples
from ...evaluations.samples import RIGHT, TRUNCATED, WRONG
from ...records import Reason
from ...statistics import bootstrap_interval, pass_at_k, wilson_interval

PARTIAL, OTHER = "partial", "other"
FORMAT_FAILURES = (Reason.NO_ANSWER, Reason.UNCLOSED_ANSWER, Reason.SEVERAL_ANSWERS, Reason.EMPTY_ANSWER)
FAULTS = tuple(reason for reason in Reason if reason not in (Reason.SCORED, *FORMAT_FAILURES))
OUTCOMES = (RIGHT, PARTIAL, WRONG, TRUNCATED, *(reason.value for reason in (*FORMAT_FAILURES, *FAULTS)), OTHER)
"""What became of a rollout: how right it is where it was scored, else the reason for its 0."""
LEVEL_BINS = 10
SCORE_STEPS = 20
TIME_BINS = 100
FEW_BINS, GROUPS_OF_A_BIN = 10, 8
"""Stretches of time are made wider, down to so few, until they hold so many groups: one group alone is only noise."""
LENGTH_BINS_PER_DOUBLING = 2
ROUNDING = 1e-9
MAX_PROBLEMS = 20_000
"""Problems of an evaluation that are kept for a comparison with another one."""


def score_of(rollout: DumpedRollout) -> float:
    """The verifier's score, before any length penalty."""
    return rollout.score if rollout.verifier_score is None else rollout.verifier_score


def is_right(rollout: DumpedRollout) -> bool:
    return samples.is_right(score_of(rollout)) if rollout.correct is None else rollout.correct


def outcome_of(rollout: DumpedRollout) -> str:
    """One of OUTCOMES."""
    word = samples.outcome(score_of(rollout), rollout.reason, rollout.finish_reason)
    if word in (RIGHT, WRONG):
        return RIGHT if is_right(rollout) else PARTIAL if score_of(rollout) > 0 else WRONG
    return word if word in OUTCOMES else OTHER


def length_of(rollout: DumpedRollout) -> int:
    """Characters of the completion."""
    return len(rollout.conversation[-1]["content"]) if rollout.conversation else 0


@dataclass
class Sums:
    """Of a task, of a task at a level, of a stretch of time: counts, and sums over groups or rollouts."""

    groups: int = 0
    rollouts: int = 0
    score: float = 0.0
    right: int = 0
    compared: int = 0
    """Groups of two rollouts or more, the only ones that can carry a signal."""
    signal: int = 0
    level: float = 0.0
    levels: int = 0

    def add(self, group: DumpedGroup) -> None:
        scores = group.scores
        self.groups += 1
        self.rollouts += len(scores)
        self.score += sum(scores)
        self.right += sum(map(is_right, group.rollouts))
        self.compared += len(scores) > 1
        self.signal += len(set(scores)) > 1
        if group.level is not None:
            self.level += group.level
            self.levels += 1

    def merge(self, other: Sums) -> None:
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def figures(self) -> dict[str, Any]:
        mean = self.score / self.rollouts
        return {
            "groups": self.groups,
            "rollouts": self.rollouts,
            "score": [mean, *wilson_interval(mean, self.groups)],
            "accuracy": [self.right / self.rollouts, *wilson_interval(self.right / self.rollouts, self.groups)],
            "signal": self.signal / self.compared if self.compared else None,
            "level": self.level / self.levels if self.levels else None,
        }


@dataclass
class TaskSums(Sums):
    outcomes: Counter[str] = field(default_factory=Counter)
    passes: Counter[tuple[int, int]] = field(default_factory=Counter)
    """How many groups had so many completions, and so many right ones."""
    tokens: int = 0
    token_counts: int = 0
    characters: int = 0
    seconds: float = 0.0
    plain_count: int = 0
    """Rollouts with a score by the library's own rules too; `plain_score` and `strict_score` are over these."""
    plain_score: float = 0.0
    strict_score: float = 0.0
    changed: int = 0

    def add(self, group: DumpedGroup) -> None:
        super().add(group)
        self.passes[len(group.rollouts), sum(map(is_right, group.rollouts))] += 1
        for rollout in group.rollouts:
            self.outcomes[outcome_of(rollout)] += 1
            self.characters += length_of(rollout)
            if rollout.tokens is not None:
                self.tokens += rollout.tokens
                self.token_counts += 1
            if rollout.library_score is not None:
                self.plain_count += 1
                self.plain_score += rollout.library_score
                self.strict_score += score_of(rollout)
                self.changed += abs(score_of(rollout) - rollout.library_score) > ROUNDING

    def figures(self) -> dict[str, Any]:
        count = self.plain_count
        return super().figures() | {
            "outcomes": [self.outcomes[name] for name in OUTCOMES],
            "format": sum(self.outcomes[reason] for reason in FORMAT_FAILURES) / self.rollouts,
            "tokens": self.tokens / self.token_counts if self.token_counts else None,
            "characters": self.characters / self.rollouts,
            "plain": [self.plain_score / count, self.strict_score / count, self.changed, count] if count else None,
        }


class Timeline:
    """Sums over stretches of the stream of problems, whose width doubles whenever there would be too many."""

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
            kind = RIGHT if is_right(rollout) else PARTIAL if score_of(rollout) > 0 else WRONG
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
        mean, right = fmean(group.scores), sum(map(is_right, group.rollouts))
        self._problems.append((group.item_id, [group.index, group.seed, group.level, mean, right]))

    def result(self, tasks: Sequence[str]) -> dict[str, Any]:
        """Return plain data for the page, where tasks are numbers: places in `tasks`."""
        number = {task: place for place, task in enumerate(tasks)}
        total = TaskSums()
        for sums in self.tasks.values():
            total.merge(sums)
        by_tokens = total.token_counts * 2 > total.rollouts
        return total.figures() | {
            "failed": self.failed,
            "of_tasks": _over_tasks([sums.score / sums.rollouts for sums in self.tasks.values()]),
            "by_task": [{"task": number[task], **sums.figures()} for task, sums in sorted(self.tasks.items())],
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

    def _passes(self, k: int) -> Iterable[float]:
        for sums in self.tasks.values():
            of_task = {key: count for key, count in sums.passes.items() if key[0] >= k}
            if of_task:
                weighted = sum(pass_at_k(size, right, k) * count for (size, right), count in of_task.items())
                yield weighted / sum(of_task.values())


def _over_tasks(means: Sequence[float]) -> list[float]:
    """The unweighted mean over tasks and its interval; empty where there is no task."""
    return [fmean(means), *bootstrap_interval(means)] if means else []


def _level_bin(level: float | None) -> int:
    """The tenth of the scale that a level lies in; -1 for the library's defaults."""
    return -1 if level is None else min(LEVEL_BINS - 1, max(0, int(level * LEVEL_BINS)))


def _length_bin(length: int) -> int:
    return round(LENGTH_BINS_PER_DOUBLING * math.log2(max(1, length)))
