"""Read mathematical notation: as Python's notation, and calculations of numbers as their values.

`10x^3`, `2(x + 1)` and `x sin(x)` become `10*x**3`, `2*(x+1)` and `x*sin(x)`. Text that can be read in two ways, as
`1/2x` and `e^2x` can, is refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from .grammars.expressions import ComplexFraction, ExpressionError, evaluate_complex, parse_expression

RAISED = "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"
"""The superscripts of `-0123456789`."""
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
"""Signs of mathematics and their counterparts in Python."""
POWER_OF_FUNCTION = re.compile(
    r"\b(?P<name>sin|cos|tan)\s?(?:\*\*|\^)\s?(?P<brace>\{)?(?P<power>\d{1,2})(?(brace)\})\s?(?P<argument>\([^()]{1,200}\))"
)
"""A power of a function as mathematics writes it: `sin^2(x)`."""
TIMES_BETWEEN_NUMBERS = re.compile(r"(?<=[\d)\]])\s*[xX]\s*(?=[\d(\[])")
"""The letter x between numbers: `2 x 3`."""
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

`tanh` is none of them: `tanh(1e6*(x - 2))` is flat but for a place between the points of any check.
"""
ABSOLUTE_VALUES = frozenset({"Abs", "abs"})
MAX_PARTS = 300
MAX_SIDES = 9
"""Sides of an equation such as `2^2 * 3 = 4 * 3 = 12`."""


@dataclass
class _Operand:
    """What the notation has told of the operand that is being read."""

    divides: bool = False
    """A division sign stands before it: a factor after it could belong to the divisor or to the quotient."""
    raises: bool = False
    """It is an exponent without parentheses."""
    of_constant: bool = False
    """The base of the exponent is a number or e."""


def in_python(said: str, functions: Collection[str] = ()) -> str | None:
    """Return mathematical notation in Python's; None for other characters, and for what can be read in two ways.

    A name of `functions` must have a parenthesis behind it; another single letter before a parenthesis is a factor.
    """
    said = POWER_OF_FUNCTION.sub(r"\g<name>\g<argument>**\g<power>", said.strip())
    written: list[str] = []
    levels = [_Operand()]
    ends_operand = calls = False
    last = ""
    position = 0
    while position < len(said):
        match = TOKEN.match(said, position)
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
            if operand.divides or (operand.raises and (operand.of_constant or not (match["blank"] or named_call))):
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
            written.append("**(" + "".join("-0123456789"[RAISED.index(digit)] for digit in match["raised"]) + ")")
            continue
        written.append(sign or match[0].strip())
        if sign == "(":
            levels.append(_Operand())
        elif sign == ")":
            if len(levels) == 1:
                return None
            levels.pop()
            levels[-1].raises = False
        elif sign == "/":
            levels[-1] = _Operand(divides=True)
        elif sign == "**":
            operand.raises = True
            operand.of_constant = last.casefold() == "e" or last[-1:].isdigit()
        elif sign == "*" or (sign and ends_operand):
            levels[-1] = _Operand()
        calls = match["name"] is not None and match["name"] in functions
        ends_operand = sign is None or sign == ")"
        last = written[-1]
    return None if calls else "".join(written)


def sides_in_python(said: str, functions: Collection[str] = ()) -> str | None:
    """Return the sides of an equation in Python's notation, or the only side; None as `in_python`."""
    sides = [in_python(side, functions) for side in said.split("=", MAX_SIDES)]
    return None if None in sides else "=".join(filter(None, sides))


def _are_factors(left: str, right: str) -> bool:
    """Return True for two letters side by side, such as those of `x e^x`; not for `C C`, or the words of `x or y`."""
    return left != right.strip() and len(left) == len(right.strip()) == 1


def calculated(side: str) -> ComplexFraction | None:
    """Return the value of a calculation, `i` being the imaginary unit; None for other text."""
    side = TIMES_BETWEEN_NUMBERS.sub("*", side)
    written = in_python(side) if CALCULATION.fullmatch(side) else None
    if written is None:
        return None
    try:
        return evaluate_complex(parse_expression(written, MAX_PARTS))
    except ExpressionError:
        return None
