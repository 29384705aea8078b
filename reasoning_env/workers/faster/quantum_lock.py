"""quantum_lock: keep numbers out of the queue that can no longer become the target, and those that are in it.

The library multiplies numbers for up to 15 presses without a bound. The same puzzles, as its search stays what it is:

- A number and colour that were queued before are taken out before, with no more presses, and the library drops what it
  takes out for the second time.
- A press adds or takes away at most 3. A number above the target, which is positive, by more than 3 for each of 15
  presses stays above it: multiplying a positive number raises it. One below 0 by more than that stays negative, as
  multiplying a negative one lowers it. Whatever is reached through such a number misses the target, too, by as many
  presses as are left for others to reach it later; so no path to the target is lost, and none comes first that did not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from random import Random
from typing import Any

REACH = 15 * 3
Position = tuple[int, str, list[str]]


class Queue(deque[Position]):
    """Takes positions from which a target up to `highest` may be reached, each number and colour once."""

    def __init__(self, positions: Iterable[Position], highest: float) -> None:
        super().__init__(positions)
        self._numbers = (-REACH, highest + REACH)
        self._queued = {position[:2] for position in self}

    def append(self, position: Position) -> None:
        if position[:2] not in self._queued and self._numbers[0] <= position[0] <= self._numbers[1]:
            self._queued.add(position[:2])
            super().append(position)


def install(module: Any) -> None:
    generate = module.QuantumLockDataset.generate_quantum_puzzle

    def generate_in_reach(self: Any, rng: Random, difficulty: int = 1) -> Any:
        highest = max(8, 1.3 * (5 + difficulty**1.5))
        module.deque = lambda positions: Queue(positions, highest)
        return generate(self, rng, difficulty)

    module.QuantumLockDataset.generate_quantum_puzzle = generate_in_reach
