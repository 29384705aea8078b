"""sudoku: fill boards and look for second solutions with bit masks.

Puzzles are the same as the library's. The library fills the board cell by cell with the first allowed number in the
iteration order of a set. This module builds an equal set, which has the same order. `latin` looks for second solutions.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType

from . import edited
from .latin import Rules

CELLS = range(81)
PLACES = [(cell // 9, 9 + cell % 9, 18 + cell // 27 * 3 + cell % 9 // 3) for cell in CELLS]
"""Numbers of each cell's row (0 to 8), column (9 to 17) and box (18 to 26). Cells are numbered row by row."""
RULES = Rules(9, [[cell for cell in CELLS if box in PLACES[cell]] for box in range(18, 27)])


def fill(_: object, board: list[list[int]]) -> bool:
    """Fill the empty cells of a board as the library does. Return False if the board has no solution."""
    used = [0] * 27
    for cell in CELLS:
        for unit in PLACES[cell]:
            used[unit] |= 1 << board[cell // 9][cell % 9] & -2
    empty = [cell for cell in CELLS if not board[cell // 9][cell % 9]]

    def fill_from(start: int) -> bool:
        if start == len(empty):
            return True
        cell = empty[start]
        row, column, box = PLACES[cell]
        for number in fitting(used[row] | used[column] | used[box]):
            bit = 1 << number
            used[row] |= bit
            used[column] |= bit
            used[box] |= bit
            board[cell // 9][cell % 9] = number
            if fill_from(start + 1):
                return True
            used[row] ^= bit
            used[column] ^= bit
            used[box] ^= bit
        board[cell // 9][cell % 9] = 0
        return False

    return fill_from(0)


@cache
def fitting(used: int) -> tuple[int, ...]:
    """Return the numbers whose bits are not set in `used`, in the order in which the library iterates over them."""
    return tuple(set(range(1, 10)) - {0, *(number for number in range(1, 10) if used >> number & 1)})


def install(module: ModuleType) -> None:
    dataset = module.SudokuDataset
    dataset._solve = fill
    dataset._create_puzzle = edited(
        dataset._create_puzzle,
        {
            "puzzle_copy = copy.deepcopy(puzzle)": "",
            "self._count_solutions(puzzle_copy) > 1": "has_other(puzzle, i, j, saved)",
        },
        has_other=RULES.has_other,
    )
