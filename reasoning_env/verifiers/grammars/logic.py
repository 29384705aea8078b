"""Propositional formulas in model text: which variables they use, and whether they only repeat a premise.

Formulas are nested tuples `(operator, operand, operand)` over literals and constants, in a normal form: negation stands
before variables only, implications are written as alternatives, operands of symmetric operators are sorted, `X and X`
and `X or X` are `X`, and a part that is true or false whatever its variables are is TRUE or FALSE.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TypeAlias

MAX_CHARACTERS = 300
"""More than any conclusion that is worth drawing; the library's parser takes quadratic time."""

AND, OR, NOT, IMPLIES, IFF = "\u2227", "\u2228", "\u00ac", "\u2192", "\u2194"
PRECEDENCE = (IFF, IMPLIES, OR, AND)
"""From the loosest to the tightest; each associates to the left, as the library reads them."""
OPPOSITE = {AND: OR, OR: AND}
TRUE, FALSE = "1", "0"

Formula: TypeAlias = "str | tuple[Formula, ...]"


def variables(text: str) -> frozenset[str]:
    """The variables of a formula: all that stands between operators. Raises ValueError for what is not a formula."""
    return _names(parse(text))


def restates(answer: str, premises: Iterable[str]) -> bool:
    """Whether a conclusion is a premise again, in other words or with something irrelevant added.

    What is true where one premise is true, and only there, is that premise. A premise joined to others, weakened by an
    alternative or made a consequence counts when it is more than a literal: from literals such a formula is an
    inference, if a small one. Raises ValueError for what is not a formula.
    """
    formula, *given = (parse(text) for text in (answer, *premises))
    every, tables = _tables([formula, *given])
    if any(_table(formula, tables, every) == _table(premise, tables, every) for premise in given):
        return True
    return _restates(_fold(formula), frozenset(map(_fold, given)))


def _restates(formula: Formula, premises: frozenset[Formula]) -> bool:
    if formula in premises:
        return True
    if isinstance(formula, str):
        return False
    operator, *operands = formula
    repeated = [operand for operand in operands if _restates(operand, premises)]
    if all(isinstance(operand, str) for operand in repeated):
        return False
    return operator == OR or len(repeated) == len(operands)


def parse(text: str) -> Formula:
    """The formula with negation before variables only. Raises ValueError."""
    return _parse(re.sub(r"\s+", "", text), negated=False)


def _parse(text: str, *, negated: bool) -> Formula:
    text = _without_outer_parentheses(text)
    if not text:
        raise ValueError("an empty formula")
    for operator in PRECEDENCE:
        level = 0
        for position in range(len(text) - 1, -1, -1):
            character = text[position]
            level += (character == ")") - (character == "(")
            if level == 0 and character == operator:
                return _join(operator, text[:position], text[position + 1 :], negated=negated)
    if text[0] == NOT:
        return _parse(text[1:], negated=not negated)
    if "(" in text or ")" in text:
        raise ValueError("parentheses that do not match")
    return NOT + text if negated else text


def _join(operator: str, left: str, right: str, *, negated: bool) -> Formula:
    if operator == IFF:
        return (IFF, _parse(left, negated=negated), _parse(right, negated=False))
    first = _parse(left, negated=negated != (operator == IMPLIES))
    operator = OR if operator == IMPLIES else operator
    return (OPPOSITE[operator] if negated else operator, first, _parse(right, negated=negated))


def _fold(formula: Formula) -> Formula:
    """The normal form: parts that are always true or false, and repetitions, are taken out."""
    if isinstance(formula, str):
        return formula
    every, tables = _tables([formula])
    table = _table(formula, tables, every)
    if table in (0, every):
        return TRUE if table else FALSE
    operator = formula[0]
    left, right = sorted((_fold(formula[1]), _fold(formula[2])), key=repr)
    # The constants sort before all else.
    if left in (TRUE, FALSE):
        return right if operator != IFF or left == TRUE else _fold(_negate(right))
    return left if operator != IFF and left == right else (operator, left, right)


def _negate(formula: Formula) -> Formula:
    if isinstance(formula, str):
        return formula[1:] if formula[0] == NOT else NOT + formula
    operator, left, right = formula
    if operator == IFF:
        return (IFF, _negate(left), right)
    return (OPPOSITE[str(operator)], _negate(left), _negate(right))


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


def are_contradictory(premises: Iterable[str]) -> bool:
    """Whether no assignment makes all premises true, so that every formula follows from them."""
    formulas = [parse(premise) for premise in premises]
    every, tables = _tables(formulas)
    left = every
    for formula in formulas:
        left &= _table(formula, tables, every)
    return left == 0


def _tables(formulas: Iterable[Formula]) -> tuple[int, dict[str, int]]:
    """The truth table that is true throughout, and those of the variables, over all that some formulas use.

    A truth table is an integer with one bit for each assignment. A variable's is a block of zeros, then one of ones,
    over and over: bit k of the one at position p is bit p of k.
    """
    names = sorted(frozenset[str]().union(*(_names(formula) for formula in formulas)))
    every = (1 << (1 << len(names))) - 1
    tables = {}
    for position, name in enumerate(names):
        ones = (1 << (1 << position)) - 1
        tables[name] = every // ((1 << (1 << position + 1)) - 1) * (ones << (1 << position))
    return every, tables


def _names(formula: Formula) -> frozenset[str]:
    if isinstance(formula, str):
        return frozenset({formula.removeprefix(NOT)})
    return _names(formula[1]) | _names(formula[2])


def _table(formula: Formula, tables: Mapping[str, int], every: int) -> int:
    if isinstance(formula, str):
        return every ^ tables[formula[1:]] if formula[0] == NOT else tables[formula]
    left, right = (_table(operand, tables, every) for operand in formula[1:])
    if formula[0] == AND:
        return left & right
    return left | right if formula[0] == OR else every ^ left ^ right
