"""Parse arithmetic and algebra in model text with Python's own parser, and calculate with exact numbers.

A tree has only numbers, names, operators and calls of names. No tree is run as code. The size of expressions and values
is limited, because `9**9**9` has a huge value.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Generic, TypeVar

MAX_OPERAND_DEPTH = 100
"""Maximum nesting of operands. A chain of sums or products is one level."""
MAX_DIGITS = 200
MAX_DECIMAL_EXPONENT = 30
MAX_BITS = 4096
"""Maximum number of bits of an intermediate value in exact arithmetic."""
IMAGINARY_UNITS = "ijIJ"

EXPRESSION = re.compile(r"(?:[A-Za-z0-9_+\-*/(),. \t\n]|\r\n)+")
PART = re.compile(r"\w+|\*\*|[^\w\s]", re.ASCII)
NUMBER_TOKEN = re.compile(r"(?P<mantissa>\d+\.?\d*|\.\d+)(?:[eE](?P<exponent>[+-]?\d{1,4}))?", re.ASCII)


class ExpressionError(ValueError):
    """A string is not an expression that the grammars of this package allow, or exceeds a limit."""


def parse_expression(text: str, max_parts: int) -> ast.expr:
    """Return the syntax tree of an expression. Constants are strings of digits, so that no number is rounded.

    Raises ExpressionError for any other text, and for more than `max_parts` numbers, names and signs.
    """
    text = text.strip()
    if not EXPRESSION.fullmatch(text):
        raise ExpressionError("only numbers, names, + - * / ** and parentheses are allowed")
    if len(PART.findall(text)) > max_parts:
        raise ExpressionError(f"the expression has more than {max_parts} numbers, names and signs in all")
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise ExpressionError(f"the string is not an expression: {type(error).__name__}") from error
    lines = text.split("\n")
    waiting = [(tree, 0)]
    while waiting:
        node, depth = waiting.pop()
        if depth > MAX_OPERAND_DEPTH:
            raise ExpressionError(f"the expression is nested more than {MAX_OPERAND_DEPTH} levels deep")
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


Value = TypeVar("Value")
OPERATIONS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}


class Arithmetic(Generic[Value]):
    """Calculates the value of a syntax tree. A subclass defines the values of numbers, names and functions."""

    def number(self, digits: str) -> Value:
        raise NotImplementedError

    def name(self, name: str) -> Value:
        raise NotImplementedError

    def call(self, function: str, arguments: list[Value]) -> Value:
        raise ExpressionError(f"the function {function} is not supported")

    def operate(self, sign: type[ast.AST], operands: list[Value]) -> Value:
        return OPERATIONS[sign](*operands)  # type: ignore[no-any-return]

    def value(self, node: ast.expr) -> Value:
        """Return the value of a tree. Raises ExpressionError."""
        chain = []  # a loop, because recursion would be too deep for a chain of sums or products
        while isinstance(node, ast.BinOp):
            chain.append((type(node.op), node.right))
            node = node.left
        match node:
            case ast.Constant(value=str(digits)):
                value = self.number(digits)
            case ast.Name(id=name):
                value = self.name(name)
            case ast.UnaryOp(op=sign, operand=operand):
                value = self.operate(type(sign), [self.value(operand)])
            case ast.Call(func=ast.Name(id=function), args=nodes):
                value = self.call(function, [self.value(argument) for argument in nodes])
            case _:
                raise ExpressionError(f"{type(node).__name__} is not allowed in an expression")
        for operation, right in reversed(chain):
            value = self.operate(operation, [value, self.value(right)])
        return value


class _ExactArithmetic(Arithmetic[Fraction]):
    def __init__(self, names: Mapping[str, Fraction]) -> None:
        self._names = names

    def number(self, digits: str) -> Fraction:
        return Fraction(digits)

    def name(self, name: str) -> Fraction:
        if name not in self._names:
            raise ExpressionError(f"the name {name} is not supported")
        return self._names[name]

    def operate(self, sign: type[ast.AST], operands: list[Fraction]) -> Fraction:
        if sign is ast.Pow:
            base, exponent = operands
            if exponent.denominator != 1:
                raise ExpressionError("an exponent is not a whole number")
            within_bits(base, times=abs(int(exponent)))
        try:
            return within_bits(Fraction(super().operate(sign, operands)))
        except ZeroDivisionError as error:
            raise ExpressionError("division by zero") from error


def evaluate_exactly(node: ast.expr, names: Mapping[str, Fraction] | None = None) -> Fraction:
    """Return the value of a tree of numbers, operators and names. `names` maps each name to its value.

    Raises ExpressionError for unknown names, calls, division by zero, fractional exponents and huge values.
    """
    return _ExactArithmetic(names or {}).value(node)


class _ComplexArithmetic(Arithmetic[complex]):
    def number(self, digits: str) -> complex:
        return complex(digits)

    def name(self, name: str) -> complex:
        if name not in IMAGINARY_UNITS:
            raise ExpressionError(f"the name {name} is not supported")
        return 1j


def evaluate_complex(node: ast.expr) -> complex:
    """Return the value of a tree of numbers, operators and imaginary units, in floating point.

    Raises ExpressionError for calls, division by zero, huge values, and names other than i and j.
    """
    try:
        return _ComplexArithmetic().value(node)
    except ArithmeticError as error:
        raise ExpressionError("the value is not a finite number") from error


def within_bits(value: Fraction, times: int = 1) -> Fraction:
    """Return `value`. Raises ExpressionError if `value**times` would have more than MAX_BITS bits."""
    if times * max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
        raise ExpressionError("a value has too many digits")
    return value
