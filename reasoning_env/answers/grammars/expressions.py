"""Parse arithmetic and algebra in model text with Python's own parser, and calculate with exact numbers.

The parser gets only strings of allowed characters, makes a syntax tree and evaluates nothing. A tree contains only
numbers, names, operators and calls of names. The code that evaluates the tree defines the values of names and calls.
Parts, nesting, digits and exponents are limited, because a short string such as `9**9**9` can have a huge value.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

MAX_OPERAND_DEPTH = 100
"""Most levels of nested operands. A chain of sums or products is one level."""
MAX_DIGITS = 200
MAX_DECIMAL_EXPONENT = 30
MAX_BITS = 4096
"""Most bits of an intermediate value in exact arithmetic."""
MAX_COMPLEX_POWER = 16

EXPRESSION = re.compile(r"(?:[A-Za-z0-9_+\-*/(),. \t\n]|\r\n)+")
PART = re.compile(r"\w+|\*\*|[^\w\s]", re.ASCII)
NUMBER_TOKEN = re.compile(r"(?P<mantissa>\d+\.?\d*|\.\d+)(?:[eE](?P<exponent>[+-]?\d{1,4}))?", re.ASCII)


class ExpressionError(ValueError):
    """The string is not an expression of this grammar, or exceeds a limit."""


def parse_expression(text: str, max_parts: int) -> ast.expr:
    """Return the syntax tree of an expression. Constants are strings of digits, so that no number is rounded.

    Names, operators, numbers, parentheses and commas count as parts. Raises ExpressionError.
    """
    text = text.strip()
    if not EXPRESSION.fullmatch(text):
        raise ExpressionError("only numbers, names, + - * / ** and parentheses are allowed")
    if len(PART.findall(text)) > max_parts:
        raise ExpressionError(f"more than {max_parts} parts")
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise ExpressionError(f"not an expression: {type(error).__name__}") from error
    lines = text.split("\n")
    waiting = [(tree, 0)]
    while waiting:
        node, depth = waiting.pop()
        if depth > MAX_OPERAND_DEPTH:
            raise ExpressionError(f"nested more than {MAX_OPERAND_DEPTH} levels deep")
        match node:
            case ast.Constant():
                node.value = _checked_number(lines[node.lineno - 1][node.col_offset : node.end_col_offset])
            case ast.Name():
                pass
            case ast.UnaryOp(op=ast.UAdd() | ast.USub(), operand=operand):
                waiting.append((operand, depth + 1))
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div() | ast.Pow(), right=right):
                waiting += [(left, depth), (right, depth + 1)]
            case ast.Call(func=ast.Name(), args=[_, *_] as arguments, keywords=[]):
                waiting += [(argument, depth + 1) for argument in arguments]
            case _:
                raise ExpressionError(f"{type(node).__name__} is not allowed in an expression")
    return tree


def _checked_number(digits: str) -> str:
    match = NUMBER_TOKEN.fullmatch(digits)
    if match is None:
        raise ExpressionError(f"{digits[:20]!r} is not a number, or has too many digits")
    if len(match["mantissa"]) > MAX_DIGITS or abs(int(match["exponent"] or 0)) > MAX_DECIMAL_EXPONENT:
        raise ExpressionError("a number has too many digits")
    return digits


class ComplexFraction(NamedTuple):
    """An exact complex number."""

    real: Fraction
    imaginary: Fraction


IMAGINARY_UNITS = dict.fromkeys("ijIJ", ComplexFraction(Fraction(0), Fraction(1)))


def evaluate_exactly(node: ast.expr, names: Mapping[str, ComplexFraction] | None = None) -> Fraction:
    """Return the value of a tree of numbers and operators. `names` gives the real values of names.

    Raises ExpressionError for other names, calls, division by zero, fractional powers, and values of more than MAX_BITS
    bits.
    """
    return evaluate_complex(node, names or {}).real


def evaluate_complex(node: ast.expr, names: Mapping[str, ComplexFraction] = IMAGINARY_UNITS) -> ComplexFraction:
    """Return the value of a tree of numbers, operators and names. Raises the errors of `evaluate_exactly`."""
    match node:
        case ast.Constant(value=str(digits)):
            return ComplexFraction(Fraction(digits), Fraction(0))
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.UnaryOp(op=sign, operand=operand):
            real, imaginary = evaluate_complex(operand, names)
            return (
                ComplexFraction(-real, -imaginary) if isinstance(sign, ast.USub) else ComplexFraction(real, imaginary)
            )
        case ast.BinOp(left=left, op=operator, right=right):
            try:
                value = _calculate(operator, evaluate_complex(left, names), evaluate_complex(right, names))
            except ZeroDivisionError as error:
                raise ExpressionError("division by zero") from error
            return ComplexFraction(within_bits(value.real), within_bits(value.imaginary))
        case _:
            raise ExpressionError("a name or a call has no value")


def _calculate(sign: ast.operator, left: ComplexFraction, right: ComplexFraction) -> ComplexFraction:
    a, b = left
    c, d = right
    match sign:
        case ast.Add():
            return ComplexFraction(a + c, b + d)
        case ast.Sub():
            return ComplexFraction(a - c, b - d)
        case ast.Mult():
            return ComplexFraction(a * c - b * d, a * d + b * c)
        case ast.Div():
            size = c * c + d * d
            return ComplexFraction((a * c + b * d) / size, (b * c - a * d) / size)
    if d or c.denominator != 1:
        raise ExpressionError("an exponent is not a whole number")
    return _power(left, int(c))


def _power(base: ComplexFraction, exponent: int) -> ComplexFraction:
    if not base.imaginary:
        within_bits(base.real, times=abs(exponent))
        return ComplexFraction(Fraction(base.real**exponent), Fraction(0))
    if not 0 <= exponent <= MAX_COMPLEX_POWER:
        raise ExpressionError("the power of a complex number is large or negative")
    value = ComplexFraction(Fraction(1), Fraction(0))
    for _ in range(exponent):
        value = _calculate(ast.Mult(), value, base)
    return value


def within_bits(value: Fraction, times: int = 1) -> Fraction:
    """Return the value. Raises ExpressionError if the value to the power `times` has more than MAX_BITS bits."""
    if times * max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
        raise ExpressionError("a value has too many digits")
    return value
