"""sudoku: fill boards and look for second solutions with bit masks.

The same puzzles:

- The library fills the board cell by cell, with the first number that fits, in the order of a set of numbers. Numbers
  fit by the same rule, in the order of the same set.
- The library keeps a clue if the puzzle has two solutions without it. The puzzle has one solution before a clue is
  taken away, at first the full board. So there are two exactly if one of them has another number there.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from types import ModuleType

from . import edited

CELLS = range(81)
EVERYWHERE = (1 << 81) - 1
PLACES = [(cell // 9, 9 + cell % 9, 18 + cell // 27 * 3 + cell % 9 // 3) for cell in CELLS]
"""The row, column and box of each cell, cells by rows."""
UNITS = [sum(1 << cell for cell in CELLS if unit in PLACES[cell]) for unit in range(27)]
"""The cells of each row, column and box as a bit mask."""
NEAR = [UNITS[row] | UNITS[column] | UNITS[box] for row, column, box in PLACES]
"""The cells that share a unit with a cell, and itself."""


def fill(_: object, board: list[list[int]]) -> bool:
    """Fill the empty cells of a board as the library does."""
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
    """Return the numbers whose bits are not used, in the order of the library's set."""
    return tuple(set(range(1, 10)) - {0, *(number for number in range(1, 10) if used >> number & 1)})


def has_other(puzzle: Sequence[Sequence[int]], row: int, column: int, number: int) -> bool:
    """Tell whether a puzzle, in which a cell was emptied of a number, has a solution with another number there."""
    clues = [0] * 10
    seen = [0] * 10
    for cell, clue in enumerate(clue for line in puzzle for clue in line):
        clues[clue] |= 1 << cell
        seen[clue] |= NEAR[cell]
    here = 1 << 9 * row + column
    cells = [clue | clues[0] & ~near for clue, near in zip(clues[1:], seen[1:], strict=True)]
    cells[number - 1] &= ~here
    return any(places & here for places in cells) and is_solvable(cells, EVERYWHERE ^ clues[0])


def is_solvable(cells: list[int], filled: int) -> bool:
    """Tell whether a board can be filled. `cells` has the possible cells of each number, `filled` are done with."""
    while True:
        single = _find_single(cells, filled)
        if single is None:
            return False
        if not single:
            break
        filled |= single
        for number, places in enumerate(cells):
            new = places & single
            while new:
                here = new & -new
                places &= ~NEAR[here.bit_length() - 1] | here
                new &= places & ~here
            cells[number] = places
    if filled == EVERYWHERE:
        return True
    twice, thrice = _count(cells)[1:]
    pairs = twice & ~thrice & ~filled or EVERYWHERE & ~filled
    here = pairs & -pairs
    others = [places & ~here for places in cells]
    guesses = (number for number, places in enumerate(cells) if places & here)
    return any(is_solvable([*others[:number], cells[number], *others[number + 1 :]], filled) for number in guesses)


def _find_single(cells: list[int], filled: int) -> int | None:
    """Return the cells that can be filled now, each with its only number in `cells`; None if the board cannot be."""
    once, twice, _ = _count(cells)
    if once != EVERYWHERE:
        return None
    single = EVERYWHERE & ~(twice | filled)
    if single:
        return single
    for number, places in enumerate(cells):
        for unit in UNITS:
            here = places & unit
            if not here:
                return None
            if not here & here - 1 and not here & filled:
                single |= here
                cells[:] = [other & ~here for other in cells]
                cells[number] |= here
    return single


def _count(cells: Sequence[int]) -> tuple[int, int, int]:
    """Return the cells that at least one number, at least two and at least three may take."""
    once = twice = thrice = 0
    for places in cells:
        thrice |= twice & places
        twice |= once & places
        once |= places
    return once, twice, thrice


def install(module: ModuleType) -> None:
    dataset = module.SudokuDataset
    dataset._solve = fill
    dataset._create_puzzle = edited(
        dataset._create_puzzle,
        {
            "puzzle_copy = copy.deepcopy(puzzle)": "",
            "self._count_solutions(puzzle_copy) > 1": "has_other(puzzle, i, j, saved)",
        },
        has_other=has_other,
    )
