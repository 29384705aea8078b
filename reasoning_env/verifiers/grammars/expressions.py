"""The one grammar of arithmetic and algebra that model text is read with, and exact arithmetic over it.

Text is turned into postfix order by precedence, without recursion and without Python's own parser, so that no text can
exhaust a stack or reach an evaluator: what is not a number, a name, one of the operators below, a call or a comma is an
error. What a name or a call means is up to whoever evaluates the result.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

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


class ExpressionError(ValueError):
    """The text is not an expression of the grammar, or over one of its limits."""


class Kind(Enum):
    NUMBER = "number"
    NAME = "name"
    OPERATOR = "operator"
    CALL = "call"


@dataclass(frozen=True)
class Item:
    """One step of the postfix program: `text` is the digits, the name or the operator, `arity` what it consumes."""

    kind: Kind
    text: str
    arity: int = 0


@dataclass
class _Open:
    """An open parenthesis: `call` is the function's name, or empty for grouping."""

    call: str
    arguments: int = 1


def parse(text: str, max_items: int) -> tuple[Item, ...]:
    """The postfix program of an expression. Raises ExpressionError."""
    output: list[Item] = []
    stack: list[str | _Open] = []
    depth = 0
    operand_next = True
    call = ""
    for kind, token in _tokens(text.strip()):
        if len(output) + len(stack) > max_items:
            raise ExpressionError(f"over {max_items} parts")
        if len(stack) > MAX_DEPTH:
            raise ExpressionError(f"nested over {MAX_DEPTH} deep")
        if kind == "newline":
            if depth == 0:
                raise ExpressionError("more than one line")
            continue
        if call and token != "(":
            output.append(Item(Kind.NAME, call))
            call = ""
        if token == "(":
            if not operand_next and not call:
                raise ExpressionError("an operator is missing before a parenthesis")
            depth += 1
            stack.append(_Open(call))
            call, operand_next = "", True
        elif kind == "number" or kind == "name":
            if not operand_next:
                raise ExpressionError("an operator is missing between two values")
            operand_next = False
            if kind == "name":
                call = token  # a function if a parenthesis follows
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
            if not stack:
                raise ExpressionError(f"{token!r} outside parentheses")
            opened = stack[-1]
            assert isinstance(opened, _Open)
            if token == ",":
                if not opened.call:
                    raise ExpressionError("a comma outside a call")
                opened.arguments += 1
                operand_next = True
            else:
                stack.pop()
                depth -= 1
                if opened.call:
                    output.append(Item(Kind.CALL, opened.call, opened.arguments))
    if call:
        output.append(Item(Kind.NAME, call))
    if operand_next:
        raise ExpressionError("a value is missing at the end")
    _unwind(output, stack, 0)
    if stack:
        raise ExpressionError("an unclosed parenthesis")
    return tuple(output)


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    position = 0
    while position < len(text):
        match = TOKEN.match(text, position)
        if match is None:
            raise ExpressionError(f"{text[position]!r} is no part of an expression")
        position = match.end()
        assert match.lastgroup is not None
        if match.lastgroup != "blank":
            tokens.append((match.lastgroup, match[0]))
    return tokens


def _checked_number(text: str) -> str:
    mantissa, _, exponent = text.lower().partition("e")
    if len(mantissa) > MAX_DIGITS or (exponent and (len(exponent) > 5 or abs(int(exponent)) > MAX_DECIMAL_EXPONENT)):
        raise ExpressionError("a number of too many digits")
    if text.isdigit() and text != "0" and text[0] == "0":
        raise ExpressionError("a number with leading zeros")
    return text


def _unwind(output: list[Item], stack: list[str | _Open], precedence: int) -> None:
    """Move operators to the output down to the nearest parenthesis or one that binds less tightly."""
    while stack:
        operator = stack[-1]
        if isinstance(operator, _Open) or PRECEDENCE[operator] < precedence:
            return
        stack.pop()
        output.append(Item(Kind.OPERATOR, operator, 1 if operator in ("negate", "keep") else 2))


def is_integer(item: Item) -> bool:
    """Whether an item is a plain run of digits."""
    return item.kind is Kind.NUMBER and item.text.isdigit()


def evaluate_exactly(program: Sequence[Item]) -> Fraction:
    """The value of a program of numbers and operators.

    Raises ExpressionError for names, calls, division by zero, powers that are not whole, and values of over MAX_BITS
    bits.
    """
    values: list[Fraction] = []
    for item in program:
        if item.kind is Kind.NUMBER:
            values.append(Fraction(item.text))
            continue
        if item.kind is not Kind.OPERATOR:
            raise ExpressionError(f"{item.text!r} has no value")
        if item.arity == 1:
            if item.text == "negate":
                values.append(-values.pop())
            continue
        right, left = values.pop(), values.pop()
        values.append(_combine(item.text, left, right))
    (value,) = values
    return value


def _combine(operator: str, left: Fraction, right: Fraction) -> Fraction:
    if operator == "+":
        result = left + right
    elif operator == "-":
        result = left - right
    elif operator == "*":
        result = left * right
    elif operator == "/":
        if right == 0:
            raise ExpressionError("division by zero")
        result = left / right
    else:
        result = _power(left, right)
    if _bits(result) > MAX_BITS:
        raise ExpressionError("a value of too many digits")
    return result


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1:
        raise ExpressionError("a power that is not a whole number")
    if base == 0 and exponent < 0:
        raise ExpressionError("division by zero")
    if abs(exponent) * _bits(base) > MAX_BITS:
        raise ExpressionError("a value of too many digits")
    return Fraction(base ** int(exponent))


def _bits(value: Fraction) -> int:
    return max(value.numerator.bit_length(), value.denominator.bit_length())
