"""Boards: game_of_life_halting, kakurasu, maze and rearc."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from random import Random
from types import ModuleType
from typing import Any

from . import OF_BASE, edited


def find_room(rng: Random, taken: int, height: int, width: int, size: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """Yield the first free place of 1,000 that are drawn like two `randint(1, size - length - 1)`, if there is one.

    `taken` are the occupied cells by rows.
    """
    rows, columns = size[0] - height - 1, size[1] - width - 1
    if rows < 1 or columns < 1:
        raise ValueError("the pattern is larger than the board")
    bits, row_bits, column_bits = rng.getrandbits, rows.bit_length(), columns.bit_length()
    area = rectangle(height + 2, width + 2, size[1])
    for _ in range(1000):
        while (row := bits(row_bits)) >= rows:
            pass
        while (column := bits(column_bits)) >= columns:
            pass
        if not taken & area << row * size[1] + column:
            yield row + 1, column + 1
            return


@cache
def rectangle(height: int, width: int, line: int) -> int:
    """Return the cells of a rectangle in the first corner of a board, whose lines have a number of cells."""
    return sum((1 << width) - 1 << row * line for row in range(height))


@cache
def layout(rows: int, columns: int, number_type: Any) -> str:
    """Return how numpy writes a board, with a place for each cell."""
    from numpy import ones

    return str(ones((rows, columns), number_type)).replace("1", "{}")


def write_board(board: Any) -> str:
    """Return the text of a board of zeros and ones, which numpy writes cell by cell; large boards without a middle."""
    text = layout(*board.shape, board.dtype)
    return text.format(*board.flat) if text.count("{}") == board.size else str(board)


def install_game_of_life_halting(module: ModuleType) -> None:
    """Look for a pattern's place with bit masks, and write all boards of a size alike.

    The same boards: the library draws up to 1,000 places for a pattern, and looks at each cell of the place.
    """
    dataset = module.GameOfLifeHaltingDataset
    dataset.__getitem__ = edited(
        dataset.__getitem__,
        {
            "rng = Random(self.seed + idx)": "rng, taken = Random(self.seed + idx), 0",
            "while attempts > 0 and not placed:": "for i, j in find_room(rng, taken, height, width, (grid_x, grid_y)):",
            "i = rng.randint(1, grid_x - height - 1)": "",
            "j = rng.randint(1, grid_y - width - 1)": "",
            "placed = True": "taken |= rectangle(height + 2, width + 2, grid_y) << (i - 1) * grid_y + j - 1",
            "attempts -= 1": "",
            "str(initial_board)": "write_board(initial_board)",
        },
        find_room=find_room,
        rectangle=rectangle,
        write_board=write_board,
    )


@cache
def rows_of(columns: int, bits: int) -> dict[int, list[int]]:
    """Return all rows of kakurasu by the sum of their marked numbers. A row has a one for each marked column.

    A column has a number of bits.
    """
    rows = defaultdict(list)
    for mask in range(1 << columns):
        marked = [column for column in range(columns) if mask >> column & 1]
        rows[sum(marked) + len(marked)].append(sum(1 << bits * column for column in marked))
    return rows


def count_solutions(_: object, n: int, m: int, row_sums: list[int], col_sums: list[int], limit: int = 2) -> int:
    """Count the solutions as far as the limit; rows that count most come first.

    A column can have any sum up to that of all rows that are left. Each has one more bit, for a difference to borrow.
    """
    bits = (n * (n + 1) // 2).bit_length() + 1
    rows = rows_of(m, bits)
    ones = sum(1 << bits * column for column in range(m))
    borrow = ones << bits - 1

    def count(row: int, left: int) -> int:
        if row == 0:
            return 1
        found = 0
        most = ones * (row * (row - 1) // 2) | borrow
        for marked in rows.get(row_sums[row - 1], ()):
            rest = (left | borrow) - row * marked
            if rest & borrow == borrow and (most - (rest ^ borrow)) & borrow == borrow:
                found += count(row - 1, rest ^ borrow)
                if found >= limit:
                    return limit
        return found

    return count(n, sum(number << bits * column for column, number in enumerate(col_sums)))


def install_kakurasu(module: ModuleType) -> None:
    """Count solutions with sums of all columns in one number, and leave a branch that no row can complete.

    The same puzzles: the library asks only whether there is one solution.
    """
    module.KakurasuDataset._count_solutions = count_solutions


def make_maze(self: Any, rng: Random, size: int) -> list[list[str]]:
    wall, path, draw, share = self.wall_char, self.path_char, rng.random, self.prob_path
    inner = range(size - 2)
    rows = [[wall, *[path if draw() < share else wall for _ in inner], wall] for _ in inner]
    return [[wall] * size, *rows, [wall] * size]


def count_steps(self: Any, grid: list[list[str]], start_r: int, start_c: int, goal_r: int, goal_c: int) -> int | None:
    """Return the steps to the goal; None where it is out of reach, or farther than a maze may have it."""
    size = len(grid)
    open_cells = int("".join("0" if cell == self.wall_char else "1" for row in reversed(grid) for cell in row[::-1]), 2)
    reached, goal = 1 << start_r * size + start_c, 1 << goal_r * size + goal_c
    for steps in range(self.config.max_dist + 1):
        if reached & goal:
            return steps
        reached |= (reached << 1 | reached >> 1 | reached << size | reached >> size) & open_cells
    return None


def install_maze(module: ModuleType) -> None:
    """Draw a row at once, and step from all reached cells together.

    The same mazes: cells are drawn in the same order; walls on all sides keep steps from going around the border; and a
    maze whose goal is too far away is drawn again like one whose goal is out of reach.
    """
    dataset = module.MazeDataset
    dataset._generate_random_maze = make_maze
    dataset._bfs_shortest_path = count_steps


def count_areas(grid: Sequence[Sequence[int]]) -> int:
    """Count the areas of cells of one colour that touch side by side."""
    width = len(grid[0]) + 1  # a gap, so that no row touches the next
    cells: defaultdict[int, int] = defaultdict(int)
    place = 1
    for row in grid:
        for color in row:
            cells[color] |= place
            place <<= 1
        place <<= 1
    areas = 0
    for left in cells.values():
        alone = left & ~(left << 1 | left >> 1 | left << width | left >> width)
        areas += alone.bit_count()
        left ^= alone
        while left:
            area, before = left & -left, 0
            while area != before:
                before = area
                area |= (area << 1 | area >> 1 | area << width | area >> width) & left
            left ^= area
            areas += 1
    return areas


def pso_difficulty(example: Mapping[str, Sequence[Sequence[int]]]) -> float:
    boards = example["input"], example["output"]
    pixels, other_pixels = (len(board) * len(board[0]) for board in boards)
    areas, other_areas = map(count_areas, boards)
    colors = {color for board in boards for row in board for color in row}
    density = (areas / pixels + other_areas / other_pixels) / 2
    return ((pixels + other_pixels) / 1800 + len(colors) / 10 + density) / 3


def install_rearc(module: ModuleType) -> None:
    """Count the objects of a puzzle with bit masks; the library builds them as sets.

    The same puzzles: the library draws until the difficulty, which is computed in the same order, is in a range.
    """
    dataset = module.ReArcDataset
    dataset.__init__ = edited(
        dataset.__init__,
        {**OF_BASE, "self.get_pso_difficulty = get_pso_difficulty": "self.get_pso_difficulty = pso_difficulty"},
        pso_difficulty=pso_difficulty,
    )
