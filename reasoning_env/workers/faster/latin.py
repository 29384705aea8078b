"""Tell whether a puzzle whose rows, columns and boxes repeat no number has a second solution.

The puzzle has one solution before a clue is taken away, at first the full board. So without that clue it has two
exactly if one has another number there. With fewer clues no second solution goes away: a clue once needed stays needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Cell = tuple[int, int]
Grid = list[list[int]]


def first_empty(grid: Grid) -> Cell | None:
    return next(((row, numbers.index(0)) for row, numbers in enumerate(grid) if 0 in numbers), None)


class Square:
    """A puzzle's rules. Cells are numbered by rows; bit n - 1 of a cell's mask allows the number n.

    `boxes` are further sets of cells with different numbers, `ordered` pairs of cells with a lesser and a greater one.
    """

    def __init__(self, size: int, boxes: Iterable[Sequence[int]] = (), ordered: Iterable[tuple[int, int]] = ()) -> None:
        self._size, cells = size, size * size
        self._everything = (1 << size) - 1
        rows = [range(start, start + size) for start in range(0, cells, size)]
        self._units = [*rows, *(range(start, cells, size) for start in range(size)), *boxes]
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
