"""sokoban: search with bit masks beside the board's text, and describe the board at once.

The library's A* looks for boxes and goals in a string of the board, many times for each position. The solutions are
the same:

- Positions are taken in the same order. The key of a position is its cost, its estimate and the board's text as bytes.
  Keys that tie compare by depth and path, as in the library. The board tells where the player and the boxes are.
- The heap holds the same entries. The library marks a position as seen when the position leaves the heap, so a position
  may be in the heap several times. All entries stay: the depth of the entry that leaves first can end the search.
- Deadlocks depend on the boxes alone. Estimates depend on the boxes and on the player's way to the nearest box off the
  goals. Outer squares are walls: the backward walk, which makes the board, does not go there.

The backward walk counts how often the board has looked the same. The text of the board is joined at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from heapq import heappop, heappush
from importlib import import_module
from types import ModuleType
from typing import Any

LEAVE, ENTER, FILL = (bytes.maketrans(*pair) for pair in ((b"*%", b"-X"), (b"-X@$", b"*%*%"), (b"-X", b"@$")))
"""The new sign of a square that the player leaves, of a square that the player enters, and of a box's new square."""
STEP_COST, PUSH_COST, PUSH_ONTO_GOAL_COST = 3, 2, 0


class Board:
    """What does not change during a search. Squares are numbered by rows; sets of them are bit masks."""

    def __init__(self, text: bytes, width: int) -> None:
        self.text, self.width, self.size = text, width, len(text)
        self.walls, self.goals, self.boxes = map(self._where, (b"+", b"X$%", b"@$"))
        self.player = self._where(b"*%").bit_length() - 1
        self.look_at = cache(self._look_at)

    def _where(self, characters: bytes) -> int:
        return _mask(square for square, character in enumerate(self.text) if character in characters)

    def estimate(self, boxes: int, player: int) -> int:
        loose, cost, _ = self.look_at(boxes)
        row, column = divmod(player, self.width)
        return cost + min((abs(r - row) + abs(c - column) for r, c in loose), default=0)

    def _look_at(self, boxes: int) -> tuple[list[tuple[int, int]], int, bool]:
        """Return which boxes are off the goals, the estimate without the player, and whether all is lost."""
        loose, free = self._places(boxes & ~self.goals), self._places(self.goals & ~boxes)
        ways = (min(abs(r - row) + abs(c - column) for r, c in free) for row, column in loose)
        return loose, len(loose) * self.size + sum(ways), self._is_deadlock(boxes)

    def _places(self, squares: int) -> list[tuple[int, int]]:
        return [divmod(square, self.width) for square in range(self.size) if squares >> square & 1]

    def _is_deadlock(self, boxes: int) -> bool:
        """Decide as the library does: a box off goals is in a corner or a block of four walls and boxes.

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


def solve(text: bytes, width: int, max_depth: int) -> str | None:
    """Find the moves that the library finds; None where it gives up."""
    board = Board(text, width)
    estimate = board.estimate(board.boxes, board.player)
    heap = [(0, estimate, text, 0, "", board.player, board.boxes)]
    seen = set()
    while heap:
        _, estimate, text, depth, path, player, boxes = heappop(heap)
        seen.add(text)
        for letter, offset in (("D", width), ("U", -width), ("L", -1), ("R", 1)):
            square, behind = player + offset, player + 2 * offset
            if board.walls >> square & 1:
                continue
            squares, after_boxes, cost = bytearray(text), boxes, STEP_COST
            squares[player], squares[square] = LEAVE[text[player]], ENTER[text[square]]
            if boxes >> square & 1:
                if (board.walls | boxes) >> behind & 1:
                    continue
                squares[behind] = FILL[text[behind]]
                after_boxes ^= 1 << square | 1 << behind
                cost = PUSH_ONTO_GOAL_COST if board.goals >> behind & 1 else PUSH_COST
            after, (loose, _, deadlock) = bytes(squares), board.look_at(after_boxes)
            if after in seen or deadlock:
                continue
            if not loose:
                return path + letter
            estimate_there = board.estimate(after_boxes, square)
            heappush(heap, (cost + estimate, estimate_there, after, depth + 1, path + letter, square, after_boxes))
        if depth > max_depth:
            break
    return None


def solve_astar(puzzle: Any, max_depth: int) -> tuple[str | None, None]:
    return solve("".join(map("".join, puzzle.tolist())).encode(), puzzle.shape[1], max_depth), None


def install(package: ModuleType) -> None:
    generator: Any = import_module(f"{package.__name__}.generator")
    player: Any = import_module(f"{package.__name__}.player")
    generator.solve_astar = solve_astar
    player.ReversePlayer.get_state = lambda self: "".join([element.char for element in self.game.puzzle.flat])
