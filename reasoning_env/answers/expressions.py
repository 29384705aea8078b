"""Types of answers that are formulas: arithmetic, expressions of algebra, conclusions of logic."""

from __future__ import annotations

import re

from .calculations import TIMES_BETWEEN_NUMBERS
from .grammars import logic
from .types import Asked

ARITHMETIC = re.compile(r"[-\d\s+*/().]+")
NAME_IN_EXPRESSION = re.compile(r"[A-Za-z_]\w*")
"""A name in an expression: of a variable, or of a function, which has a parenthesis behind it."""
PARENTHESIS = re.compile(r"\s*\(")
CONSTANT = re.compile(r"[A-Za-z](?:_?\d{1,3})?|const|constant|pi", re.IGNORECASE)


def arithmetic(said: str, asked: Asked) -> str | None:
    """The type of expressions of numbers: `(3 - 1) * 12`."""
    said = TIMES_BETWEEN_NUMBERS.sub("*", said)
    return said if ARITHMETIC.fullmatch(said) else None


def expression(said: str, asked: Asked) -> str:
    """The type of expressions of algebra; their verifier refuses any other text."""
    return said


def integral(said: str, asked: Asked) -> str | None:
    """The type of integrals: constants have names of constants, such as C or C1, but not X beside x.

    The variable may be written in the other case alone: the questions' own examples have X in place of x.
    """
    variable = str(asked.metadata["variable"])
    found = NAME_IN_EXPRESSION.finditer(said)
    names = {match[0] for match in found if not PARENTHESIS.match(said, match.end())}
    if variable not in names:
        said = re.sub(rf"\b{variable.swapcase()}\b", variable, said)
        names -= {variable.swapcase()}
    others = [
        name for name in names - {variable} if not CONSTANT.fullmatch(name) or name.casefold() == variable.casefold()
    ]
    return None if others else said


def formula(said: str, asked: Asked) -> str | None:
    """The type of formulas of logic over the variables of the question."""
    if len(said) > logic.MAX_CHARACTERS:
        return None
    try:
        names = logic.variables(logic.parse_formula(said))
    except ValueError:
        return None
    return said if names <= set(asked.metadata["variables"]) else None
