"""Select tasks by names, categories and globs.

A pattern is a name (`sudoku`), a glob over names (`*_sorting`), a category with a name or glob (`games/*`), or a whole
category (`games`, or `category:games` if a task has the same name). Case is ignored. A pattern that matches no task is
an error.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TypeVar

from ..errors import ConfigError, did_you_mean
from ..records import TaskInfo

ALL_TASKS = "all"
CATEGORY_PREFIX = "category:"

V = TypeVar("V")


def select_tasks(
    available: Sequence[TaskInfo], selected: Sequence[str], excluded: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the names that match `selected` and not `excluded`, ordered by pattern, then by name.

    If `selected` is empty or contains "all", every task matches. Raises ConfigError if a pattern matches no task, or if
    no task is left.
    """
    if not available:
        raise ConfigError("the library has no tasks", remedy="check the installation of reasoning-gym")
    everything = not selected or ALL_TASKS in map(str.lower, selected)
    chosen = match_tasks(available, ["*"] if everything else selected, "tasks")
    unwanted = match_tasks(available, excluded, "exclude_tasks")
    left = tuple(name for name in chosen if name not in unwanted)
    if not left:
        raise ConfigError(
            "every selected task is excluded",
            setting="exclude_tasks",
            remedy="exclude fewer tasks, or select more in {tasks}",
        )
    return left


def match_tasks(available: Sequence[TaskInfo], patterns: Iterable[str], field: str) -> tuple[str, ...]:
    """Return the names that match a pattern, without duplicates, ordered by pattern, then by name.

    Raises ConfigError, which names the setting `field`, if a pattern matches no task.
    """
    matched: dict[str, None] = {}
    for pattern in patterns:
        names = [task.name for task in available if _matches(task, pattern)]
        names = names or [task.name for task in available if task.category.lower() == pattern.lower()]
        if not names:
            raise ConfigError(f"there is {_explain_mismatch(available, pattern)}", setting=field)
        matched |= dict.fromkeys(sorted(names))
    return tuple(matched)


def _explain_mismatch(available: Sequence[TaskInfo], pattern: str) -> str:
    names = [task.name for task in available]
    categories = sorted({task.category for task in available})
    for_categories = [way for name in categories for way in (name, f"{name}/*", f"{CATEGORY_PREFIX}{name}")]
    hint = did_you_mean(pattern.lower(), [*names, *for_categories])
    what = "no task that matches" if any(character in pattern for character in "*?[:") else "no task"
    where = f"the command `tasks` lists all {len(names)} names; the categories are {', '.join(categories)}"
    return "; ".join(filter(None, [f"{what} {pattern!r}", hint])) + f" ({where})"


def resolve_patterns(
    available: Sequence[TaskInfo], selected: Collection[str], by_pattern: Mapping[str, V], field: str
) -> dict[str, V]:
    """Return the value in `by_pattern` for each selected task that a pattern matches.

    The last matching pattern counts, but a pattern that is the task's name has priority. Raises ConfigError if a
    pattern matches no selected task.
    """
    resolved: dict[str, V] = {}
    names = {task.name for task in available}
    for pattern, value in sorted(by_pattern.items(), key=lambda item: item[0].lower() in names):
        matched = [name for name in match_tasks(available, [pattern], field) if name in selected]
        if not matched:
            raise ConfigError(
                f"{pattern!r} matches none of the selected tasks",
                setting=field,
                remedy="select a task that the pattern matches, or remove the pattern",
            )
        resolved |= dict.fromkeys(matched, value)
    return resolved


def _matches(task: TaskInfo, pattern: str) -> bool:
    pattern = pattern.lower()
    name = task.name.lower()
    category = task.category.lower()
    if pattern.startswith(CATEGORY_PREFIX):
        return fnmatchcase(category, pattern.removeprefix(CATEGORY_PREFIX).strip())
    # Names of tasks of other sources contain a slash (`rlve/Sorting`).
    return fnmatchcase(name, pattern) or ("/" in pattern and fnmatchcase(f"{category}/{name}", pattern))
