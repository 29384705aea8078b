"""Continue number sequences, if all rules of the known kinds give the same next number."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise, product

from .contract import AmbiguousError, Solution, UnsolvedError, near_number


def number_sequence(question: str) -> Solution:
    values = [int(word) for word in re.findall(r"-?\d+", question.split("?")[0])]
    following = set(_continuations(values))
    if not following:
        raise UnsolvedError("no rule of the known kinds")
    if len(following) > 1:
        raise AmbiguousError("several rules give different numbers")
    value = following.pop()
    return Solution(str(value), wrong=near_number(value))


def _continuations(values: list[int]) -> Iterator[int]:
    """Yield the next number for each rule that fits: linear in the last number, or in the last two numbers."""
    if len(values) >= 3 and values[0] != values[1]:
        factor = Fraction(values[2] - values[1], values[1] - values[0])
        offset = values[1] - factor * values[0]
        after = factor * values[-1] + offset
        if all(factor * a + offset == b for a, b in pairwise(values)) and after.denominator == 1:
            yield int(after)
    if len(values) >= 4:
        for p, q in product(range(-3, 4), repeat=2):
            if q and all(p * b + q * a == c for a, b, c in zip(values, values[1:], values[2:], strict=False)):
                yield p * values[-1] + q * values[-2]
