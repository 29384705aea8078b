"""figlet_font, game_of_life, intermediate_integration and others: a change of a few lines each."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from types import SimpleNamespace
from typing import Any

from . import edited


def install_figlet_font(module: Any) -> None:
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


def evolve(boards: Any, timesteps: int, **_: Any) -> list[Any]:
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


def install_intermediate_integration(module: Any) -> None:
    """Integrate once what is asked for again and again.

    Half of the types of problems have 18 to 126 integrands at the defaults, and sympy takes up to 0.4 s for one. The
    same problems: sympy makes the same integral of the same integrand, and expressions that are equal have the same
    text.
    """
    integrate = lru_cache(maxsize=2000)(module.sympy.integrate)
    module.sympy = SimpleNamespace(**{**vars(module.sympy), "integrate": integrate})


def install_number_sequence(module: Any) -> None:
    """Give up at a term beyond 1000, before numbers of millions of digits are squared.

    The same problems: the library rejects every sequence with a term beyond 1000, and one whose computation raises
    OverflowError. Rules draw no random numbers when they are applied, so either rejection leaves the generator in the
    same state. What is passed to `apply` are terms of the sequence itself: no rule that is generated has subrules.
    """
    apply = module.PatternRule.apply

    def apply_to_small_terms(self: Any, sequence: list[int], position: int) -> Any:
        if abs(sequence[position]) > 1000:  # the default of `PatternGenerator.is_interesting`, which nobody changes
            raise OverflowError
        return apply(self, sequence, position)

    module.PatternRule.apply = apply_to_small_terms


def install_quantum_lock(module: Any) -> None:
    """Keep numbers out of the queue that can no longer become the target.

    The library multiplies numbers for up to 15 presses without a bound. The puzzles are the same: a press adds or takes
    away at most 3, so 15 presses change a number by at most 45 besides multiplying.

    - The target is positive. A number over target + 45 stays above the target, since multiplying raises the number.
    - A number under -45 stays negative, since multiplying lowers the number.

    No path to the target leads through such a number. The paths that are left keep their order.
    """
    dataset = module.QuantumLockDataset
    bounded = {"queue.append(": "if -45 <= new_val <= target + 45: queue.append("}
    dataset.generate_quantum_puzzle = edited(dataset.generate_quantum_puzzle, bounded)


def multiply(sympy: Any, factors: Sequence[Any]) -> Any:
    """Return the expanded product of polynomials with integer coefficients."""
    symbols = sorted(set().union(*(factor.free_symbols for factor in factors)), key=str)
    if not symbols:
        return sympy.expand(sympy.prod(factors))
    return sympy.prod([sympy.Poly(factor, *symbols) for factor in factors]).as_expr()


def install_polynomial_multiplication(module: Any) -> None:
    """Multiply coefficients; sympy's `expand` builds an expression for every pair of terms.

    The same problems: the expanded sum of monomials is unique, and sympy orders its terms by itself.
    """
    dataset = module.PolynomialMultiplicationDataset
    multiplied = {"sp.expand(polynomial_expr)": "multiply(sp, polynomial_terms)"}
    dataset.__getitem__ = edited(dataset.__getitem__, multiplied, multiply=multiply)
