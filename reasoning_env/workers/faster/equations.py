"""polynomial_equations: compute real solutions with integers.

Solutions are the same. The library keeps the solutions that sympy can show to be real, rounded to four decimals. For
degrees 1 and 2, these are all real solutions. If an equation of degree 3 has one real solution, sympy keeps it, because
Cardano's formula then has only roots of real numbers. For three irrational solutions, the formula has roots of complex
numbers, so sympy cannot show that they are real, and the library keeps none. sympy solves all other equations of degree
3, and equations of degree 4 and more.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import acos, cos, isqrt, pi, sqrt
from types import ModuleType
from typing import Any

from . import edited

BITS = 128
"""Number of binary places to which irrational solutions are computed. A float has 53."""


def install(module: ModuleType) -> None:
    dataset = module.PolynomialEquationsDataset

    def solve(polynomial: Any, variable: str) -> Sequence[Any]:
        solutions = solve_in_integers(polynomial)
        if solutions is None:
            found = module.solve(module.Eq(polynomial, 0), variable, dict=False)
            solutions = [solution.evalf() for solution in found if solution.is_real]
        return solutions

    dataset.__getitem__ = edited(
        dataset.__getitem__,
        {
            "solve(Eq(polynomial_expanded, 0), variable, dict=False)": "solve_real(polynomial_expanded, variable)",
            "if sol.is_real:": "if True:",
            "sol.evalf()": "sol",
        },
        solve_real=solve,
    )


def solve_in_integers(polynomial: Any) -> Sequence[Fraction | int] | None:
    """Return the solutions that the library keeps; None if sympy must solve the equation."""
    coefficients: dict[int, int] = {}
    for power, coefficient in polynomial.as_coefficients_dict().items():
        exponent = 0 if power.is_number else int(power.as_base_exp()[1])
        coefficients[exponent] = int(coefficient)
    lowest = min(coefficients)
    dense = [coefficients.get(exponent, 0) for exponent in range(max(coefficients), lowest - 1, -1)]
    solutions: Sequence[Fraction | int] | None
    match dense:
        case [_]:
            solutions = []
        case [a, b]:
            solutions = [Fraction(-b, a)]
        case [a, b, c]:
            solutions = _solve_quadratic(a, b, c)
        case [a, b, c, d]:
            solutions = _solve_cubic(a, b, c, d)
        case _:
            solutions = None
    return solutions if solutions is None or lowest == 0 else [0, *solutions]


def _solve_quadratic(a: int, b: int, c: int) -> Sequence[Fraction]:
    discriminant = b * b - 4 * a * c
    if discriminant < 0:
        return []
    root = Fraction(isqrt(discriminant << 2 * BITS), 1 << BITS)
    return [Fraction(-b, 2 * a)] if discriminant == 0 else [(-b - root) / (2 * a), (-b + root) / (2 * a)]


def _solve_cubic(a: int, b: int, c: int, d: int) -> Sequence[Fraction] | None:
    """Solve a * x**3 + b * x**2 + c * x + d = 0 by way of y = a * x, because every rational y is an integer."""
    c, d = a * c, a * a * d
    discriminant = 18 * b * c * d - 4 * b**3 * d + b * b * c * c - 4 * c**3 - 27 * d * d
    if discriminant == 0:
        return None
    if discriminant > 0:
        p, q = c - b * b / 3, 2 * b**3 / 27 - b * c / 3 + d
        angle = acos(max(-1.0, min(1.0, 1.5 * q / p * sqrt(-3 / p)))) / 3
        near = [round(2 * sqrt(-p / 3) * cos(angle - 2 * pi * k / 3) - b / 3) for k in range(3)]
        return None if any(_value(y, b, c, d) == 0 for y in near) else []
    high = 1 + max(abs(b), abs(c), abs(d)) << BITS
    low = -high
    b, c, d = b << BITS, c << 2 * BITS, d << 3 * BITS
    while high - low > 1:
        middle = (low + high) // 2
        if _value(middle, b, c, d) < 0:
            low = middle
        else:
            high = middle
    return [Fraction(high, a << BITS)]


def _value(y: int, b: int, c: int, d: int) -> int:
    return ((y + b) * y + c) * y + d
