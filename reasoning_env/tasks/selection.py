"""Which tasks a run uses, by name."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence

from ..errors import ConfigError

COMPOSITE = "composite"
ALL_TASKS = "all"


def select_tasks(available: Sequence[str], wanted: Sequence[str]) -> tuple[str, ...]:
    """The selected names in name order; an empty `wanted`, or the word "all" in it, selects everything available.

    Raises ConfigError for a name that is not available, with the nearest ones.
    """
    if not available:
        raise ConfigError("the library offers no task at all; check the installation of reasoning-gym")
    if not wanted or ALL_TASKS in wanted:
        return tuple(sorted(available))
    for name in wanted:
        if name not in available:
            nearest = difflib.get_close_matches(name, available, n=3, cutoff=0.4)
            hint = f"; did you mean {', '.join(nearest)}?" if nearest else ""
            raise ConfigError(f"tasks: there is no task {name!r}{hint} (`tasks` lists all {len(available)} names)")
    return tuple(sorted(set(wanted)))


def exclude_tasks(
    tasks: Sequence[str], wanted: Sequence[str], unwanted: Collection[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The tasks without the unwanted ones, and those that were left out; what `wanted` names stays."""
    excluded = tuple(name for name in tasks if name in unwanted and name not in wanted)
    return tuple(name for name in tasks if name not in excluded), excluded


def composite_members(available: Sequence[str], selected: Sequence[str]) -> tuple[str, ...]:
    """What the composite task is made of: the other selected tasks or, where it is the only one, all others."""
    members = tuple(name for name in selected if name != COMPOSITE)
    return members or tuple(sorted(name for name in available if name != COMPOSITE))
