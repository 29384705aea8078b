"""puzzle24: evaluate candidate expressions with integers, and build a sympy expression only for the chosen candidate.

The library builds a sympy expression for each candidate, about 115 per item, and substitutes the numbers at each
division and at the end. This module makes the same problems:

- The value is the same. Each symbol occurs once, and divisors are single symbols whose numbers are not 0, so sympy's
  simplifications change no value. The library divides only without a remainder, so all intermediate values are integers
  and evaluation from left to right is exact.
- The string is the same, because sympy builds the chosen expression with the same operations in the same order.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import lru_cache, partialmethod
from typing import Any

Operation = Callable[[Any, Any], Any]


class Chain:
    """Stands in for a sympy expression: a symbol, and operations that are applied to it from left to right."""

    def __init__(self, symbol: object, *operations: tuple[Operation, Operation, object]) -> None:
        self._symbol = symbol
        self._operations = operations

    def _then(self, build: Operation, fold: Operation, other: Chain) -> Chain:
        return Chain(self._symbol, *self._operations, (build, fold, other._symbol))

    __add__ = partialmethod(_then, operator.add, operator.add)
    __sub__ = partialmethod(_then, operator.sub, operator.sub)
    __mul__ = partialmethod(_then, operator.mul, operator.mul)
    __truediv__ = partialmethod(_then, operator.truediv, operator.floordiv)

    def subs(self, numbers: Mapping[Chain, int]) -> int:
        of_symbol = {chain._symbol: number for chain, number in numbers.items()}
        value = of_symbol[self._symbol]
        for _, fold, symbol in self._operations:
            value = fold(value, of_symbol[symbol])
        return value

    def __str__(self) -> str:
        expression = self._symbol
        for build, _, symbol in self._operations:
            expression = build(expression, symbol)
        return str(expression)


def install(module: Any) -> None:
    symbols = module.symbols
    module.symbols = lru_cache(lambda names: [Chain(symbol) for symbol in symbols(names)])
