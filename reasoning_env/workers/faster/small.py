"""figlet_font, game_of_life and polynomial_multiplication: a change of a few lines each."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from types import ModuleType, SimpleNamespace
from typing import Any

from . import edited


def install_figlet_font(module: ModuleType) -> None:
    """Read the file of words once; each dataset takes the words of other lengths out of it.

    The same words, in the file's order.
    """

    @cache
    def read_words() -> list[str]:
        with module.get_data_file_path("anagrams.jsonl").open() as file:
            return [word for line in file for word in module.json.loads(line)["words"]]

    dataset = module.FigletFontDataset
    from_memory = {"for line in f\n": "", 'json.loads(line)["words"]': "read_words()"}
    # A compiled function has no class that `super()` could find.
    of_base = {"super().__init__(": "ProceduralDataset.__init__(self, "}
    dataset.__init__ = edited(dataset.__init__, {**from_memory, **of_base}, read_words=read_words)


def evolve(boards: Any, timesteps: int, **_: object) -> list[Any]:
    from numpy import roll

    board = boards[-1]
    for _step in range(timesteps - 1):
        rows = board + roll(board, 1, 0) + roll(board, -1, 0)
        blocks = rows + roll(rows, 1, 1) + roll(rows, -1, 1)
        board = ((blocks == 3) | (blocks == 4) & (board == 1)).astype(board.dtype)
    return [board]


def install_game_of_life(module: Any) -> None:
    """Count the neighbours of all cells at once; cellpylib looks at them cell by cell.

    The same boards: the rule is Conway's on a torus, whose rows and columns `numpy.roll` shifts around, and a cell
    lives on if its block of nine holds three living cells, or four with it. The library reads the last board only.
    """
    module.cpl = SimpleNamespace(**{**vars(module.cpl), "evolve2d": evolve})


def multiply(sympy: Any, factors: Sequence[Any]) -> Any:
    """Return the expanded product of polynomials with integer coefficients."""
    symbols = sorted(set().union(*(factor.free_symbols for factor in factors)), key=str)
    if not symbols:
        return sympy.expand(sympy.prod(factors))
    return sympy.prod([sympy.Poly(factor, *symbols) for factor in factors]).as_expr()


def install_polynomial_multiplication(module: ModuleType) -> None:
    """Multiply coefficients; sympy's `expand` builds an expression for every pair of terms.

    The same problems: the expanded sum of monomials is unique, and sympy orders its terms by itself.
    """
    dataset = module.PolynomialMultiplicationDataset
    multiplied = {"sp.expand(polynomial_expr)": "multiply(sp, polynomial_terms)"}
    dataset.__getitem__ = edited(dataset.__getitem__, multiplied, multiply=multiply)
