"""sudoku: look for a second solution where it must differ; find candidates without walking the board.

The same puzzles: the first board is filled by trying the numbers of a set in its order, which depends on how the set
was made. It is made by the same subtraction; the order of what is taken away does not matter.
"""

from __future__ import annotations

from typing import Any

from .editing import edited
from .latin import Grid, Square, first_empty


def possible_values(_: Any, board: Grid, row: int, column: int) -> set[int]:
    left = column - column % 3
    first, second, third = [line[left : left + 3] for line in board[row - row % 3 :][:3]]
    return set(range(1, 10)) - {*board[row], *[line[column] for line in board], *first, *second, *third}


def install(module: Any) -> None:
    dataset = module.SudokuDataset
    dataset._get_possible_values = possible_values
    dataset._find_empty = lambda _, board: first_empty(board)
    # Cells are numbered by rows, and boxes of three by three cells alike.
    boxes = [[27 * (box // 3) + 3 * (box % 3) + 9 * (cell // 3) + cell % 3 for cell in range(9)] for box in range(9)]
    dataset._create_puzzle = edited(
        dataset._create_puzzle,
        {
            "num_removed = 0": "num_removed, square = 0, Square(9, boxes=boxes)",
            "copy.deepcopy(puzzle)": "None",
            "self._count_solutions(puzzle_copy) > 1": "square.needs((i, j), saved, puzzle)",
        },
        Square=Square,
        boxes=boxes,
    )
