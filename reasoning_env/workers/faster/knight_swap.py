"""knight_swap: decide with bit masks whether the knights can swap, and search for the library's path only if they can.

The library searches with frozensets of square names. It runs about 380 searches for each problem, and most find no
solution. Here, the results are the same:

- A position is a pair: the squares of the side to move, and the squares of the other side. Sides take turns, and each
  move changes the number of knights on white squares by one, so the squares show which side moves next.
- The goal is the start with the sides exchanged, and moves are reversible. So a search backwards from the goal reaches
  the same positions as the search from the start, but with the sides exchanged. The search from the start can stop
  when it has reached a position and also this position with the sides exchanged. There, the two searches would meet.
- No move leads out of the set of positions that a failed search reached. A later search on the same board also fails if
  its start is in this set and its goal is not.
- The library's breadth-first search returns the shortest path that comes first in the order of moves. At each step,
  `Solution` takes the first move that is on a shortest path. The order of moves is the same, because `Solution` builds
  its frozensets as the library does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from types import ModuleType

from . import edited

Move = tuple[str, str, str]


class Graph:
    """The positions on a board. Each is a number `mover << size | other` of two bit masks: the squares with pieces
    of the side to move, and those with pieces of the other side."""

    def __init__(self, board: tuple[tuple[str, tuple[str, ...]], ...]) -> None:
        self.size = len(board)
        self.bits = {name: 1 << number for number, (name, _) in enumerate(board)}
        self._pairs = [(self.bits[name], self.bits[other]) for name, others in board for other in others]
        self._steps = cache(self._find_steps)
        self._moves = cache(self._find_moves)
        self._closed: list[set[int]] = []

    def position(self, mover: frozenset[str], other: frozenset[str]) -> int:
        return sum(self.bits[name] << self.size for name in mover) | sum(self.bits[name] for name in other)

    def _find_steps(self, mover: int) -> list[tuple[int, int]]:
        """Return the moves of a colour, each as the target square and all squares of the colour after the move."""
        return [(to, mover ^ square ^ to) for square, to in self._pairs if mover & square and not mover & to]

    def _find_moves(self, position: int) -> list[int]:
        mover, other = position >> self.size, position & (1 << self.size) - 1
        waiting = other << self.size
        return [waiting | after for to, after in self._steps(mover) if not other & to]

    def _swap(self, positions: Iterable[int]) -> set[int]:
        size, others = self.size, (1 << self.size) - 1
        return {position >> size | (position & others) << size for position in positions}

    def search(self, start: int) -> list[set[int]] | None:
        """Search the first half of the shortest solutions. Return None if there is no solution.

        Item n of the result is the set of positions that are first reached after n moves.
        """
        (goal,) = self._swap([start])
        if any(start in closed and goal not in closed for closed in self._closed):
            return None
        seen = {start}
        layers = [{start}]
        while layers[-1].isdisjoint(self._swap(layers[-1])):
            layers.append(set().union(*map(self._moves, layers[-1])) - seen)
            seen |= layers[-1]
            if not layers[-1]:
                self._closed.append(seen)
                return None
        return layers

    def positions_of_solutions(self, layers: Sequence[set[int]]) -> list[set[int]]:
        """Return the positions after the first, second, ... move of all shortest solutions: one set for each move."""
        allowed = [layers[-1] & self._swap(layers[-1])]
        for layer in reversed(layers[:-1]):
            allowed.append({position for position in layer if not allowed[-1].isdisjoint(self._moves(position))})
        return [*allowed[-2::-1], *map(self._swap, allowed[1:])]


graph_of = lru_cache(2)(Graph)  # the library tries up to 50 placements on a board before it tries the next board


@dataclass(frozen=True)
class Solution:
    """The moves that the library finds. `len` does not compute the moves."""

    board: Mapping[str, Sequence[str]]
    pieces: Mapping[str, str]
    start_turn: str
    graph: Graph
    layers: Sequence[set[int]]

    def __len__(self) -> int:  # the library rejects most solutions by their length
        return 2 * (len(self.layers) - 1)

    def __iter__(self) -> Iterator[Move]:
        turn, waiting = ("w", "B") if self.start_turn == "w" else ("B", "w")
        mover, other = squares_of(self.pieces, turn), squares_of(self.pieces, waiting)
        for allowed in self.graph.positions_of_solutions(self.layers):
            moves = (
                (square, to) for square in mover for to in self.board[square] if to not in mover and to not in other
            )
            for square, to in moves:
                moved = frozenset(name if name != square else to for name in mover)
                if self.graph.position(other, moved) in allowed:
                    break
            yield turn, square, to
            turn, waiting = waiting, turn
            mover, other = other, moved


def squares_of(pieces: Mapping[str, str], colour: str) -> frozenset[str]:
    return frozenset(square for square, piece in pieces.items() if piece == colour)


def solve_swap(board: Mapping[str, Sequence[str]], pieces: Mapping[str, str], start_turn: str = "w") -> Solution | None:
    graph = graph_of(tuple((name, tuple(others)) for name, others in board.items()))
    mover, other = squares_of(pieces, start_turn), squares_of(pieces, "B" if start_turn == "w" else "w")
    layers = graph.search(graph.position(mover, other))
    return None if layers is None else Solution(board, pieces, start_turn, graph, layers)


def install(module: ModuleType) -> None:
    module.KnightSwapLogic.solve_swap = staticmethod(solve_swap)
    dataset = module.KnightSwapDataset
    dataset.__getitem__ = edited(
        dataset.__getitem__, {"board_str = ": "solution = None if solution is None else [*solution]; board_str = "}
    )
