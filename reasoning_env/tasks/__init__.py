"""The library's tasks, one declaration each: what is known of a task, and what is done for it.

No other package names a task: whoever treats tasks differently asks `find_task` for the field of the declaration that
says why. Importing the declarations loads neither reasoning-gym nor sympy; their functions run in workers only.
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
"""The task that is composed of other tasks, and cannot be built from its defaults."""
FAMILIES = (algebra, arithmetic, boards, code, games, graphs, logic, stories, words)
DECLARED = [task for family in FAMILIES for task in vars(family).values() if isinstance(task, Task)]
TASKS: Mapping[str, Task] = {
    task.name: task for task in sorted([*DECLARED, Task(COMPOSITE, "other")], key=lambda task: task.name)
}
"""The tasks of the library by name, in alphabetical order."""


def find_task(name: str) -> Task:
    """Return the declaration of a task.

    A task of a newer library, or of a user, gets slower treatment that is right for any task. The category of
    CATEGORY/NAME is its first part, of other names `other`.
    """
    if name in TASKS:
        return TASKS[name]
    category, slash, _ = name.partition("/")
    return Task(name, category if slash else "other", has_small_pool=True, constructor_uses_seed=True)


def question_count(name: str, level: float | None) -> float:
    """Return about how many different questions a task has at a level, None for its defaults.

    Infinity for MANY_QUESTIONS or more, and where nothing was measured. Between two levels of QUESTION_LEVELS, the
    nearer one counts.
    """
    counts = find_task(name).question_counts
    place = 0 if level is None or len(counts) == 1 else 1 + round(level * (len(QUESTION_LEVELS) - 1))
    return (counts[place] if place < len(counts) else None) or math.inf
