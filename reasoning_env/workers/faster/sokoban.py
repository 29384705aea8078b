"""sokoban: search with bit masks and whole numbers in place of strings, and describe the board at once.

The library's A* looks for boxes and goals in a string of the board, many times for each position. The same solutions:

- Positions are taken in the same order. A position's key has the same cost and estimate and then a number that compares
  as the board's text does: three bits a square, the first square highest, in the order of the characters' codes. What
  ties after that, depth and path, compares as in the library; player and boxes follow from the board.
- The heap holds the same entries. The library marks positions as seen when it takes them, not when it puts them in, so
  that one may be there many times; all stay, as the depth of whichever is taken can end the search.
- Deadlocks, and estimates but for the player's way to the nearest box off the goals, depend on the boxes alone. Outer
  squares are walls: the backward walk, which makes the board, does not go there.

That walk describes the whole board at each step, to count how often it has looked like that: the same text, joined at
once.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from heapq import heappop, heappush
from typing import NamedTuple

from .replacement import FindModule, Replacement

CODES = {character: code for code, character in enumerate("$%*+-@X")}
"""A box and the player on a goal, the player, a wall, nothing, a box, a goal: in the order of the characters' codes."""
ON_GOAL = {"-": "X", "*": "%", "@": "$"}
STEP_COST, PUSH_COST, PUSH_ONTO_GOAL_COST = 3, 2, 0


class Boxes(NamedTuple):
    """What the places of the boxes tell: those off the goals, the estimate without the player, whether all is lost."""

    loose: list[tuple[int, int]]
    cost: int
    deadlock: bool


class Board:
    """What does not change during a search. Squares are numbered by rows; sets of them are bit masks."""

    def __init__(self, rows: list[list[str]]) -> None:
        self.text = "".join(map("".join, rows))
        self.size, self.width = len(self.text), len(rows[0])
        self.walls, self.goals, self.boxes = map(self._where, ("+", "X$%", "@$"))
        self.player = next(square for square, character in enumerate(self.text) if character in "*%")
        self._shifts = range(3 * (self.size - 1), -1, -3)
        self.number = sum(CODES[character] << shift for character, shift in zip(self.text, self._shifts, strict=True))
        self.look_at = cache(self._look_at)

    def _where(self, characters: str) -> int:
        return _mask(square for square, character in enumerate(self.text) if character in characters)

    def changes(self, before: str, after: str) -> list[int]:
        """What a change on each square adds to the board's number; characters are those off the goals."""
        return [
            CODES[ON_GOAL[after]] - CODES[ON_GOAL[before]] << shift
            if self.goals >> square & 1
            else CODES[after] - CODES[before] << shift
            for square, shift in enumerate(self._shifts)
        ]

    def estimate(self, boxes: Boxes, player: int) -> int:
        row, column = divmod(player, self.width)
        return boxes.cost + min((abs(r - row) + abs(c - column) for r, c in boxes.loose), default=0)

    def _look_at(self, boxes: int) -> Boxes:
        loose, free = self._places(boxes & ~self.goals), self._places(self.goals & ~boxes)
        ways = (min(abs(r - row) + abs(c - column) for r, c in free) for row, column in loose)
        return Boxes(loose, len(loose) * self.size + sum(ways), self._is_deadlock(boxes))

    def _places(self, squares: int) -> list[tuple[int, int]]:
        return [divmod(square, self.width) for square in range(self.size) if squares >> square & 1]

    def _is_deadlock(self, boxes: int) -> bool:
        """Decide as the library does: a box off the goals is in a corner or in a block of four walls and boxes.

        Or a line along the outer walls holds more such boxes than free goals.
        """
        loose, free, walls, width, size = boxes & ~self.goals, self.goals & ~boxes, self.walls, self.width, self.size
        if loose & (walls >> 1 | walls << 1) & (walls >> width | walls << width):
            return True
        full = walls | boxes
        blocks = full & full >> 1 & full >> width & full >> width + 1
        if loose & (blocks | blocks << 1 | blocks << width | blocks << width + 1):
            return True
        lines = [range(width + 1, 2 * width - 1), range(size - 2 * width + 1, size - width - 1)]
        lines += [range(width + 1, size - width + 1, width), range(2 * width - 2, size - 2, width)]
        return any((loose & line).bit_count() > (free & line).bit_count() for line in map(_mask, lines))


def _mask(squares: Iterable[int]) -> int:
    return sum(1 << square for square in squares)


def solve(rows: list[list[str]], max_depth: int) -> str | None:
    """Find the moves that the library finds; None where it gives up."""
    board = Board(rows)
    leave, enter = board.changes("*", "-"), board.changes("-", "*")
    uncover, cover = board.changes("@", "*"), board.changes("-", "@")
    estimate = board.estimate(board.look_at(board.boxes), board.player)
    heap = [(0, estimate, board.number, 0, "", board.player, board.boxes)]
    seen = set()
    while heap:
        _, estimate, number, depth, path, player, boxes = heappop(heap)
        seen.add(number)
        for letter, offset in (("D", board.width), ("U", -board.width), ("L", -1), ("R", 1)):
            square, behind = player + offset, player + 2 * offset
            after, after_boxes, cost = number + leave[player], boxes, STEP_COST
            if board.walls >> square & 1:
                continue
            if not boxes >> square & 1:
                after += enter[square]
            elif (board.walls | boxes) >> behind & 1:
                continue
            else:
                after += uncover[square] + cover[behind]
                after_boxes ^= 1 << square | 1 << behind
                cost = PUSH_ONTO_GOAL_COST if board.goals >> behind & 1 else PUSH_COST
            there = board.look_at(after_boxes)
            if after in seen or there.deadlock:
                continue
            if not there.loose:
                return path + letter
            estimate_there = board.estimate(there, square)
            heappush(heap, (cost + estimate, estimate_there, after, depth + 1, path + letter, square, after_boxes))
        if depth > max_depth:
            break
    return None


def install(find_module: FindModule) -> None:
    folder = "games.contrib.sokoban.src"
    find_module(f"{folder}.generator").solve_astar = lambda puzzle, max_depth: (solve(puzzle.tolist(), max_depth), None)
    player = find_module(f"{folder}.player").ReversePlayer
    player.get_state = lambda self: "".join([element.char for element in self.game.puzzle.flat])


REPLACEMENTS = (Replacement("sokoban", "games/contrib/sokoban/src", "7549344e2aaa16b2", install),)
