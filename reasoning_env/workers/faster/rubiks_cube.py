"""rubiks_cube: turn a cube by permutations that are worked out once, and compare fewer colours.

The same cubes and solutions: a turn is magiccube's own, done once on the numbers of the places. A piece is the only one
with its colours. A condition of the solver that is about another place fails whatever the colours are.
"""

from __future__ import annotations

from functools import cache, lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any

SWAPPED = {0: (0, 2, 1), 1: (2, 1, 0), 2: (1, 0, 2)}
"""Where the colours of a piece's axes come from after a turn around an axis."""


@lru_cache(1024)
def places_after(size: int, axis: int, start: int, stop: int, direction: int) -> tuple[Any, Any]:
    """Return the place from which each piece comes when layers are turned, and the places in these layers."""
    import numpy

    places = numpy.arange(size**3).reshape(size, size, size)
    layers = tuple(slice(start, stop) if i == axis else slice(None) for i in range(3))
    turned = places[layers].ravel()
    first, second = (i for i in range(3) if i != axis)
    places[layers] = numpy.rot90(places[layers], direction, axes=(first, second))
    return places.ravel(), turned


def turn(cube: Any, move: Any) -> None:
    if cube._store_history:
        cube._history.append(move)
    axis, layers, direction = move.type.get_axis(), cube._move_to_slice(move), cube._get_direction(move)
    after, turned = places_after(cube.size, axis, layers.start, layers.stop, direction)
    first, second, third = SWAPPED[axis]
    for _ in range(move.count):
        pieces = cube.cube.ravel()[after]
        cube.cube = pieces.reshape(cube.cube.shape)
        for piece in pieces[turned]:
            if piece is not None:
                colors = piece._colors
                piece._colors = (colors[first], colors[second], colors[third])


@cache
def colors_of(names: str) -> tuple[Any, ...]:
    create = import_module("magiccube.cube_base").Color.create
    return tuple(create(name) for name in names)


def find_piece(cube: Any, names: str) -> tuple[tuple[int, int, int], Any]:
    """Return a piece of a cube by the names of its colours, with its place."""
    wanted = colors_of(names)
    for place in cube._cube_piece_indexes:
        piece = cube.cube[place]
        colors = tuple(piece._colors)
        if colors.count(None) + len(wanted) == 3 and all(color in colors for color in wanted):
            return place, piece
    raise import_module("magiccube.cube_base").CubeException("piece not found " + names)


def install(module: ModuleType) -> None:
    module.Cube._rotate_once = turn
    module.Cube.find_piece = find_piece
    condition: Any = import_module("magiccube.solver.basic.solver_base").Condition
    match_colors = condition.is_match

    def is_match(self: Any, place: tuple[int, int, int], piece: object) -> bool:
        return place == self.coordinate_condition and bool(match_colors(self, place, piece))

    condition.is_match = is_match
