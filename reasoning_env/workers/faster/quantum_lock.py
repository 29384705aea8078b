"""quantum_lock: keep numbers out of the queue that can no longer become the target.

The library multiplies numbers for up to 15 presses without a bound. The same puzzles: a press adds or takes away at
most 3, and 15 presses 45. A number above the target, which is positive, by more than that stays above it: multiplying a
positive number raises it. One below 0 by more than that stays negative, as multiplying a negative one lowers it. What
is reached through such a number misses the target, too, by as many presses as are left for others to reach it later; so
no path to the target is lost, and none comes first that did not.
"""

from __future__ import annotations

from typing import Any

from .editing import edited


def install(module: Any) -> None:
    dataset = module.QuantumLockDataset
    bounded = {"queue.append(": "if -45 <= new_val <= target + 45: queue.append("}
    dataset.generate_quantum_puzzle = edited(dataset.generate_quantum_puzzle, bounded)
