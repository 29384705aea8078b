"""Read formulas: arithmetic, algebraic expressions, logical conclusions."""

from __future__ import annotations

import re

from .calculations import TIMES_BETWEEN_NUMBERS
from .grammars import logic
from .types import ProblemData

ARITHMETIC = re.compile(r"[-\d\s+*/().]+")
NAME = re.compile(r"[A-Za-z_]\w*\b(?!\s*\()")
"""The name of a variable or constant. A name before a parenthesis is a function and does not match."""
CONSTANT = re.compile(r"[A-Za-z](?:_?\d{1,3})?|const|constant|pi", re.IGNORECASE)


def arithmetic(answer: str, problem: ProblemData) -> str | None:
    """Read an expression of numbers, such as `(3 - 1) * 12`."""
    answer = TIMES_BETWEEN_NUMBERS.sub("*", answer)
    return answer if ARITHMETIC.fullmatch(answer) else None


def expression(answer: str, problem: ProblemData) -> str:
    """Return the answer unchanged: the verifier rejects any string that is not an algebraic expression."""
    return answer


def integral(answer: str, problem: ProblemData) -> str | None:
    """Read an integral; None if a constant has an unusual name. C and C1 are usual names.

    In an integral over x, an answer may have X in place of x, because questions mix both. Return None for an answer
    that has both.
    """
    variable = str(problem.metadata["variable"])
    names = set(NAME.findall(answer))
    if variable not in names:
        answer = re.sub(rf"\b{variable.swapcase()}\b", variable, answer)
        names -= {variable.swapcase()}
    others = [
        name for name in names - {variable} if not CONSTANT.fullmatch(name) or name.casefold() == variable.casefold()
    ]
    return None if others else answer


def formula(answer: str, problem: ProblemData) -> str | None:
    """Read a logical formula; None if it has a variable that the question does not have."""
    if len(answer) > logic.MAX_CHARACTERS:
        return None
    try:
        names = logic.variables(logic.parse_formula(answer))
    except ValueError:
        return None
    return answer if names <= set(problem.metadata["variables"]) else None
