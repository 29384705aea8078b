"""countdown and puzzle24: fold candidates' numbers as integers; sympy gets only the chosen one.

The library builds a sympy expression for each candidate, 12 and 115 of them an item, and substitutes the numbers into
it at each division and at the end. The same problems:

- The value is the same. Each symbol occurs once, and only single symbols are divided by, whose numbers are not 0, so
  nothing that sympy simplifies changes where the expression is defined. Divisions are made only where they leave no
  remainder, so that all values on the way are integers, and folding them from left to right is exact.
- The text is the same: sympy builds the chosen expression by the same operations in the same order.
- countdown goes on to the next candidate where a value is out of bounds, and where a ValueError is raised before that.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import lru_cache, partialmethod
from typing import Any

from . import edited

Operation = Callable[[Any, Any], Any]


class Chain:
    """Stands in for a sympy symbol, or for a chain of operations on symbols from left to right."""

    def __init__(self, symbol: Any, *operations: tuple[Operation, Operation, Any]) -> None:
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


def text_of(chain: Chain, numbers: Mapping[Chain, int], config: Any) -> str:
    """Return an expression as text; raises ValueError where its value is out of bounds."""
    if not config.min_target <= chain.subs(numbers) <= config.max_target:
        raise ValueError
    return str(chain)


def install_puzzle24(module: Any) -> None:
    symbols = module.symbols
    module.symbols = lru_cache(lambda names: [Chain(symbol) for symbol in symbols(names)])


def install_countdown(module: Any) -> None:
    install_puzzle24(module)
    dataset = module.CountdownDataset
    dataset._generate_candidate_expression = edited(
        dataset._generate_candidate_expression,
        {"expr_str = str(expr)": "expr_str = text_of(expr, dict(zip(syms, numbers)), self.config)"},
        text_of=text_of,
    )
