"""sokoban: search with bit masks and with the board as bytes.

The library's A* scans a string of the board many times per position. This module finds the same solutions:

- Positions are visited in the same order. The key of a position is its cost, its estimate and the board as bytes, which
  show the player and the boxes. Equal keys are compared by depth and path, as in the library.
- The heap has the same entries. A position may be in the heap several times, because the library marks a position as
  seen only when the position leaves the heap. All entries are kept, because the search ends at the first entry that is
  too deep, which may be a duplicate. The moves from a position are cached, without moves to positions that have left
  the heap.
- Deadlocks depend only on the boxes. Estimates depend on the boxes and on the player's distance to the nearest box that
  is not on a goal. Outer squares are walls, because the backward search that makes the board never enters them.

`get_state` returns the same string as the library's method, but faster.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache
from heapq import heappop, heappush
from importlib import import_module
from operator import attrgetter
from types import ModuleType
from typing import Any, NamedTuple

LEAVE, ENTER, FILL = (bytes.maketrans(*pair) for pair in ((b"*%", b"-X"), (b"-X@$", b"*%*%"), (b"-X", b"@$")))
"""Tables from old to new characters of a square: if the player leaves it, if the player enters it, if it gets a box."""
CHARACTER = attrgetter("char")
STEP_COST, PUSH_COST, PUSH_ONTO_GOAL_COST = 3, 2, 0


class BoxFacts(NamedTuple):
    """Squares of boxes off goals, what these boxes add to A*'s estimate, and whether there is a deadlock."""

    loose: list[int]
    cost: int
    is_lost: bool


class Move(NamedTuple):
    """A move: its letter, its key in the heap (`cost`, `estimate`, `text`), and the player and boxes after the move."""

    letter: str
    cost: int
    estimate: int
    text: bytes
    player: int
    boxes: int


class Board:
    """The constant data of a search. Squares are numbered row by row; sets of squares are bit masks."""

    def __init__(self, text: bytes, width: int) -> None:
        self.text, self.width, self.size = text, width, len(text)
        self.walls, self.goals, self.boxes = map(self._where, (b"+", b"X$%", b"@$"))
        self.player = self._where(b"*%").bit_length() - 1
        width, size = self.width, self.size
        lines = [range(width + 1, 2 * width - 1), range(size - 2 * width + 1, size - width - 1)]
        lines += [range(width + 1, size - width + 1, width), range(2 * width - 2, size - 2, width)]
        self._lines = [_mask(line) for line in lines]
        self._cached_box_facts = cache(self._box_facts)

    def _where(self, characters: bytes) -> int:
        return _mask(square for square, character in enumerate(self.text) if character in characters)

    def moves(self, text: bytes, player: int, boxes: int) -> list[Move]:
        """Return the player's moves from a position, without moves that cause a deadlock."""
        before, moves = self._estimate(boxes, player), []
        for letter, offset in (("D", self.width), ("U", -self.width), ("L", -1), ("R", 1)):
            square, behind = player + offset, player + 2 * offset
            if self.walls >> square & 1:
                continue
            squares, after_boxes, cost = bytearray(text), boxes, STEP_COST
            squares[player], squares[square] = LEAVE[text[player]], ENTER[text[square]]
            if boxes >> square & 1:
                if (self.walls | boxes) >> behind & 1:
                    continue
                squares[behind] = FILL[text[behind]]
                after_boxes ^= 1 << square | 1 << behind
                cost = PUSH_ONTO_GOAL_COST if self.goals >> behind & 1 else PUSH_COST
            if not self._cached_box_facts(after_boxes).is_lost:
                estimate = self._estimate(after_boxes, square)
                moves.append(Move(letter, before + cost, estimate, bytes(squares), square, after_boxes))
        return moves

    def _estimate(self, boxes: int, player: int) -> int:
        facts = self._cached_box_facts(boxes)
        return facts.cost + min(map(distances(player, self.width, self.size).__getitem__, facts.loose), default=0)

    def _box_facts(self, boxes: int) -> BoxFacts:
        loose, free = places(boxes & ~self.goals), places(self.goals & ~boxes)
        ways = (min(map(distances(box, self.width, self.size).__getitem__, free)) for box in loose)
        return BoxFacts(loose, len(loose) * self.size + sum(ways), self._is_deadlock(boxes))

    def _is_deadlock(self, boxes: int) -> bool:
        """Return True for any of the deadlocks that the library defines:

        - A box that is not on a goal is in a corner.
        - A box that is not on a goal is in a block of 2 x 2 squares with only walls and boxes.
        - Along an outer wall, the boxes that are not on goals outnumber the free goals.
        """
        loose, free, walls, width = boxes & ~self.goals, self.goals & ~boxes, self.walls, self.width
        if loose & (walls >> 1 | walls << 1) & (walls >> width | walls << width):
            return True
        full = walls | boxes
        blocks = full & full >> 1 & full >> width & full >> width + 1
        if loose & (blocks | blocks << 1 | blocks << width | blocks << width + 1):
            return True
        return any((loose & line).bit_count() > (free & line).bit_count() for line in self._lines)


@lru_cache(4096)
def distances(square: int, width: int, size: int) -> list[int]:
    """Return the number of steps from `square` to each square of an empty board."""
    row, column = divmod(square, width)
    return [abs(other // width - row) + abs(other % width - column) for other in range(size)]


def places(squares: int) -> list[int]:
    found = []
    while squares:
        found.append(squares.bit_length() - 1)
        squares ^= 1 << found[-1]
    return found


def _mask(squares: Iterable[int]) -> int:
    return sum(1 << square for square in squares)


def solve(text: bytes, width: int, max_depth: int) -> str | None:
    """Return the moves that the library finds; None if it gives up."""
    board = Board(text, width)
    heap = [(0, 0, text, 0, "", board.player, board.boxes)]
    known: dict[bytes, list[Move]] = {}
    while heap:
        _, _, text, depth, path, player, boxes = heappop(heap)
        # For four of five entries, the moves from their position were computed before.
        moves = known[text] if text in known else board.moves(text, player, boxes)
        known[text] = moves = [move for move in moves if move.text not in known]
        for letter, cost, estimate, after, square, after_boxes in moves:
            if not after_boxes & ~board.goals:
                return path + letter
            heappush(heap, (cost, estimate, after, depth + 1, path + letter, square, after_boxes))
        if depth > max_depth:
            break
    return None


def solve_astar(puzzle: Any, max_depth: int) -> tuple[str | None, None]:
    return solve("".join(map("".join, puzzle.tolist())).encode(), puzzle.shape[1], max_depth), None


def get_state(player: Any) -> str:
    """Return the board as a string."""
    if not player.curr_state:  # build the list only once, because the library changes its elements in place
        player.elements = player.game.puzzle.flatten().tolist()
    return "".join(map(CHARACTER, player.elements))


def install(package: ModuleType) -> None:
    generator: Any = import_module(f"{package.__name__}.generator")
    player: Any = import_module(f"{package.__name__}.player")
    generator.solve_astar = solve_astar
    player.ReversePlayer.get_state = get_state
