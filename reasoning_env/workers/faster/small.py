"""Faster functions for countdown, game_of_life, polynomial_multiplication and simple_integration."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import prod
from types import ModuleType, SimpleNamespace
from typing import Any

from . import edited
from .printing import Polynomial


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
    """Evaluate expressions with fractions, because sympy's `subs` simplifies after each number that it substitutes.

    Problems are the same: both ways are exact, and neither divides by 0.
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
        rows = board + roll(board, 1, 0) + roll(board, -1, 0)
        blocks = rows + roll(rows, 1, 1) + roll(rows, -1, 1)
        board = ((blocks == 3) | (blocks == 4) & (board == 1)).astype(board.dtype)
    return [board]


def install_game_of_life(module: Any) -> None:
    """Count the neighbours of all cells at once; cellpylib counts them cell by cell.

    Boards are the same. The rule is Conway's on a torus, so `numpy.roll` gives the neighbours. A cell lives in the next
    board if its block of nine has three live cells, or four including itself. The library uses only the last board.
    """
    module.cpl = SimpleNamespace(**{**vars(module.cpl), "evolve2d": evolve})


def multiply(sympy: Any, factors: Sequence[Any]) -> Any:
    """Return the expanded product of polynomials with integer coefficients."""
    symbols = sorted(set().union(*(factor.free_symbols for factor in factors)), key=str)
    if not symbols:
        return sympy.expand(sympy.prod(factors))
    if len(symbols) > 1:
        return sympy.prod([sympy.Poly(factor, *symbols) for factor in factors]).as_expr()
    product = {0: 1}
    for factor in factors:
        multiplied: defaultdict[int, int] = defaultdict(int)
        for power, coefficient in factor.as_coefficients_dict().items():
            degree = 0 if power.is_number else int(power.as_base_exp()[1])
            for exponent, other in product.items():
                multiplied[exponent + degree] += other * int(coefficient)
        product = {exponent: number for exponent, number in multiplied.items() if number}
    return Polynomial(symbols[0], product)


def add_up(sympy: Any, terms: Sequence[tuple[int, Any]]) -> Any:
    """Return the sum of terms, each given as a coefficient and a monomial."""
    numbers: dict[Any, int] = {}
    for number, monomial in terms:
        numbers[monomial] = numbers.get(monomial, 0) + number
    return sympy.Add(*(number * monomial for monomial, number in numbers.items()))


def install_polynomial_multiplication(module: ModuleType) -> None:
    """Multiply and add coefficients, and build the expression once.

    Problems are the same: sympy sorts the terms of a sum, so equal polynomials become equal expressions.
    """
    dataset = module.PolynomialMultiplicationDataset
    dataset.__getitem__ = edited(
        dataset.__getitem__,
        {
            "sp.expand(polynomial_expr)": "multiply(sp, polynomial_terms)",
            "format(polynomial_expr=polynomial_expr)": "format(polynomial_expr=(text := str(polynomial_expr)))",
            '"polynomial_expr": str(polynomial_expr)': '"polynomial_expr": text',
        },
        multiply=multiply,
    )
    dataset._generate_polynomial = edited(
        dataset._generate_polynomial,
        {
            "polynomial_expr = 0": "terms = []",
            "polynomial_expr += coeff * var": "terms.append((coeff, var))",
            "return polynomial_expr": "return add_up(sp, terms)",
        },
        add_up=add_up,
    )


def differentiate(sympy: Any, polynomial: Any, x: Any) -> Any:
    terms = sympy.sympify(polynomial).as_coefficients_dict().items()
    powers = [(coefficient, power.as_base_exp()[1]) for power, coefficient in terms if power.has(x)]
    return sympy.Add(*(coefficient * exponent * x ** (exponent - 1) for coefficient, exponent in powers))


def install_simple_integration(module: ModuleType) -> None:
    """Differentiate a polynomial term by term, because sympy's `diff` does more work for each term.

    Derivatives are the same, because sympy has only one form for a sum of terms with different powers.
    """
    dataset = module.SimpleIntegrationDataset
    by_terms = {"sympy.diff(polynomial, symbol)": "differentiate(sympy, polynomial, symbol)"}
    dataset.__getitem__ = edited(dataset.__getitem__, by_terms, differentiate=differentiate)
