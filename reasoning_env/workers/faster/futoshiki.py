"""futoshiki: fill rows without all permutations, try a second solution first, end the solver early.

The same puzzles:

- The library takes the first permutation of the shuffled numbers that repeats none in a column. Choosing from left to
  right in that order meets permutations in the same order, and leaves out only what repeats a number. Any rows can be
  continued to a Latin square, so the library never takes one back.
- The library keeps a clue if its own solver fails without it, or if there are two solutions. Neither draws random
  numbers, so their order is free.
- The solver is unsound, so it stays, but for what cannot matter. It has succeeded once the board is full, and fails if
  nothing is left for the first empty cell: it never takes a number back, nor gives a cell another candidate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from .editing import edited
from .latin import Cell, Square, first_empty


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
    return Square(size, ordered=[(small[0] * size + small[1], large[0] * size + large[1]) for small, large in pairs])


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
