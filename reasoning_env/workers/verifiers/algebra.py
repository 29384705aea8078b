"""Model text as sympy expressions, built node by node from the grammar, never through sympy's own parser.

Only the elementary functions below can be called, so nothing that restates a question (an unevaluated or evaluated
integral, `expand`, `Subs`) can be written. Decimals are read exactly: a floating-point term large enough to swallow
another would make unequal expressions equal.
"""

from __future__ import annotations

import cmath
import keyword
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import sympy

from .expressions import MAX_BITS, ExpressionError, Item, Kind, parse

MAX_ITEMS = 5000
MAX_NAME = 16
MAX_EXPONENT = 200
"""Largest power of a symbolic base; larger ones would be multiplied out for ever."""

CONSTANTS = {"pi": sympy.pi, "E": sympy.E, "I": sympy.I}

ELEMENTARY: dict[str, Callable[[complex], complex]] = {
    "sin": cmath.sin,
    "cos": cmath.cos,
    "tan": cmath.tan,
    "asin": cmath.asin,
    "acos": cmath.acos,
    "atan": cmath.atan,
    "sinh": cmath.sinh,
    "cosh": cmath.cosh,
    "tanh": cmath.tanh,
    "asinh": cmath.asinh,
    "acosh": cmath.acosh,
    "atanh": cmath.atanh,
    "exp": cmath.exp,
    "log": cmath.log,
    "ln": cmath.log,
    "sqrt": cmath.sqrt,
    "sec": lambda z: 1 / cmath.cos(z),
    "csc": lambda z: 1 / cmath.sin(z),
    "cot": lambda z: 1 / cmath.tan(z),
    "Abs": abs,
    "abs": abs,
}
"""Functions of one argument, with what computes their values in floating point."""

SAMPLE_POINTS = (0.3718, 0.7351, 1.6183, 2.9137)
STEP = 1e-5
TOLERANCE = 1e-3


def build(program: Sequence[Item], *, exact_decimals: bool) -> sympy.Expr:
    """The sympy expression of a program. Raises ExpressionError for names and calls that are not elementary, and for
    powers that would grow out of bounds."""
    values: list[Any] = []
    for item in program:
        if item.kind is Kind.NUMBER:
            values.append(_number(item.text, exact_decimals))
        elif item.kind is Kind.NAME:
            values.append(_symbol(item.text))
        else:
            arguments = values[len(values) - item.arity :]
            del values[len(values) - item.arity :]
            apply = _call if item.kind is Kind.CALL else _combine
            values.append(apply(item.text, arguments))
    (value,) = values
    if value.has(sympy.nan, sympy.zoo, sympy.oo, -sympy.oo):
        raise ExpressionError("an infinite or undefined value")
    return value


def _number(text: str, exact_decimals: bool) -> sympy.Expr:
    if text.isdigit():
        return sympy.Integer(text)
    return sympy.Rational(text) if exact_decimals else sympy.Float(text)


def _symbol(name: str) -> sympy.Expr:
    if name in CONSTANTS:
        return CONSTANTS[name]
    if len(name) > MAX_NAME or name in _reserved_names():
        raise ExpressionError(f"{name!r} is not a variable")
    return sympy.Symbol(name)


@cache
def _reserved_names() -> frozenset[str]:
    """Names that sympy's parser does not take for a new variable; C is the constant of integration."""
    return frozenset({*dir(sympy), *keyword.kwlist, *ELEMENTARY}) - {"C"}


def _call(name: str, arguments: list[Any]) -> Any:
    if len(arguments) == 1 and name in ELEMENTARY:
        return getattr(sympy, "Abs" if name == "abs" else name)(*arguments)
    if name == "log" and len(arguments) == 2:
        return sympy.log(*arguments)
    if name == "Rational" and len(arguments) == 2 and all(argument.is_Integer for argument in arguments):
        return _combine("/", arguments)
    if name in ("Pow", "pow") and len(arguments) == 2:
        return _combine("**", arguments)
    raise ExpressionError(f"{name} with {len(arguments)} arguments is not an elementary function")


