"""futoshiki and sudoku: decide with bit masks whether a puzzle without one of its clues has a second solution.

The library keeps a clue if the puzzle without the clue has two solutions. With the clue, the puzzle has one solution.
So the second solution, if there is one, has a different number in the clue's cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

Grid = Sequence[Sequence[int]]


class Rules:
    """The rules of a puzzle: each number occurs once in each row, in each column and in each of the `boxes`.

    Cells are numbered row by row, and a set of cells is a bit mask. `ordered` has pairs of neighbouring cells. The
    first cell of a pair must have the smaller number.
    """

    def __init__(self, size: int, boxes: Iterable[Iterable[int]] = (), ordered: Iterable[tuple[int, int]] = ()) -> None:
        self._size, cells = size, range(size * size)
        self._everywhere = mask_of(cells)
        rows = (cells[start : start + size] for start in range(0, size * size, size))
        self._units = list(map(mask_of, (*rows, *(cells[start::size] for start in range(size)), *boxes)))
        self._bits = [1 << cell for cell in cells]
        self._near = [0] * len(cells)
        for cell, bit in enumerate(self._bits):
            for unit in self._units:
                self._near[cell] |= unit if unit & bit else 0
        lesser: dict[int, int] = {}
        for small, large in ordered:
            lesser[large - small] = lesser.get(large - small, 0) | 1 << small
        self._sweeps = [(range(size), small, step) for step, small in lesser.items()]
        self._sweeps += [(range(size - 1, -1, -1), moved(small, step), -step) for step, small in lesser.items()]

    def has_other(self, puzzle: Grid, row: int, column: int, number: int) -> bool:
        """Return True if `puzzle`, which lacks the clue `number` in a cell, can have another number there."""
        clues = [0] * (self._size + 1)
        seen = [0] * (self._size + 1)
        for clue, bit, near in zip(chain(*puzzle), self._bits, self._near, strict=True):
            clues[clue] |= bit
            seen[clue] |= near
        here = 1 << self._size * row + column
        cells = [clue | clues[0] & ~near for clue, near in zip(clues[1:], seen[1:], strict=True)]
        cells[number - 1] &= ~here
        return any(places & here for places in cells) and self._is_solvable(cells, self._everywhere ^ clues[0])

    def _is_solvable(self, cells: list[int], filled: int) -> bool:
        """Return True if the puzzle has a solution. `cells` has a set of possible cells for each number."""
        while True:
            single = self._find_single(cells, filled)
            if single is None:
                return False
            if not single and not self._compare(cells):
                break
            filled |= single
            for number, places in enumerate(cells):
                new = places & single
                while new:
                    here = new & -new
                    places &= ~self._near[here.bit_length() - 1] | here
                    new &= places & ~here
                cells[number] = places
        if filled == self._everywhere:
            return True
        _, twice, thrice = count(cells)
        pairs = twice & ~thrice & ~filled or self._everywhere & ~filled
        here = pairs & -pairs
        others = [places & ~here for places in cells]
        guesses = (number for number, places in enumerate(cells) if places & here)
        return any(
            self._is_solvable([*others[:number], cells[number], *others[number + 1 :]], filled) for number in guesses
        )

    def _compare(self, cells: list[int]) -> bool:
        """Remove numbers that contradict an inequality between two cells. Return True if a number was removed."""
        before = cells.copy()
        for numbers, firsts, step in self._sweeps:
            seconds = moved(firsts, step)
            passed = 0
            for number in numbers:
                places = cells[number]
                cells[number] = places & (~seconds | moved(passed, step))
                passed |= places & firsts
        return cells != before

    def _find_single(self, cells: list[int], filled: int) -> int | None:
        """Return the cells whose number is now certain, and update `cells`; None if the puzzle has no solution."""
        once, twice, _ = count(cells)
        if once != self._everywhere:
            return None
        single = self._everywhere & ~(twice | filled)
        if single:
            return single
        for number, places in enumerate(cells):
            for unit in self._units:
                here = places & unit
                if not here:
                    return None
                if not here & here - 1 and not here & filled:
                    single |= here
                    cells[:] = [other & ~here for other in cells]
                    cells[number] |= here
        return single


def mask_of(cells: Iterable[int]) -> int:
    return sum(1 << cell for cell in cells)


def moved(cells: int, step: int) -> int:
    """Return a set of cells, moved by `step` cells. Sets are bit masks."""
    return cells << step if step > 0 else cells >> -step


def count(masks: Iterable[int]) -> tuple[int, int, int]:
    """Return three masks: the bits that are set in at least one, at least two and at least three of `masks`."""
    once = twice = thrice = 0
    for mask in masks:
        thrice |= twice & mask
        twice |= once & mask
        once |= mask
    return once, twice, thrice
