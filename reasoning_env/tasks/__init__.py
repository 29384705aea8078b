"""The library's tasks. Each task has one declaration with everything that the project knows about the task.

No other package names a task: to treat some tasks differently, read a field of `find_task(name)`. Importing the
declarations does not import reasoning-gym or sympy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from . import algebra, arithmetic, boards, code, games, graphs, logic, stories, words
from .declaration import MANY_QUESTIONS, QUESTION_LEVELS, SHOWN_LEVELS, Task

__all__ = [
    "COMPOSITE",
    "MANY_QUESTIONS",
    "QUESTION_LEVELS",
    "SHOWN_LEVELS",
    "TASKS",
    "Task",
    "find_task",
    "question_count",
]

COMPOSITE = "composite"
"""The task that combines other tasks. Only this task does not work with the library's default parameters."""
FAMILIES = (algebra, arithmetic, boards, code, games, graphs, logic, stories, words)
DECLARED = [task for family in FAMILIES for task in vars(family).values() if isinstance(task, Task)]
TASKS: Mapping[str, Task] = {
    task.name: task for task in sorted([*DECLARED, Task(COMPOSITE, "other")], key=lambda task: task.name)
}
"""The tasks of the library by name, in alphabetical order."""


def find_task(name: str) -> Task:
    """Return the declaration of a task.

    A task of a newer library or of the user gets defaults that are slow but right for any task. Its category is
    CATEGORY if the name is CATEGORY/NAME, and `other` otherwise.
    """
    if name in TASKS:
        return TASKS[name]
    category, slash, _ = name.partition("/")
    return Task(name, category if slash else "other", has_small_pool=True, constructor_uses_seed=True)


def question_count(name: str, level: float | None) -> float:
    """Return the approximate number of different questions at a level in [0, 1], or at the defaults if `level` is None.

    Return infinity for MANY_QUESTIONS or more, or if the number was not measured.
    """
    counts = find_task(name).question_counts
    place = 0 if level is None or len(counts) == 1 else 1 + round(level * (len(QUESTION_LEVELS) - 1))
    return (counts[place] if place < len(counts) else None) or math.inf
