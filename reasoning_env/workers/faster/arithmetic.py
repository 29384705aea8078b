"""countdown and puzzle24: fold a candidate's numbers as integers, and build a sympy expression for the chosen one only.

The library builds a sympy expression for each candidate, 12 and 115 of them an item, and substitutes the numbers into
it at each division and at the end. The same problems:

- Random numbers are drawn in the same order: the numbers, then for each but the first an operator and, for a division,
  a shuffle of the numbers left over.
- The value is the same. Each symbol occurs once, and only single symbols are divided by, whose numbers are at least 1,
  so nothing that sympy simplifies changes where the expression is defined. Divisions are made where they leave no
  remainder only, so that all values on the way are integers, and folding them from left to right is exact.
- The text is the same: sympy builds the chosen expression by the same operations in the same order.
"""

from __future__ import annotations

import operator
import re
from functools import lru_cache
from random import Random
from typing import Any

BUILD = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
FOLD = {**BUILD, "/": operator.floordiv}
ATTEMPTS = 100
"""How many candidates countdown tries."""


class Candidate:
    """Stands in for the sympy expression: its value is known, its text is made when it is asked for."""

    def __init__(self, config: Any, rng: Random, symbols: Any) -> None:
        self.symbols = symbols
        self.numbers = [rng.randint(config.min_value, config.max_value) for _ in symbols]
        self.signs: list[str] = []
        self.value: int = self.numbers[0]
        for position in range(1, len(symbols)):
            sign = rng.choice(config.operators)
            if sign not in ("+", "-", "*"):
                sign = self._place_divisor(rng, position)
            self.signs.append(sign)
            self.value = FOLD[sign](self.value, self.numbers[position])

    def _place_divisor(self, rng: Random, position: int) -> str:
        """Put a divisor from the numbers left over at a position; where there is none, subtract what is there."""
        remaining = self.numbers[position:]
        rng.shuffle(remaining)
        for divisor in remaining:
            if self.value % divisor == 0:
                self.numbers[position] = divisor
                return "/"
        return "-"

    def subs(self, _: Any) -> int:
        return self.value

    def __str__(self) -> str:
        expression = self.symbols[0]
        for sign, symbol in zip(self.signs, self.symbols[1:], strict=True):
            expression = BUILD[sign](expression, symbol)
        return str(expression)


def install_puzzle24(module: Any) -> None:
    symbols = lru_cache(lambda count: module.symbols(f"x:{count}"))

    def generate_candidate(self: Any, rng: Random, num_terms: int) -> tuple[Candidate, list[int], Any]:
        candidate = Candidate(self.config, rng, symbols(num_terms))
        return candidate, candidate.numbers, candidate.symbols

    module.Puzzle24Dataset._generate_candidate_expression = generate_candidate


def install_countdown(module: Any) -> None:
    symbols = lru_cache(lambda count: module.symbols(f"x_0:{count}"))

    def generate_expression(self: Any, rng: Random) -> tuple[str, list[int], int]:
        config = self.config
        num_terms = rng.randint(config.min_numbers, config.max_numbers)
        for _ in range(ATTEMPTS):
            candidate = Candidate(config, rng, symbols(num_terms))
            if config.min_target <= candidate.value <= config.max_target:
                return _text(candidate), candidate.numbers, candidate.value
        raise ValueError(f"Failed to generate valid expression after {ATTEMPTS} attempts")

    module.CountdownDataset._generate_expression = generate_expression


def _text(candidate: Candidate) -> str:
    """The expression with numbers for its symbols."""
    return re.sub(r"x_(\d+)", lambda name: str(candidate.numbers[int(name[1])]), str(candidate))
