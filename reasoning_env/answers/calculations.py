"""Convert mathematical notation to Python's notation, and evaluate arithmetic.

`2(x + 1)` becomes `2*(x+1)`. Ambiguous notation, such as `1/2x`, is not converted.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction

from .grammars.expressions import ExpressionError, Value, evaluate_complex, evaluate_exactly, parse_expression

RAISED = "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"
SUPERSCRIPTS = str.maketrans(RAISED, "-0123456789")
"""Converts a superscript minus sign and superscript digits to plain characters."""
TOKEN = re.compile(
    r"(?P<blank>[ \t]*)(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    rf"|(?P<sign>\*\*|[-+*/^(){{}}\[\]\u2013\u00d7\u00b7\u22c5\u00f7])|(?P<raised>[{RAISED}]+))",
    re.ASCII,
)
PYTHON_SIGNS: Mapping[str, str] = {
    **dict.fromkeys(("\u00d7", "\u00b7", "\u22c5"), "*"),
    "\u00f7": "/",
    "\u2013": "-",
    "^": "**",
    "[": "(",
    "{": "(",
    "]": ")",
    "}": ")",
}
"""The Python equivalent of each mathematical sign."""
POWER_OF_FUNCTION = re.compile(
    r"\b(?P<name>sin|cos|tan)\s?(?:\*\*|\^)\s?(?P<brace>\{)?(?P<power>\d{1,2})(?(brace)\})\s?(?P<argument>\([^()]{1,200}\))"
)
"""A power of a function in mathematical notation: `sin^2(x)`."""
TIMES_BETWEEN_NUMBERS = re.compile(r"(?<=[\d)\]])\s*[xX]\s*(?=[\d(\[])")
"""The letter x as a sign of multiplication: `2 x 3`."""
CALCULATION = re.compile(rf"[-\d\s+*/().^ijIJ\u00d7\u00b7\u22c5\u00f7{RAISED}]{{1,1000}}", re.ASCII)
FUNCTIONS: Mapping[str, str] = {
    **{name: name for name in ("sin", "cos", "tan", "sec", "csc", "cot", "exp", "log", "sqrt", "sinh", "cosh")},
    **{name: name for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh")},
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
    "ln": "log",
}
"""Functions of one argument, and their names in mpmath.

`tanh` is excluded: `tanh(1e6*(x - 2))` changes only near one point, and a check at random points would miss it.
"""
ABSOLUTE_VALUES = frozenset({"Abs", "abs"})
MAX_PARTS = 300
MAX_SIDES = 9
"""Maximum number of sides of an equation. `2^2 * 3 = 4 * 3 = 12` has three sides."""


@dataclass
class _Operand:
    """What the parser knows about the operand that it is reading."""

    divides: bool = False
    """True after a division sign. A factor after the operand is then rejected: `1/2x` is `1/(2x)` or `(1/2)x`."""
    is_exponent: bool = False
    """True if the operand is an exponent without parentheses."""
    base_is_constant: bool = False
    """True if the operand is the exponent of a number or of e, as in `e^x`."""


def to_python_notation(answer: str, functions: Collection[str] = ()) -> str | None:
    """Convert mathematical notation to Python's; None if the answer is ambiguous or has unknown characters.

    Names in `functions` need parentheses: `sin 2x` is ambiguous. Any other name before a parenthesis is a factor.
    """
    answer = POWER_OF_FUNCTION.sub(r"\g<name>\g<argument>**\g<power>", answer.strip())
    written: list[str] = []
    levels = [_Operand()]
    ends_operand = calls = False
    last = ""
    position = 0
    while position < len(answer):
        match = TOKEN.match(answer, position)
        if match is None:
            return None
        position = match.end()
        sign = PYTHON_SIGNS.get(match["sign"], match["sign"])
        if calls and sign != "(":
            return None  # a function without parentheses: `sin 2x`
        if match["number"] is not None and ends_operand:
            return None
        begins = match["name"] is not None or sign == "("
        operand = levels[-1]
        if begins and ends_operand and not calls:
            named_call = match["name"] in functions
            is_separate = match["blank"] or named_call
            if operand.divides or (operand.is_exponent and (operand.base_is_constant or not is_separate)):
                return None
            if (
                match["name"] is not None
                and last.isidentifier()
                and not named_call
                and not _are_factors(last, match[0])
            ):
                return None
            written.append("*")
            levels[-1] = operand = _Operand()
        if match["raised"] is not None:
            written.append(f"**({match['raised'].translate(SUPERSCRIPTS)})")
            continue
        written.append(sign or match[0].strip())
        if sign == "(":
            levels.append(_Operand())
        elif sign == ")":
            if len(levels) == 1:
                return None
            levels.pop()
            levels[-1].is_exponent = False
        elif sign == "/":
            levels[-1] = _Operand(divides=True)
        elif sign == "**":
            operand.is_exponent = True
            operand.base_is_constant = last.casefold() == "e" or last[-1:].isdigit()
        elif sign == "*" or (sign and ends_operand):
            levels[-1] = _Operand()
        calls = match["name"] is not None and match["name"] in functions
        ends_operand = sign is None or sign == ")"
        last = written[-1]
    return None if calls else "".join(written)


def sides_to_python_notation(answer: str, functions: Collection[str] = ()) -> str | None:
    """Convert an expression or an equation to Python's notation; None if a side cannot be converted."""
    sides = [to_python_notation(side, functions) for side in answer.split("=", MAX_SIDES)]
    return None if None in sides else "=".join(filter(None, sides))


def _are_factors(left: str, right: str) -> bool:
    """Return True if neighbouring names are different single letters, which form a product: `x e^x`, but not `C C`."""
    return left != right.strip() and len(left) == len(right.strip()) == 1


def calculate(side: str) -> Fraction | None:
    """Evaluate an expression of numbers exactly; None if `side` is no such expression, or exceeds a limit."""
    return _value(side, evaluate_exactly)


def calculate_complex(side: str) -> complex | None:
    """Evaluate an expression of numbers and the imaginary unit `i`; None if `side` is anything else."""
    return _value(side, evaluate_complex)


def _value(side: str, evaluate: Callable[[ast.expr], Value]) -> Value | None:
    side = TIMES_BETWEEN_NUMBERS.sub("*", side)
    written = to_python_notation(side) if CALCULATION.fullmatch(side) else None
    if written is None:
        return None
    try:
        return evaluate(parse_expression(written, MAX_PARTS))
    except ExpressionError:
        return None
