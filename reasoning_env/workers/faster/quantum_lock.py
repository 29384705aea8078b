"""quantum_lock: search breadth-first, and skip numbers from which the target can no longer be reached.

Problems are the same, because both searches reach states in the same order and return the first path to the goal. The
library's search ends when the goal leaves the queue, and this search when the goal enters the queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from . import edited


def find_buttons(puzzle: Mapping[str, Any]) -> list[str] | None:
    """Return the buttons of a lock's shortest solution; None if there is none.

    A number is skipped if the remaining presses cannot reduce it to the target, or cannot raise it above 0.
    """
    operations = {"add": int.__add__, "subtract": int.__sub__, "multiply": int.__mul__}
    buttons = [
        (button["name"], operations[button["type"]], button["value"], button["active_state"])
        for button in puzzle["buttons"]
    ]
    raising, lowering = (
        max((button["value"] for button in puzzle["buttons"] if button["type"] == kind), default=0)
        for kind in ("add", "subtract")
    )
    usable = {light: [button for button in buttons if button[3] in (light, "any")] for light in ("red", "green")}
    target = puzzle["target_value"]
    layer: dict[int, list[str]] = {puzzle["initial_value"]: []}
    seen: dict[str, set[int]] = {"red": set(layer), "green": set()}
    light, other = "red", "green"
    for left in reversed(range(puzzle["max_steps"])):
        following: dict[int, list[str]] = {}
        for number, path in layer.items():
            for name, operate, value, _ in usable[light]:
                after = operate(number, value)
                if after == target:
                    return [*path, name]
                if after not in seen[other] and -raising * left < after <= target + lowering * left:
                    seen[other].add(after)
                    following[after] = [*path, name]
        layer = following
        light, other = other, light
    return None


def install(module: ModuleType) -> None:
    dataset = module.QuantumLockDataset
    dataset.generate_quantum_puzzle = edited(
        dataset.generate_quantum_puzzle,
        {
            'queue = deque([(0, "red", [])])': 'queue, puzzle["solution"] = (), find_buttons(puzzle)',
            "visited = set()": 'if puzzle["solution"] is not None: return puzzle',
        },
        find_buttons=find_buttons,
    )
