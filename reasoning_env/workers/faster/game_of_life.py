"""game_of_life: count the neighbours of all cells at once; cellpylib looks at them cell by cell.

The same boards: the rule is Conway's on a torus, whose rows and columns `numpy.roll` shifts around, and a cell lives on
if its block of nine holds three living cells, or four with it. The library reads the last board only.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


def evolve(boards: Any, timesteps: int, **_: Any) -> list[Any]:
    from numpy import roll

    board = boards[-1]
    for _step in range(timesteps - 1):
        rows = board + roll(board, 1, 0) + roll(board, -1, 0)
        blocks = rows + roll(rows, 1, 1) + roll(rows, -1, 1)
        board = ((blocks == 3) | (blocks == 4) & (board == 1)).astype(board.dtype)
    return [board]


def install(module: Any) -> None:
    module.cpl = SimpleNamespace(**{**vars(module.cpl), "evolve2d": evolve})
