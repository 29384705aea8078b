"""Read arithmetic and algebra in model text, and calculate exactly with it.

Text is turned into a program in postfix order, by precedence, without recursion and without Python's own parser, so
that no text can exhaust a stack or reach an evaluator: whatever is not a number, a name, an operator, a call or a comma
is an error. What a name or a call means is up to whoever evaluates the program. Reading takes linear time.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Any

MAX_DEPTH = 100
"""Parentheses, signs and powers that wait for their operands at one time."""
MAX_DIGITS = 200
MAX_DECIMAL_EXPONENT = 30
MAX_BITS = 4096
"""Size of the largest intermediate value of exact arithmetic."""

TOKEN = re.compile(
    r"(?P<blank>[ \t]+)|(?P<newline>\r?\n)"
    r"|(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<sign>\*\*|[-+*/(),])",
    re.ASCII,
)
PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2, "negate": 3, "keep": 3, "**": 4}
"""As in Python: a sign binds less tightly than the power to its right."""
OPERATIONS: dict[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "negate": operator.neg,
    "keep": operator.pos,
    "**": operator.pow,
}


class ExpressionError(ValueError):
    """The text is not an expression of the grammar, or over one of its limits."""


class Kind(Enum):
    NUMBER = "number"
    NAME = "name"
    OPERATOR = "operator"
    CALL = "call"


@dataclass(frozen=True)
class Item:
    """A step of a program: `text` is its digits, name or operator, `arity` its number of operands."""

    kind: Kind
    text: str
    arity: int = 0


@dataclass
class _Parenthesis:
    """An open parenthesis: `call` is the function's name, or empty for grouping."""

    call: str
    arguments: int = 1


def parse_expression(text: str, max_items: int) -> tuple[Item, ...]:
    """Return the program of an expression of up to `max_items` parts. Raises ExpressionError.

    One long loop, because all of its branches read and set the same state (a shunting yard).
    """
    output: list[Item] = []
    stack: list[str | _Parenthesis] = []
    depth = 0
    operand_next = True
    name = ""  # the last token, if it was a name: a function if a parenthesis follows
    for kind, token in _tokens(text.strip()):
        if len(output) + len(stack) > max_items:
            raise ExpressionError(f"over {max_items} parts")
        if len(stack) > MAX_DEPTH:
            raise ExpressionError(f"nested over {MAX_DEPTH} deep")
        if kind == "newline":
            if depth == 0:
                raise ExpressionError("more than one line")
            continue
        if name and token != "(":
            output.append(Item(Kind.NAME, name))
            name = ""
        if token == "(":
            if not operand_next and not name:
                raise ExpressionError("an operator is missing before a parenthesis")
            depth += 1
            stack.append(_Parenthesis(name))
            name, operand_next = "", True
        elif kind in ("number", "name"):
            if not operand_next:
                raise ExpressionError("an operator is missing between two values")
            operand_next = False
            if kind == "name":
                name = token
            else:
                output.append(Item(Kind.NUMBER, _checked_number(token)))
        elif operand_next:
            if token not in ("+", "-"):
                raise ExpressionError(f"a value is missing before {token!r}")
            stack.append("negate" if token == "-" else "keep")
        elif token in PRECEDENCE:
            _unwind(output, stack, PRECEDENCE[token] + (token == "**"))
            stack.append(token)
            operand_next = True
        else:
            _unwind(output, stack, 0)
            parenthesis = stack[-1] if stack else None
            if not isinstance(parenthesis, _Parenthesis) or (token == "," and not parenthesis.call):
                raise ExpressionError(f"{token!r} is out of place")
            if token == ",":
                parenthesis.arguments += 1
                operand_next = True
            else:
                stack.pop()
                depth -= 1
                if parenthesis.call:
                    output.append(Item(Kind.CALL, parenthesis.call, parenthesis.arguments))
    if name:
        output.append(Item(Kind.NAME, name))
    if operand_next:
        raise ExpressionError("a value is missing at the end")
    _unwind(output, stack, 0)
    if stack:
        raise ExpressionError("an unclosed parenthesis")
    return tuple(output)


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    position = 0
    while position < len(text):
        match = TOKEN.match(text, position)
        if match is None:
            raise ExpressionError(f"{text[position]!r} is no part of an expression")
        position = match.end()
        assert match.lastgroup is not None
        if match.lastgroup != "blank":
            yield match.lastgroup, match[0]


def _checked_number(text: str) -> str:
    mantissa, _, exponent = text.lower().partition("e")
    if len(mantissa) > MAX_DIGITS or (exponent and (len(exponent) > 5 or abs(int(exponent)) > MAX_DECIMAL_EXPONENT)):
        raise ExpressionError("a number of too many digits")
    if text.isdigit() and text != "0" and text[0] == "0":
        raise ExpressionError("a number with leading zeros")
    return text


def _unwind(output: list[Item], stack: list[str | _Parenthesis], precedence: int) -> None:
    """Move operators to the output, down to the nearest parenthesis or operator that binds less tightly."""
    while stack:
        last = stack[-1]
        if isinstance(last, _Parenthesis) or PRECEDENCE[last] < precedence:
            return
        stack.pop()
        output.append(Item(Kind.OPERATOR, last, 1 if last in ("negate", "keep") else 2))


def is_integer(item: Item) -> bool:
    """Tell whether an item is a plain run of digits."""
    return item.kind is Kind.NUMBER and item.text.isdigit()


def run_program(
    program: Sequence[Item], value_of: Callable[[Item], Any], apply: Callable[[Item, list[Any]], Any]
) -> Any:
    """Return the value of a program, given those of numbers and names, and what the other items do."""
    stack: list[Any] = []
    for item in program:
        if item.arity == 0:
            stack.append(value_of(item))
        else:
            operands = stack[-item.arity :]
            del stack[-item.arity :]
            stack.append(apply(item, operands))
    (value,) = stack
    return value


def evaluate_exactly(program: Sequence[Item]) -> Fraction:
    """Return the value of a program of numbers and operators.

    Raises ExpressionError for names, calls, division by zero, powers that are not whole, and values of over MAX_BITS
    bits.
    """
    value: Fraction = run_program(program, _exact_value, _calculate)
    return value


def _exact_value(item: Item) -> Fraction:
    if item.kind is Kind.NAME:
        raise ExpressionError(f"{item.text!r} has no value")
    return Fraction(item.text)


def _calculate(item: Item, operands: list[Fraction]) -> Fraction:
    if item.kind is Kind.CALL:
        raise ExpressionError(f"{item.text!r} has no value")
    if item.text == "**":
        _check_power(*operands)
    try:
        result = Fraction(OPERATIONS[item.text](*operands))
    except ZeroDivisionError as error:
        raise ExpressionError("division by zero") from error
    if _bits(result) > MAX_BITS:
        raise ExpressionError("a value of too many digits")
    return result


def _check_power(base: Fraction, exponent: Fraction) -> None:
    if exponent.denominator != 1:
        raise ExpressionError("a power that is not a whole number")
    if abs(exponent) * _bits(base) > MAX_BITS:
        raise ExpressionError("a value of too many digits")


def _bits(value: Fraction) -> int:
    return max(value.numerator.bit_length(), value.denominator.bit_length())
