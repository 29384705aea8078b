"""sympy: print polynomials in one variable directly.

The strings are the same: sympy writes the terms of such a polynomial from the highest power to the lowest. As an
exception, a constant comes first if a single negative term follows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any


@dataclass(frozen=True)
class Polynomial:
    """A polynomial in one variable: nonzero integer coefficients, by exponent."""

    symbol: Any
    coefficients: Mapping[int, int]

    @property
    def free_symbols(self) -> set[Any]:
        return {self.symbol} if any(self.coefficients) else set()

    def __str__(self) -> str:
        exponents = sorted(self.coefficients, reverse=True)
        if not exponents:
            return "0"
        if len(exponents) == 2 and exponents[1] == 0 and self.coefficients[exponents[0]] < 0 < self.coefficients[0]:
            exponents.reverse()  # sympy writes 3 - x, but -x**2 - x + 3
        first, *others = exponents
        text = [f"-{self._term(first)}" if self.coefficients[first] < 0 else self._term(first)]
        text += [f"{'-' if self.coefficients[other] < 0 else '+'} {self._term(other)}" for other in others]
        return " ".join(text)

    def _term(self, exponent: int) -> str:
        """Return a term without its sign."""
        number = abs(self.coefficients[exponent])
        if exponent == 0:
            return str(number)
        power = str(self.symbol) if exponent == 1 else f"{self.symbol}**{exponent}"
        return power if number == 1 else f"{number}*{power}"


def read_sum(terms: Any) -> Polynomial | None:
    """Convert a sum of sympy to a polynomial in one variable; return None if it is not such a polynomial."""
    symbol, coefficients = None, {}
    for term in terms.args:
        coefficient, power = term.as_coeff_Mul()
        exponent: Any = 0 if power.is_Number else power.exp if power.is_Pow else 1
        base = symbol if power.is_Number else power.base if power.is_Pow else power
        if not coefficient.is_Integer or (exponent not in (0, 1) and not exponent.is_Integer) or exponent < 0:
            return None
        if base is not None and (not base.is_Symbol or symbol not in (None, base)):
            return None
        symbol = base
        coefficients[int(exponent)] = int(coefficient)
    return Polynomial(symbol, coefficients)


def write_polynomials_at_once(printer: Any) -> None:
    """Replace the method of sympy's class StrPrinter that writes sums."""
    print_sum = printer._print_Add

    @wraps(print_sum)
    def _print_Add(self: Any, expr: Any, order: object = None) -> str:
        is_plain = type(self) is printer and order is None and self._settings == printer._default_settings
        polynomial = read_sum(expr) if is_plain else None
        return str(polynomial) if polynomial is not None else print_sum(self, expr, order)

    printer._print_Add = _print_Add