def _combine(operator: str, arguments: list[Any]) -> Any:
    left = arguments[0]
    if len(arguments) == 1:
        return -left if operator == "negate" else left
    right = arguments[1]
    if operator == "+":
        return left + right
    if operator == "-":
        return left - right
    if operator == "*":
        return left * right
    if operator == "/":
        return left / right
    _check_power(left, right)
    return left**right


def _check_power(base: Any, exponent: Any) -> None:
    if not exponent.is_number:
        return
    if not exponent.is_Rational and not exponent.is_Float:
        if base.is_number and not exponent.is_Symbol and exponent.has(sympy.Pow):
            raise ExpressionError("a tower of powers")
        return
    size = abs(float(exponent.p) / float(exponent.q)) if exponent.is_Rational else abs(float(exponent))
    if size > MAX_EXPONENT:
        raise ExpressionError("a power that is too large")
    if base.is_Rational and size * max(base.p.bit_length(), base.q.bit_length()) > MAX_BITS:
        raise ExpressionError("a value of too many digits")


def is_antiderivative(answer: str, integrand: str, variable: str) -> bool:
    """Whether the derivative of the answer is the integrand, as far as sympy's simplification can show it."""
    program = parse(answer, MAX_ITEMS)
    target_program = parse(integrand, MAX_ITEMS)
    if _clearly_differs(program, target_program, variable):
        return False
    target = build(target_program, exact_decimals=True)
    derivative = sympy.diff(build(program, exact_decimals=True), sympy.Symbol(variable))
    return bool(sympy.simplify(derivative - target) == 0)


def is_same_polynomial(answer: str, target: str) -> bool:
    """Whether two texts become the same sympy expression; products of sums are not multiplied out."""
    expression = build(parse(answer, MAX_ITEMS), exact_decimals=False)
    return bool(expression == build(parse(target, MAX_ITEMS), exact_decimals=False))


def _clearly_differs(program: Sequence[Item], target: Sequence[Item], variable: str) -> bool:
    """Whether the slope of a program is far from the target's value, or has none, wherever the target has a value.

    What is far off in floating point cannot be equal, and is told apart in microseconds; simplification, which decides
    the rest, takes up to seconds. The slope is a central difference.
    """
    compared = False
    for point in SAMPLE_POINTS:
        value = _try_evaluate(target, {variable: point})
        if value is None:
            continue
        compared = True
        high, low = (_try_evaluate(program, {variable: point + step}) for step in (STEP, -STEP))
        if high is None or low is None:
            continue
        slope = (high - low) / (2 * STEP)
        rounding = 1e-12 * (abs(high) + abs(low)) / STEP
        if abs(slope - value) <= TOLERANCE * (1 + abs(value) + abs(slope)) + rounding:
            return False
    return compared


def _try_evaluate(program: Sequence[Item], values: Mapping[str, float]) -> complex | None:
    """The value where it is a finite number."""
    try:
        value = _evaluate(program, values)
    except (ArithmeticError, ValueError, ExpressionError):
        return None
    return value if cmath.isfinite(value) else None


def _evaluate(program: Sequence[Item], values: Mapping[str, float]) -> complex:
    """A program's value in complex floating point; symbols without a value are constants, and get one by their name."""
    stack: list[complex] = []
    for item in program:
        if item.kind is Kind.NUMBER:
            stack.append(complex(float(item.text)))
        elif item.kind is Kind.NAME:
            stack.append(complex(_float_constant(item.text, values)))
        elif item.kind is Kind.CALL:
            if item.arity != 1 or item.text not in ELEMENTARY:
                raise ExpressionError(f"no value for a call of {item.text}")
            stack.append(complex(ELEMENTARY[item.text](stack.pop())))
        elif item.arity == 1:
            stack.append(-stack.pop() if item.text == "negate" else stack.pop())
        else:
            right, left = stack.pop(), stack.pop()
            stack.append(_combine_floats(item.text, left, right))
    (value,) = stack
    return value


def _float_constant(name: str, values: Mapping[str, float]) -> complex:
    if name in values:
        return values[name]
    return {"pi": math.pi, "E": math.e, "I": 1j}.get(name, 0.577)


def _combine_floats(operator: str, left: complex, right: complex) -> complex:
    if operator == "+":
        return left + right
    if operator == "-":
        return left - right
    if operator == "*":
        return left * right
    return left / right if operator == "/" else left**right
