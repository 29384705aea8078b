"""Higher levels make problems harder; a few problems of every task. `tools/levels.py` draws 200."""

from __future__ import annotations

from itertools import pairwise

from reasoning_env.tasks import TASKS
from reasoning_env.workers.levels import DifficultyMap
from tests.workers.level_work import (
    LEVELS,
    Drawn,
    LevelTally,
    faults_of,
    repetition_of,
    tally,
)
from tools import levels

DRAWS = [number / 16 for number in range(16)]


def test_each_level_of_a_task_has_its_own_parameters(difficulty: DifficultyMap) -> None:
    alike = []
    for task in sorted(TASKS.keys() - {"composite"}):
        if not difficulty.adjustable(task):
            continue
        by_level = [[difficulty.parameters(task, level, draw=draw).params for draw in DRAWS] for level in LEVELS]
        alike += [task for lower, higher in pairwise(by_level) if lower == higher]
    assert alike == []


RISING = [LevelTally(work, 0.1, 1.0) for work in (1.0, 2.0, 3.0, 4.0, 5.0)]


def test_level_that_gets_easier_is_a_fault() -> None:
    assert faults_of(RISING) == []
    assert faults_of([*RISING[:3], LevelTally(2.0, 0.1, 1.0), RISING[4]]) == ["the work falls from 3.0 to 2.0"]


def test_level_without_more_work_is_a_fault() -> None:
    assert faults_of([LevelTally(3.0, 0.01, 1.0)] * 5) == ["the work grows from 3.0 to 3.0 only"]


def test_level_with_repeated_questions_is_a_fault() -> None:
    drawn = [Drawn(f"question {number % 3}", "", {}) for number in range(12)]
    assert len(repetition_of([tally("chain_sum", drawn)] * 5, LEVELS)) == 5


def test_level_with_repeated_long_answers_is_a_fault() -> None:
    drawn = [Drawn(f"question {number}", 20 * "known by heart", {}) for number in range(12)]
    assert len(repetition_of([tally("chain_sum", drawn)] * 5, LEVELS)) == 5


def test_level_faults_with_an_explanation_are_not_reported() -> None:
    flat = tuple([LevelTally(3.0, 0.01, 1.0)] * 5)
    assert levels.findings(levels.MeasuredTask("syllogism", flat)) == []
    assert levels.findings(levels.MeasuredTask("gcd", flat)) == ["gcd: the work grows from 3.0 to 3.0 only"]
