"""Read propositional formulas in model text: their variables, and whether premises imply them.

A formula is the name of a variable, `(NOT, operand)` where the operand is no negation, or `(operator, left, right)`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import TypeAlias

MAX_CHARACTERS = 300
"""Longer than any useful conclusion. The library's parser takes quadratic time."""

AND, OR, NOT, IMPLIES, IFF = "\u2227", "\u2228", "\u00ac", "\u2192", "\u2194"
PRECEDENCE = (IFF, IMPLIES, OR, AND)
"""Operators from the loosest to the tightest. All associate to the left, as in the library."""

Formula: TypeAlias = "str | tuple[Formula, ...]"


def parse_formula(text: str) -> Formula:
    """Read a formula as the library does: any text between operators is a variable. Raises ValueError."""
    return _parse(re.sub(r"\s+", "", text))


def _parse(text: str) -> Formula:
    text = _without_outer_parentheses(text)
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
        raise ValueError("a formula that is empty, or parentheses that do not match")
    return text


def _negate(formula: Formula) -> Formula:
    return formula[1] if formula[0] == NOT else (NOT, formula)


def _without_outer_parentheses(text: str) -> str:
    while text.startswith("(") and text.endswith(")"):
        level = 0
        for character in text[1:-1]:
            if character == "(":
                level += 1
            elif character == ")":
                level -= 1
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
    """Tell whether no assignment makes all premises true, so that every formula follows from the premises."""
    return _Premises(premises, ()).possible == 0


def concludes(answer: str, premises: Iterable[str]) -> bool:
    """Tell whether the premises together imply a formula that single premises, part by part, do not imply.

    A part that a single premise implies counts as true, a part that a single premise refutes as false. A formula that
    is true already by its parts, such as premises joined by AND, is no conclusion. Raises ValueError for a text that is
    not a formula.
    """
    formula = parse_formula(answer)
    return _Premises(premises, [formula]).conclude(formula)


def simple_conclusion(premises: Iterable[str], names: Sequence[str]) -> str | None:
    """Return a formula that the premises conclude; None if no formula of one variable, or of two, is concluded."""
    literals: list[Formula] = [*names, *((NOT, name) for name in names)]
    pairs = itertools.permutations(names, 2)
    formulas = literals + [(operator, left, right) for left, right in pairs for operator in PRECEDENCE]
    given = _Premises(premises, formulas)
    return next((_write(formula) for formula in formulas if given.conclude(formula)), None)


def _write(formula: Formula) -> str:
    """Write a formula of at most two variables as the library does."""
    match formula:
        case (operator, left, right):
            return f"({left} {operator} {right})"
        case _:
            return "".join(map(str, formula))


STATEMENT = re.compile(r"(?P<quantifier>All|No|Some) (?P<subject>.+) are (?P<negation>not )?(?P<predicate>.+)")


def follows_from_classes(premises: Iterable[str], conclusion: str, *, may_be_empty: bool) -> bool:
    """Tell whether premises about classes imply a conclusion, where classes may be empty or all have members.

    A statement is "All A are B", "No A are B", "Some A are B" or "Some A are not B". Raises ValueError for others.
    """
    texts = [*premises, conclusion]
    found = [match for match in map(STATEMENT.fullmatch, texts) if match]
    if len(found) < len(texts):
        raise ValueError(f"expected 'All, No or Some ... are (not) ...'; got {texts!r}")
    classes = sorted({match[part] for match in found for part in ("subject", "predicate")})
    kinds = list(itertools.product((False, True), repeat=len(classes)))  # of things, by the classes they belong to

    def having(members: Callable[[Sequence[bool]], bool]) -> int:
        """Return the kinds that fit as a number with a bit for each; a world is the kinds that have members."""
        return sum(1 << number for number, kind in enumerate(kinds) if members(kind))

    def read(match: re.Match[str]) -> tuple[int, bool]:
        """Return some kinds, and whether one of them has members: "All A are B" says that no A outside B does."""
        subject, predicate = classes.index(match["subject"]), classes.index(match["predicate"])
        inside = not match["negation"] and match["quantifier"] != "All"
        said = having(lambda kind: kind[subject] and kind[predicate] == inside)
        return said, match["quantifier"] == "Some"

    statements = [read(match) for match in found]
    filled = [having(itemgetter(place)) for place in range(len(classes))]
    for world in range(1 << len(kinds)):
        if not may_be_empty and not all(world & members for members in filled):
            continue
        *given, concluded = [bool(world & said) is some for said, some in statements]
        if all(given) and not concluded:
            return False
    return True


class _Premises:
    """The assignments that premises allow, one by one and together."""

    def __init__(self, premises: Iterable[str], others: Iterable[Formula]) -> None:
        formulas = [parse_formula(premise) for premise in premises]
        self._tables = _TruthTables([*formulas, *others])
        self._single = [self._tables.of(formula) for formula in formulas]
        self.possible = self._tables.true
        for table in self._single:
            self.possible &= table

    def conclude(self, formula: Formula) -> bool:
        left = self._left_open(formula)
        return left != self._tables.true and self.possible & ~left == 0

    def _left_open(self, formula: Formula) -> int:
        """Return a formula's table with each part that a single premise decides set to true or false."""
        table = self._decided(self._tables.of(formula))
        if isinstance(formula, str) or table in (0, self._tables.true):
            return table
        return self._decided(self._tables.combine(formula[0], *map(self._left_open, formula[1:])))

    def _decided(self, table: int) -> int:
        if any(premise & ~table == 0 for premise in self._single):
            return self._tables.true
        return 0 if any(premise & table == 0 for premise in self._single) else table


class _TruthTables:
    """Truth tables over all variables of some formulas, as integers with one bit for each assignment.

    Assignment k gives the variable at position p the value of bit p of k. So the table of this variable repeats 2**p
    zeros and 2**p ones.
    """

    def __init__(self, formulas: Iterable[Formula]) -> None:
        names = sorted(frozenset[str]().union(*map(variables, formulas)))
        self.true = (1 << (1 << len(names))) - 1
        self._of_name: dict[str, int] = {}
        for position, name in enumerate(names):
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
