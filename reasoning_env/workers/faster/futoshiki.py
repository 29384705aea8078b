"""futoshiki: skip useless permutations, check for a second solution before solving, and solve with bit masks.

Puzzles are the same as the library's:

- The library fills a row with the first permutation of the shuffled numbers that fits: no column repeats a number.
  `rows_below` yields only permutations that fit, in the same order. Such rows can always be completed to a Latin
  square, so the library never undoes a row.
- The library keeps a clue if its own solver fails without the clue, or if there are two solutions (checked by `latin`).
  Neither check uses random numbers, so their order does not matter.
- The library's solver misses some solutions, so `Solver` does the same steps in the same order, with a bit mask for
  each set of candidates. `Solver` stops as soon as the result is certain. The library's solver never undoes a number
  and never adds candidates, so it succeeds once the board is full, and fails once an empty cell has no candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, combinations, permutations
from types import SimpleNamespace
from typing import Any

from . import edited
from .latin import Grid, Rules, count

Cell = tuple[int, int]
Line = range
"""The cells of a row or of a column."""


def on(line: Line, masks: Sequence[int]) -> Sequence[int]:
    """Return the items of `masks` for the cells of a row or of a column."""
    return masks[line.start : line.stop : line.step]


def count_two(masks: Sequence[int]) -> int:
    """Return the bits that are set in exactly two of the masks."""
    _, twice, thrice = count(masks)
    return twice & ~thrice


@cache
def pairs_of(mask: int) -> int:
    """Return a bit mask of all pairs of numbers in `mask`: bit 10 * a + b stands for the pair a < b."""
    return sum(1 << 10 * a + b for a, b in combinations(values_of(mask), 2))


@cache
def values_of(mask: int) -> Sequence[int]:
    return [number for number in range(mask.bit_length()) if mask >> number & 1]


class Solver:
    """The library's solver, with the same rules in the same order. Bit n of a cell's mask means that n is possible.

    The method of each rule returns True if all rules must be applied once more.

    Two rules depend on the order in which Python iterates over a set of candidates. This order is ascending, except in
    some sets of two numbers, in which 8 or 9 comes first. `_order` has the order of these sets.
    """

    def __init__(self, size: int, ordered: Sequence[tuple[int, int]], constraints: Mapping[tuple[Cell, Cell], str]):
        self._size, cells = size, range(size * size)
        self._ordered = ordered
        self._rows: list[Line] = [cells[start : start + size] for start in range(0, size * size, size)]
        self._columns: list[Line] = [cells[start::size] for start in range(size)]
        self._impossible = [0] * len(cells)
        for ((row, column), _), sign in constraints.items():
            self._impossible[row * size + column] |= 1 << (1 if sign == ">" else size)

    def succeeds(self, numbers: list[int]) -> bool:
        """Return True if the library's solver would fill the whole board `numbers`. Changes `numbers`."""
        everything = (2 << self._size) - 2
        masks = [1 << number if number else everything for number in numbers]
        masks = [mask & ~impossible for mask, impossible in zip(masks, self._impossible, strict=True)]
        self._order: dict[int, tuple[int, ...]] = {}
        empty = [cell for cell, number in enumerate(numbers) if not number]
        rules = (self._exclude, self._compare, self._single_out, self._pair, self._hide, self._wing)
        progress = True
        while progress:
            progress = False
            for rule in rules:
                progress |= rule(numbers, masks, empty)
                for cell in empty:
                    mask = masks[cell]
                    if mask and not mask & mask - 1:
                        numbers[cell] = mask.bit_length() - 1
                empty = [cell for cell in empty if not numbers[cell]]
                if not empty or not masks[empty[0]]:
                    return not empty
        cell = empty[0]
        return any(self.succeeds(guess) for guess in self._guesses(numbers, cell, values_of(masks[cell])))

    def _guesses(self, numbers: list[int], cell: int, values: Iterable[int]) -> Iterator[list[int]]:
        row, column = divmod(cell, self._size)
        seen = {numbers[other] for line in (self._rows[row], self._columns[column]) for other in line}
        for value in values:
            guess = [*numbers[:cell], value, *numbers[cell + 1 :]]
            pairs = ((guess[small], guess[large]) for small, large in self._ordered)
            if value not in seen and all(not small or not large or small < large for small, large in pairs):
                yield guess

    def _exclude(self, numbers: list[int], masks: list[int], empty: Sequence[int]) -> bool:
        """Remove each filled number from the candidates in its row and column."""
        before = masks.copy()
        placed = [1 << number & -2 for number in numbers]
        in_row, in_column = ([count(on(line, placed)) for line in lines] for lines in (self._rows, self._columns))
        for cell in empty:
            row, column = divmod(cell, self._size)
            masks[cell] &= ~(in_row[row][0] | in_column[column][0])
        for line, (_, twice, _) in zip((*self._rows, *self._columns), (*in_row, *in_column), strict=True):
            for cell in line if twice else ():
                masks[cell] &= ~(placed[cell] & twice)
        return masks != before

    def _compare(self, numbers: list[int], masks: list[int], empty: Sequence[int]) -> bool:
        """Remove candidates that contradict an inequality with a filled neighbour."""
        before = masks.copy()
        for small, large in self._ordered:
            if numbers[small] and not numbers[large]:
                masks[large] &= -2 << numbers[small]
            elif numbers[large] and not numbers[small]:
                masks[small] &= (1 << numbers[large]) - 1
        return masks != before

    def _single_out(self, numbers: list[int], masks: list[int], empty: Sequence[int]) -> bool:
        """If a cell is the only place in its row or column for some candidates, keep only the first of these there."""
        in_row, in_column = ([count(on(line, masks))[1] for line in lines] for lines in (self._rows, self._columns))
        for cell in empty:
            row, column = divmod(cell, self._size)
            single = masks[cell] & ~(in_row[row] & in_column[column])
            if single:
                masks[cell] = 1 << self._values(cell, single)[0]
                in_row[row] = count(on(self._rows[row], masks))[1]
                in_column[column] = count(on(self._columns[column], masks))[1]
        return False

    def _pair(self, numbers: list[int], masks: list[int], empty: Sequence[int]) -> bool:
        """If two cells of a line have the same two candidates, remove these two from the line's other cells."""
        progress = False
        for cell in empty:
            pair = masks[cell]
            if pair.bit_count() != 2:
                continue
            for line in self._lines(cell):
                for other in line:
                    if other != cell and masks[other] == pair:
                        for third in line:
                            if third not in (cell, other) and masks[third] & pair:
                                masks[third] &= ~pair
                                progress = True
        return progress

    def _hide(self, numbers: list[int], masks: list[int], empty: Sequence[int]) -> bool:
        """If exactly two cells of a line have both candidates of a pair, remove the other candidates of the two cells.

        The library looks up each pair of the first cell in an iterator over the second cell's pairs, and never restarts
        the iterator. So it misses some pairs, and this method misses the same pairs.
        """
        pairs = [pairs_of(mask) for mask in masks]
        lines = {line for cell in empty for line in self._lines(cell)}
        shared = {line: count_two(on(line, pairs)) for line in lines}
        for cell in empty:
            for line in self._lines(cell):
                if not pairs[cell] & shared[line]:
                    continue
                for other in line:
                    hidden = pairs[cell] & pairs[other] & shared[line] if other > cell and not numbers[other] else 0
                    if not hidden:
                        continue
                    values, others = self._values(cell, masks[cell]), self._values(other, masks[other])
                    if values[0] not in others or values[1] not in others:
                        continue
                    before = masks[cell], masks[other]
                    right = permutations(others, 2)
                    for pair in permutations(values, 2):
                        if pair not in right:  # the iterator is exhausted
                            break
                        both = 1 << pair[0] | 1 << pair[1]
                        if hidden & pairs_of(both):
                            masks[cell] = masks[other] = both
                            self._order[cell] = self._order[other] = tuple(set(pair))
                    if before != (masks[cell], masks[other]):
                        pairs[cell], pairs[other] = pairs_of(masks[cell]), pairs_of(masks[other])
                        for changed in (*self._lines(cell), *self._lines(other)):
                            shared[changed] = count_two(on(changed, pairs))
        return False

    def _wing(self, numbers: list[int], masks: list[int], empty: Sequence[int]) -> bool:
        """If two lines allow a number only at the same two places, remove it at these places from all other lines."""
        before = masks.copy()
        for lines in (self._rows, self._columns):
            twice = [count_two(on(line, masks)) for line in lines]
            for number in values_of(count(twice)[1]):
                places = {
                    at: [place for place, cell in enumerate(line) if masks[cell] >> number & 1]
                    for at, line in enumerate(lines)
                    if twice[at] >> number & 1
                }
                for first, second in combinations(places, 2):
                    if places[first] == places[second]:
                        for at, line in enumerate(lines):
                            for place in places[first] if at not in (first, second) else ():
                                masks[line[place]] &= ~(1 << number)
        return masks != before

    def _lines(self, cell: int) -> tuple[Line, Line]:
        row, column = divmod(cell, self._size)
        return self._rows[row], self._columns[column]

    def _values(self, cell: int, mask: int) -> Sequence[int]:
        """Return the candidates of a cell in the library's order."""
        values = values_of(mask)
        order = self._order.get(cell)
        return values if order is None else sorted(values, key=order.index)


