"""Which tasks a run uses: names, categories and globs over both.

A pattern is a name (`sudoku`), a glob over names (`*_sorting`), a category with a name or glob (`games/*`), or a whole
category (`category:games`). Every pattern must match something, so that a slip of the pen is an error at startup.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TypeVar

from ..errors import ConfigError
from ..library_facts import COMPOSITE
from ..records import TaskInfo

ALL_TASKS = "all"
CATEGORY_PREFIX = "category:"
GLOB_CHARACTERS = frozenset("*?[")

V = TypeVar("V")


def select_tasks(available: Sequence[TaskInfo], wanted: Sequence[str], excluded: Sequence[str] = ()) -> tuple[str, ...]:
    """The names that `wanted` matches and `excluded` does not, in name order.

    An empty `wanted`, or the word "all" in it, matches everything. Raises ConfigError for a pattern that matches
    nothing, with the nearest names, and when nothing is left.
    """
    if not available:
        raise ConfigError("the library offers no task at all; check the installation of reasoning-gym")
    everything = not wanted or ALL_TASKS in wanted
    chosen = {task.name for task in available} if everything else _match_all(available, wanted, "tasks")
    left = chosen - _match_all(available, excluded, "exclude_tasks")
    if not left:
        raise ConfigError("exclude_tasks: every task of `tasks` is excluded; exclude fewer, or select more")
    return tuple(sorted(left))


def match_tasks(available: Sequence[TaskInfo], pattern: str, field: str) -> tuple[str, ...]:
    """The names that a pattern matches; raises ConfigError, naming the setting `field`, where that is none."""
    found = tuple(task.name for task in available if _matches(task, pattern))
    if found:
        return found
    names = [task.name for task in available]
    categories = sorted({task.category for task in available})
    if pattern.startswith(CATEGORY_PREFIX):
        near = [CATEGORY_PREFIX + category for category in _nearest(pattern.removeprefix(CATEGORY_PREFIX), categories)]
    elif "/" in pattern:
        near = _nearest(pattern, [f"{category}/*" for category in categories])
    else:
        near = _nearest(pattern, names)
    hint = f"; did you mean {', '.join(near)}?" if near else ""
    known = f"`tasks` lists all {len(names)} names; the categories are {', '.join(categories)}"
    kind = "no task that matches" if ":" in pattern or not GLOB_CHARACTERS.isdisjoint(pattern) else "no task"
    raise ConfigError(f"{field}: there is {kind} {pattern!r}{hint} ({known})")


def _nearest(word: str, words: Sequence[str]) -> list[str]:
    return difflib.get_close_matches(word, words, n=3, cutoff=0.4)


def resolve_patterns(
    available: Sequence[TaskInfo], selected: Collection[str], by_pattern: Mapping[str, V], field: str
) -> dict[str, V]:
    """The value for each selected task; of several patterns that match one, a later one wins, and a name over all.

    Raises ConfigError for a pattern that matches nothing, or nothing that is selected.
    """
    resolved: dict[str, V] = {}
    names = {task.name for task in available}
    for pattern, value in sorted(by_pattern.items(), key=lambda item: item[0] in names):
        matched = [name for name in match_tasks(available, pattern, field) if name in selected]
        if not matched:
            raise ConfigError(f"{field}: {pattern!r} matches none of the selected tasks; select some, or take it out")
        resolved |= dict.fromkeys(matched, value)
    return resolved


def without_gameable(
    tasks: Sequence[str], wanted: Sequence[str], gameable: Collection[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The tasks without the gameable ones, and those that were left out; what `wanted` names itself stays."""
    excluded = tuple(name for name in tasks if name in gameable and name not in wanted)
    return tuple(name for name in tasks if name not in excluded), excluded


def composite_members(available: Sequence[str], selected: Sequence[str]) -> tuple[str, ...]:
    """What the composite task is made of: the other selected tasks or, where it is the only one, all others."""
    members = tuple(name for name in selected if name != COMPOSITE)
    return members or tuple(sorted(name for name in available if name != COMPOSITE))


def _match_all(available: Sequence[TaskInfo], patterns: Sequence[str], field: str) -> set[str]:
    return {name for pattern in patterns for name in match_tasks(available, pattern, field)}


def _matches(task: TaskInfo, pattern: str) -> bool:
    if pattern.startswith(CATEGORY_PREFIX):
        return fnmatchcase(task.category, pattern.removeprefix(CATEGORY_PREFIX).strip())
    return fnmatchcase(f"{task.category}/{task.name}" if "/" in pattern else task.name, pattern)
