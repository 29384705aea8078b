"""Parse propositional formulas in model text, and check whether premises imply a formula.

A formula is the name of a variable, `(NOT, operand)` or `(operator, left, right)`. The parser removes `¬¬`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from ..literals import is_balanced

MAX_CHARACTERS = 300
"""Maximum length of a formula, because the library's parser takes quadratic time. Right answers are shorter."""

AND, OR, NOT, IMPLIES, IFF = "\u2227", "\u2228", "\u00ac", "\u2192", "\u2194"
PRECEDENCE = (IFF, IMPLIES, OR, AND)
"""Operators in order of precedence, the lowest first. All associate to the left, as in the library."""

Formula: TypeAlias = "str | tuple[Formula, ...]"


def parse_formula(text: str) -> Formula:
    """Parse a formula as the library does: any string between operators is a variable. Raises ValueError."""
    return _parse(re.sub(r"\s+", "", text))


def _parse(text: str) -> Formula:
    while text.startswith("(") and text.endswith(")") and is_balanced(text[1:-1]):
        text = text[1:-1]
    last: dict[str, int] = {}
    level = 0
    for position, character in enumerate(text):
        if character == "(":
            level += 1
        elif character == ")":
            level -= 1
        if level == 0:
            last[character] = position
    for operator in PRECEDENCE:
        if operator in last:
            return (operator, _parse(text[: last[operator]]), _parse(text[last[operator] + 1 :]))
    operand = text.lstrip(NOT)
    if operand != text:
        return _negate(_parse(operand)) if (len(text) - len(operand)) % 2 else _parse(operand)
    if not text or "(" in text or ")" in text:
        raise ValueError("the formula is empty, or its parentheses do not match")
    return text


def _negate(formula: Formula) -> Formula:
    return formula[1] if formula[0] == NOT else (NOT, formula)


def variables(formula: Formula) -> frozenset[str]:
    if isinstance(formula, str):
        return frozenset({formula})
    return frozenset[str]().union(*map(variables, formula[1:]))


def are_contradictory(premises: Iterable[str]) -> bool:
    """Return True if no assignment makes all premises true. Then every formula follows from the premises."""
    return _Premises(premises, ()).possible == 0


def concludes(answer: str, premises: Iterable[str]) -> bool:
    """Return True if `answer` follows from the premises, but only from several of them together.

    Return False if single premises prove the parts of `answer`, as for `P ∧ Q` from the premises P and Q. Raises
    ValueError if `answer` is not a formula.
    """
    formula = parse_formula(answer)
    return _Premises(premises, [formula]).conclude(formula)


def simple_conclusion(premises: Iterable[str], names: Sequence[str]) -> str | None:
    """Return a formula of one or two variables that `concludes` accepts; None if there is none."""
    literals: list[Formula] = [*names, *((NOT, name) for name in names)]
    pairs = itertools.permutations(names, 2)
    formulas = literals + [(operator, left, right) for left, right in pairs for operator in PRECEDENCE]
    given = _Premises(premises, formulas)
    return next((_write(formula) for formula in formulas if given.conclude(formula)), None)


def _write(formula: Formula) -> str:
    """Write a formula of at most two variables in the library's notation."""
    match formula:
        case (operator, left, right):
            return f"({left} {operator} {right})"
        case _:
            return "".join(map(str, formula))


class _Premises:
    """The assignments that make each premise true, and the assignments that make all premises true (`possible`)."""

    def __init__(self, premises: Iterable[str], others: Iterable[Formula]) -> None:
        formulas = [parse_formula(premise) for premise in premises]
        self._tables = _TruthTables([*formulas, *others])
        self._single = [self._tables.of(formula) for formula in formulas]
        self.possible = self._tables.true
        for table in self._single:
            self.possible &= table

    def conclude(self, formula: Formula) -> bool:
        left = self._with_decided_parts(formula)
        return left != self._tables.true and self.possible & ~left == 0

    def _with_decided_parts(self, formula: Formula) -> int:
        """Return a formula's truth table. A part counts as true if a premise proves it, as false if one refutes it."""
        table = self._decide(self._tables.of(formula))
        if isinstance(formula, str) or table in (0, self._tables.true):
            return table
        return self._decide(self._tables.combine(formula[0], *map(self._with_decided_parts, formula[1:])))

    def _decide(self, table: int) -> int:
        if any(premise & ~table == 0 for premise in self._single):
            return self._tables.true
        return 0 if any(premise & table == 0 for premise in self._single) else table


class _TruthTables:
    """Truth tables over all variables of the given formulas, as integers with one bit for each assignment.

    In assignment k, variable number p is true if bit p of k is 1.
    """

    def __init__(self, formulas: Iterable[Formula]) -> None:
        names = sorted(frozenset[str]().union(*map(variables, formulas)))
        self.true = (1 << (1 << len(names))) - 1
        self._of_name: dict[str, int] = {}
        for position, name in enumerate(names):
            # The table of variable number p repeats 2**p zeros followed by 2**p ones.
            ones = (1 << (1 << position)) - 1
            self._of_name[name] = self.true // ((1 << (1 << position + 1)) - 1) * (ones << (1 << position))

    def of(self, formula: Formula) -> int:
        if isinstance(formula, str):
            return self._of_name[formula]
        return self.combine(formula[0], *map(self.of, formula[1:]))

    def combine(self, operator: Formula, left: int, right: int = 0) -> int:
        if operator == NOT:
            return self.true ^ left
        if operator == AND:
            return left & right
        if operator == OR:
            return left | right
        return (self.true ^ left) | right if operator == IMPLIES else self.true ^ left ^ right
