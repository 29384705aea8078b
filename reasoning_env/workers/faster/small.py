"""Faster functions for countdown and game_of_life."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import prod
from types import ModuleType, SimpleNamespace
from typing import Any

from . import edited


def evaluate(expression: Any, numbers: Mapping[Any, int]) -> Fraction:
    """Return the value of a sympy expression of sums, products and powers. `numbers` has the value of each symbol."""
    if expression.is_Symbol:
        return Fraction(numbers[expression])
    if expression.is_Rational:
        return Fraction(int(expression.p), int(expression.q))
    values = [evaluate(part, numbers) for part in expression.args]
    if expression.is_Add:
        return sum(values, Fraction(0))
    return prod(values, start=Fraction(1)) if expression.is_Mul else values[0] ** int(values[1])


def install_countdown(module: ModuleType) -> None:
    """Make the task use Python's fractions to evaluate expressions, which is faster than sympy's `subs`.

    Problems are the same as the library's, because fractions and `subs` are both exact, and no expression divides by 0.
    """
    dataset = module.CountdownDataset
    known = "expr.subs({sym: num for sym, num in zip(syms[:i], numbers[:i])})"
    dataset._generate_candidate_expression = edited(
        dataset._generate_candidate_expression,
        {known: "evaluate(expr, dict(zip(syms[:i], numbers[:i])))"},
        evaluate=evaluate,
    )
    dataset._generate_expression = edited(
        dataset._generate_expression, {"expr.subs(subs)": "evaluate(expr, subs)"}, evaluate=evaluate
    )


def evolve(boards: Any, timesteps: int, **_: object) -> list[Any]:
    from numpy import roll

    board = boards[-1]
    for _step in range(timesteps - 1):
        # `roll`, because the board is a torus
        rows = board + roll(board, 1, 0) + roll(board, -1, 0)
        blocks = rows + roll(rows, 1, 1) + roll(rows, -1, 1)
        # Conway's rule: a block of nine counts the cell itself and its eight neighbours.
        board = ((blocks == 3) | (blocks == 4) & (board == 1)).astype(board.dtype)
    return [board]


def install_game_of_life(module: Any) -> None:
    """Make the task count the neighbours of all cells at once. cellpylib counts them cell by cell.

    The result has only the last board, because the library uses no other.
    """
    module.cpl = SimpleNamespace(**{**vars(module.cpl), "evolve2d": evolve})
