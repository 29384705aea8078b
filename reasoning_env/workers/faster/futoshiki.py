"""futoshiki: fill rows without all permutations, try a second solution first, solve with bit masks.

The same puzzles:

- The library takes the first permutation of the shuffled numbers that repeats none in a column. Choosing from left to
  right in that order meets permutations in the same order, and leaves out only what repeats a number. Any rows can be
  continued to a Latin square, so the library never takes one back.
- The library keeps a clue if its own solver fails without it, or if there are two solutions, of which `latin` tells.
  Neither draws random numbers, so their order is free.
- The solver is unsound, so `Solver` goes its way step by step, with a bit mask for each set of candidates. It ends
  earlier: the library's solver has succeeded once the board is full, and fails if nothing is left for the first empty
  cell, since it never takes a number back, nor gives an empty set another candidate.
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
    """Return the masks of the cells of a line."""
    return masks[line.start : line.stop : line.step]


def count_two(masks: Sequence[int]) -> int:
    """Return the bits of exactly two of the masks."""
    _, twice, thrice = count(masks)
    return twice & ~thrice


@cache
def pairs_of(mask: int) -> int:
    """Return a set of the pairs of numbers in a set, as a bit mask."""
    return sum(1 << 10 * a + b for a, b in combinations(values_of(mask), 2))


@cache
def values_of(mask: int) -> Sequence[int]:
    return [number for number in range(mask.bit_length()) if mask >> number & 1]


class Solver:
    """The library's solver, with the same rules in the same order. Bit n of a cell's mask allows the number n.

    Two rules depend on the order in which the library goes through a set of candidates. That is the order of the
    numbers, but not always in a set that was made of two numbers, as 8 or 9 may come first: `_order` has those.
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
        """Tell whether the library's solver fills the board; changes `numbers`."""
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
        """A number stands once in its row and in its column."""
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
        """A cell is less, or greater, than a filled neighbour."""
        before = masks.copy()
        for small, large in self._ordered:
            if numbers[small] and not numbers[large]:
                masks[large] &= -2 << numbers[small]
            elif numbers[large] and not numbers[small]:
                masks[small] &= (1 << numbers[large]) - 1
        return masks != before

    def _single_out(self, numbers: list[int], masks: list[int], empty: Sequence[int]) -> bool:
        """A cell takes the first of its numbers that no other cell of the row, or of the column, allows."""
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
        """Two cells with the same two numbers exclude these from the other cells of their line."""
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
        """Two cells keep two numbers that no third cell of their line allows both.

        The library compares the pairs of one cell with those of the other while it goes through these once.
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
                        if pair not in right:  # which is at its end now
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
        """Where two lines allow a number in the same two places only, no third line has it there."""
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
        """Return numbers of a cell in the library's order."""
        values = values_of(mask)
        order = self._order.get(cell)
        return values if order is None else sorted(values, key=order.index)


def rows_below(columns: Sequence[Sequence[int]], numbers: Sequence[int], *row: int) -> Iterator[tuple[int, ...]]:
    """Yield the permutations of the numbers that begin like a row and repeat none in a column."""
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
    """Return a function that tells whether the library keeps a clue, which was emptied of a number in a grid."""
    pairs = [pair if sign == "<" else pair[::-1] for pair, sign in constraints.items()]
    ordered = [(small[0] * size + small[1], large[0] * size + large[1]) for small, large in pairs]
    rules, solver = Rules(size, ordered=ordered), Solver(size, ordered, constraints)
    needed: set[Cell] = set()

    def keeps(cell: Cell, number: int, grid: Grid) -> bool:
        if cell not in needed and rules.has_other(grid, *cell, number):
            needed.add(cell)  # for good: every second solution remains when further clues are removed
        return cell in needed or not solver.succeeds([*chain(*grid)])

    return keeps
