"""Carry out a boxnet plan move by move, since the verifier ignores moves that do nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence


def has_purpose(steps: Iterable[Mapping[str, str]], initial_state: Mapping[str, Sequence[str]]) -> bool:
    """Tell whether a plan moves boxes only, and wastes no more moves than there are boxes."""
    state = {place: list(items) for place, items in initial_state.items()}
    idle_moves_left = sum(item.startswith("box_") for items in state.values() for item in items)
    for step in steps:
        for agent, move in step.items():
            match = re.match(r"move\((.*?),\s(.*?)\)", move)
            if match is not None and match[1].startswith("target_"):
                return False
            if match is None or not _move(state, _place(agent), match[1], match[2]):
                idle_moves_left -= 1
            if idle_moves_left < 0:
                return False
    return True


def _move(state: dict[str, list[str]], place: str, box: str, goal: str) -> bool:
    """Carry out a move and tell whether it did anything; the verifier refuses non-adjacent squares."""
    items = state.get(place, [])
    if box not in items:
        return False
    if "square" in goal:
        there = state.get(_place(goal))
        if there is None:
            return False
        there.append(box)
    elif goal == f"target_{box.removeprefix('box_')}" and goal in items:
        items.remove(goal)
    else:
        return False
    items.remove(box)
    return True


def _place(text: str) -> str:
    """Return the state's name for the square of an agent or a goal."""
    return "_".join(str(float(number)) for number in re.findall(r"\d+\.?\d*", text)[:2])
