"""futoshiki: fill rows without trying all permutations, and look for a second solution where it must differ.

The same puzzles:

- The library takes the first permutation of the shuffled numbers that repeats none in a column. Choosing from left to
  right in that order meets permutations in the same order, and leaves out only what repeats a number. Any rows can be
  continued to a Latin square, so the library never takes one back.
- The library keeps a clue if its own solver fails without it, or if there are two solutions. Neither draws random
  numbers, so their order is free. Before each removal there is one solution, at first the full board, so there are two
  exactly if one has another number in the emptied cell. The library's solver is unsound, so it is asked as before.
- Fewer clues never make a second solution go away: a clue kept for its sake is not tested again in the second round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from types import SimpleNamespace
from typing import Any

FILLED = 0.1
"""The share of cells that the library wants to leave filled."""
Cell = tuple[int, int]
Grid = list[list[int]]
Constraints = Mapping[tuple[Cell, Cell], str]


def generate_solution(_: Any, size: int, rng: Random) -> Grid:
    grid: Grid = []
    for _row in range(size):
        numbers = list(range(1, size + 1))
        rng.shuffle(numbers)
        grid.append(_first_row(numbers, list(zip(*grid, strict=True)) or [()] * size, []))
    return grid


def _first_row(numbers: list[int], columns: Sequence[Sequence[int]], row: list[int]) -> list[int]:
    """Complete a row with the first permutation of the numbers that fits below the columns; empty if none does."""
    if len(row) == len(numbers):
        return row
    for number in numbers:
        fits = number not in row and number not in columns[len(row)]
        if fits and (whole := _first_row(numbers, columns, [*row, number])):
            return whole
    return []


class Rules:
    """The rules of one puzzle. Cells are numbered by rows; what may stand in one is a bit mask, 1 for the number 1."""

    def __init__(self, size: int, constraints: Constraints) -> None:
        self._size, cells = size, size * size
        self._everything = (1 << size) - 1
        self._units = [range(start, start + size) for start in range(0, cells, size)]
        self._units += [range(start, cells, size) for start in range(size)]
        pairs = [pair if sign == "<" else pair[::-1] for pair, sign in constraints.items()]
        self._ordered = [(small[0] * size + small[1], large[0] * size + large[1]) for small, large in pairs]

    def has_other(self, grid: Grid, row: int, column: int, number: int) -> bool:
        """Whether the grid, whose cell at `row` and `column` is empty, has a solution with another number there."""
        masks = [1 << number - 1 if number else self._everything for line in grid for number in line]
        masks[row * self._size + column] ^= 1 << number - 1
        return self._solvable(masks)

    def _solvable(self, masks: list[int]) -> bool:
        before: list[int] = []
        while before != masks:
            before = masks.copy()
            if not self._narrow(masks):
                return False
        open_cells = [(mask.bit_count(), cell) for cell, mask in enumerate(masks) if mask & mask - 1]
        if not open_cells:
            return True
        _, cell = min(open_cells)
        bits = (1 << number for number in range(self._size) if masks[cell] >> number & 1)
        return any(self._solvable([*masks[:cell], bit, *masks[cell + 1 :]]) for bit in bits)

    def _narrow(self, masks: list[int]) -> bool:
        """Leave out what an inequality or a row or column rules out; False when nothing is left somewhere."""
        for small, large in self._ordered:
            masks[large] &= -((masks[small] & -masks[small]) << 1)
            masks[small] &= (1 << masks[large].bit_length() >> 1) - 1
        for unit in self._units:
            once = twice = placed = 0
            for cell in unit:
                mask = masks[cell]
                twice |= once & mask
                once |= mask
                if not mask & mask - 1:
                    if not mask or placed & mask:
                        return False
                    placed |= mask
            if once != self._everything:
                return False
            for cell in unit:
                mask = masks[cell]
                if mask & mask - 1:
                    # The one cell that a number can go to takes it.
                    masks[cell] = mask & ~twice or mask & ~placed
        return True


def remove_clues(self: Any, grid: Grid, constraints: Constraints, rng: Random) -> Grid:
    size = len(grid)
    target = int(FILLED * (size * size))
    rules = Rules(size, constraints)
    cells = [(row, column) for row in range(size) for column in range(size)]
    filled = len(cells)
    needed: set[Cell] = set()
    for enough in (0, 2 * target):
        if filled <= enough:
            break
        rng.shuffle(cells)
        for row, column in cells:
            number = grid[row][column]
            if filled <= target or number == 0 or (row, column) in needed:
                continue
            grid[row][column] = 0
            if rules.has_other(grid, row, column, number):
                needed.add((row, column))
            elif self._solve(grid, constraints) is not None:
                filled -= 1
                continue
            grid[row][column] = number
    return grid


def install(module: Any) -> None:
    module.copy = SimpleNamespace(deepcopy=lambda grid: [row.copy() for row in grid])
    module.FutoshikiDataset._generate_random_solution = generate_solution
    module.FutoshikiDataset._remove_clues = remove_clues
