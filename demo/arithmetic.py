"""Integer arithmetic on question text, without `eval`: the text is parsed, and only listed operations are carried out.

`/` means floor division, as it does in the questions this is for.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping

MAX_EXPRESSION_CHARS = 1000
MAX_SHIFT_BITS = 64
MAX_VALUE = 2**512
"""Far beyond any honest question; keeps a long product from growing without end."""

BINARY_OPERATIONS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
UNARY_OPERATIONS: Mapping[type[ast.unaryop], Callable[[int], int]] = {ast.USub: operator.neg, ast.UAdd: operator.pos}


class ArithmeticTextError(ValueError):
    """The text is not an expression that `evaluate` takes."""


def evaluate(expression: str, names: Mapping[str, int] | None = None) -> int:
    """Return the value of an expression of integers, `names`, parentheses and + - * / << >> & | ^.

    Raises ArithmeticTextError for anything else, for a division by zero and for numbers out of bounds.
    """
    if len(expression) > MAX_EXPRESSION_CHARS:
        raise ArithmeticTextError(f"expected at most {MAX_EXPRESSION_CHARS} characters, got {len(expression)}")
    try:
        tree = ast.parse(expression.strip(), mode="eval")
        return _value(tree.body, names or {})
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError) as error:
        raise ArithmeticTextError(f"cannot evaluate {expression[:80]!r}: {error}") from error


def _value(node: ast.expr, names: Mapping[str, int]) -> int:
    value = _unbounded_value(node, names)
    if abs(value) > MAX_VALUE:
        raise ArithmeticTextError("a number grew too large")
    return value


def _unbounded_value(node: ast.expr, names: Mapping[str, int]) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name) and node.id in names:
        return names[node.id]
    if isinstance(node, ast.UnaryOp) and type(node.op) in UNARY_OPERATIONS:
        return UNARY_OPERATIONS[type(node.op)](_value(node.operand, names))
    if isinstance(node, ast.BinOp) and type(node.op) in BINARY_OPERATIONS:
        left, right = _value(node.left, names), _value(node.right, names)
        if isinstance(node.op, (ast.LShift, ast.RShift)) and not 0 <= right <= MAX_SHIFT_BITS:
            raise ArithmeticTextError(f"expected a shift by 0 to {MAX_SHIFT_BITS} bits")
        return BINARY_OPERATIONS[type(node.op)](left, right)
    raise ArithmeticTextError(f"{type(node).__name__} is not allowed")