def rows_below(columns: Sequence[Sequence[int]], numbers: Sequence[int], *row: int) -> Iterator[tuple[int, ...]]:
    """Yield the permutations of `numbers` that begin with `row` and fit below `columns`: no column repeats a number."""
    if len(row) == len(numbers):
        yield row
    else:
        for number in numbers:
            if number not in row and number not in columns[len(row)]:
                yield from rows_below(columns, numbers, *row, number)


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
            "size = len(grid)": "size, keeps = len(grid), keeper(len(grid), constraints)",
            "self._solve(copy.deepcopy(grid), constraints)": "None if keeps((r, c), saved, grid) else grid",
            "self.count_solutions(copy.deepcopy(grid), constraints, limit=2) > 1": "False",
        },
        keeper=keeper,
    )


def keeper(size: int, constraints: Mapping[tuple[Cell, Cell], str]) -> Callable[[Cell, int, Grid], bool]:
    """Return a function that says whether the library puts back a number that it has removed from a grid."""
    pairs = [pair if sign == "<" else pair[::-1] for pair, sign in constraints.items()]
    ordered = [(small[0] * size + small[1], large[0] * size + large[1]) for small, large in pairs]
    rules, solver = Rules(size, ordered=ordered), Solver(size, ordered, constraints)
    needed: set[Cell] = set()

    def keeps(cell: Cell, number: int, grid: Grid) -> bool:
        if cell not in needed and rules.has_other(grid, *cell, number):
            needed.add(cell)  # later calls pass grids with fewer clues, which also have the second solution
        return cell in needed or not solver.succeeds([*chain(*grid)])

    return keeps
