"""Read propositional formulas in model text: which variables they use, and whether they only repeat a premise.

A formula is a variable's name, `(NOT, operand)` without a second NOT inside, or `(operator, operand, operand)`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeAlias

MAX_CHARACTERS = 300
"""More than any conclusion that is worth drawing; the library's parser takes quadratic time."""

AND, OR, NOT, IMPLIES, IFF = "\u2227", "\u2228", "\u00ac", "\u2192", "\u2194"
PRECEDENCE = (IFF, IMPLIES, OR, AND)
"""From the loosest to the tightest; each associates to the left, as the library reads them."""

Formula: TypeAlias = "str | tuple[Formula, ...]"


def parse_formula(text: str) -> Formula:
    """Read a formula as the library does: all that stands between operators is a variable. Raises ValueError."""
    return _parse(re.sub(r"\s+", "", text))


def _parse(text: str) -> Formula:
    text = _without_outer_parentheses(text)
    last: dict[str, int] = {}
    level = 0
    for position, character in enumerate(text):
        level += (character == "(") - (character == ")")
        if level == 0:
            last[character] = position
    for operator in PRECEDENCE:
        if operator in last:
            return (operator, _parse(text[: last[operator]]), _parse(text[last[operator] + 1 :]))
    operand = text.lstrip(NOT)
    if operand != text:
        return _negate(_parse(operand)) if (len(text) - len(operand)) % 2 else _parse(operand)
    if not text or "(" in text or ")" in text:
        raise ValueError("a formula that is empty, or parentheses that do not match")
    return text


def _negate(formula: Formula) -> Formula:
    return formula[1] if formula[0] == NOT else (NOT, formula)


def _without_outer_parentheses(text: str) -> str:
    while text.startswith("(") and text.endswith(")"):
        level = 0
        for character in text[1:-1]:
            level += (character == "(") - (character == ")")
            if level < 0:
                return text
        if level != 0:
            return text
        text = text[1:-1]
    return text


def variables(formula: Formula) -> frozenset[str]:
    if isinstance(formula, str):
        return frozenset({formula})
    return frozenset[str]().union(*map(variables, formula[1:]))


def are_contradictory(premises: Iterable[str]) -> bool:
    """Whether no assignment makes all premises true, so that every formula follows from them."""
    formulas = [parse_formula(premise) for premise in premises]
    tables = _TruthTables(formulas)
    left = tables.true
    for formula in formulas:
        left &= tables.of(formula)
    return left == 0


def restates(answer: str, premises: Iterable[str]) -> bool:
    """Whether a conclusion is a premise again, in other words or with something irrelevant added.

    A formula that is true exactly where a premise is true is that premise. A premise joined to others, weakened by an
    alternative or made a consequence counts when it says more than a literal: from literals such a formula is an
    inference, if a small one. Raises ValueError for what is not a formula.
    """
    formula, *given = (parse_formula(text) for text in (answer, *premises))
    tables = _TruthTables([formula, *given])
    premise_tables = frozenset(map(tables.of, given))
    return tables.of(formula) in premise_tables or _repeats(formula, tables, premise_tables)


def _repeats(formula: Formula, tables: _TruthTables, premises: frozenset[int]) -> bool:
    """Whether the formula says no more than a premise that is more than a literal, weakened or joined to others."""
    if tables.of(formula) in premises - tables.literals:
        return True
    if isinstance(formula, str) or (formula[0] == NOT and isinstance(formula[1], str)):
        return False
    operator, *operands = _as_alternative(formula)
    if operator == IFF and 0 in map(tables.of, operands):
        return any(_repeats(_negate(operand), tables, premises) for operand in operands if tables.of(operand))
    # A part that is always true or always false leaves what the other one says.
    operands = [operand for operand in operands if tables.of(operand) not in (0, tables.true)]
    repeated = [operand for operand in operands if _repeats(operand, tables, premises)]
    if operator == OR:
        return bool(repeated)
    return bool(repeated) and all(tables.of(operand) in premises for operand in operands if operand not in repeated)


def _as_alternative(formula: tuple[Formula, ...]) -> tuple[Formula, ...]:
    """The formula without an outer NOT or IMPLIES."""
    if formula[0] == IMPLIES:
        return (OR, _negate(formula[1]), formula[2])
    if formula[0] != NOT:
        return formula
    inner = formula[1]
    assert isinstance(inner, tuple)
    operator, left, right = _as_alternative(inner)
    if operator == IFF:
        return (IFF, _negate(left), right)
    return (AND if operator == OR else OR, _negate(left), _negate(right))


class _TruthTables:
    """Truth tables over all variables of some formulas: integers with one bit for each assignment.

    The table of the variable at position p is 2**p zeros, then as many ones, over and over: bit k of it is bit p of k.
    """

    def __init__(self, formulas: Iterable[Formula]) -> None:
        names = sorted(frozenset[str]().union(*map(variables, formulas)))
        self.true = (1 << (1 << len(names))) - 1
        self._of_name: dict[str, int] = {}
        for position, name in enumerate(names):
            ones = (1 << (1 << position)) - 1
            self._of_name[name] = self.true // ((1 << (1 << position + 1)) - 1) * (ones << (1 << position))
        self.literals = frozenset(self._of_name.values()) | {self.true ^ table for table in self._of_name.values()}

    def of(self, formula: Formula) -> int:
        if isinstance(formula, str):
            return self._of_name[formula]
        if formula[0] == NOT:
            return self.true ^ self.of(formula[1])
        operator, left, right = formula[0], self.of(formula[1]), self.of(formula[2])
        if operator == AND:
            return left & right
        if operator == OR:
            return left | right
        return (self.true ^ left) | right if operator == IMPLIES else self.true ^ left ^ right
