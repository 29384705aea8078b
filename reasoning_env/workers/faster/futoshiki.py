"""futoshiki: fill rows without all permutations, try a second solution first, end the solver early.

The same puzzles:

- The library takes the first permutation of the shuffled numbers that repeats none in a column. Choosing from left to
  right in that order meets permutations in the same order, and leaves out only what repeats a number. Any rows can be
  continued to a Latin square, so the library never takes one back.
- The library keeps a clue if its own solver fails without it, or if there are two solutions. Neither draws random
  numbers, so their order is free.
- The solver is unsound, so it stays, but for what cannot matter. It has succeeded once the board is full, and fails if
  nothing is left for the first empty cell: it never takes a number back, nor gives a cell another candidate.

`Square` tells whether a puzzle has a second solution. The puzzle has one solution before a clue is taken away, at
first the full board. So the puzzle without that clue has two solutions exactly if one of them has another number there.
Removing clues keeps every second solution: a clue once needed stays needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from . import edited

Cell = tuple[int, int]
Grid = list[list[int]]


def first_empty(grid: Grid) -> Cell | None:
    return next(((row, numbers.index(0)) for row, numbers in enumerate(grid) if 0 in numbers), None)


class Square:
    """A puzzle's rules. Cells are numbered by rows; bit n - 1 of a cell's mask allows the number n.

    `ordered` are pairs of cells with a lesser and a greater number.
    """

    def __init__(self, size: int, ordered: Iterable[tuple[int, int]]) -> None:
        self._size, cells = size, size * size
        self._everything = (1 << size) - 1
        rows = [range(start, start + size) for start in range(0, cells, size)]
        self._units = [*rows, *(range(start, cells, size) for start in range(size))]
        self._ordered = [*ordered]
        self._needed: set[Cell] = set()

    def needs(self, cell: Cell, number: int, grid: Grid) -> bool:
        """Tell whether the grid, in which a cell is emptied of a number, has a second solution."""
        if cell not in self._needed:
            masks = [1 << number - 1 if number else self._everything for line in grid for number in line]
            masks[cell[0] * self._size + cell[1]] ^= 1 << number - 1
            if self._solvable(masks):
                self._needed.add(cell)
        return cell in self._needed

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
        """Leave out what an inequality or a unit of cells rules out; False when nothing is left somewhere."""
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


def rows_below(columns: Sequence[Sequence[int]], numbers: Sequence[int], *row: int) -> Iterator[tuple[int, ...]]:
    """Yield the permutations of the numbers that begin like a row and repeat none in a column."""
    if len(row) == len(numbers):
        yield row
    else:
        for number in numbers:
            if number not in row and number not in columns[len(row)]:
                yield from rows_below(columns, numbers, *row, number)


def square_of(size: int, constraints: Mapping[tuple[Cell, Cell], str]) -> Square:
    pairs = [pair if sign == "<" else pair[::-1] for pair, sign in constraints.items()]
    return Square(size, [(small[0] * size + small[1], large[0] * size + large[1]) for small, large in pairs])


def install(module: Any) -> None:
    module.copy = SimpleNamespace(deepcopy=lambda grid: [row.copy() for row in grid])
    dataset = module.FutoshikiDataset
    dataset._generate_random_solution = edited(
        dataset._generate_random_solution,
        {"itertools.permutations(nums)": "rows_below(list(zip(*grid)), nums)"},
        rows_below=rows_below,
    )
    dataset._remove_clues = edited(
        dataset._remove_clues,
        {
            "size = len(grid)": "size, square = len(grid), square_of(len(grid), constraints)",
            "sol = self": "sol = None if square.needs((r, c), saved, grid) else self",
            "self.count_solutions(copy.deepcopy(grid), constraints, limit=2) > 1": "False",
        },
        square_of=square_of,
    )
    in_row = "[v in cell for cell in candidates[r]].count(True)"
    in_column = "[v in row[c] for row in candidates].count(True)"
    dataset._solve_logical = edited(
        dataset._solve_logical,
        {
            "while _try_solve_logical():": """\
while (cell := first_empty(working_grid)) and candidates[cell[0]][cell[1]] and _try_solve_logical():""",
            "sum(v in candidates[r][cc] for cc in range(len(working_grid)))": in_row,
            "sum(v in candidates[rr][c] for rr in range(len(working_grid)))": in_column,
            "sum(v in candidates[r][c] for c in range(size))": in_row,
            "sum(v in candidates[r][c] for r in range(size))": in_column,
            "if pair in itertools.permutations(candidates[r][ccc], 2):": "if candidates[r][ccc].issuperset(pair):",
            "if pair in itertools.permutations(candidates[rrr][c], 2):": "if candidates[rrr][c].issuperset(pair):",
        },
        first_empty=first_empty,
    )
