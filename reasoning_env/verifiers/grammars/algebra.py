"""Model text as sympy expressions, built node by node from the grammar, never through sympy's own parser.

Only the elementary functions below can be called, so nothing that restates a question (an unevaluated or evaluated
integral, `expand`, `Subs`) can be written. Decimals are read exactly: a floating-point term large enough to swallow
another would make unequal expressions equal.
"""

from __future__ import annotations

import cmath
import contextlib
import keyword
import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import mpmath
import sympy

from .expressions import MAX_BITS, ExpressionError, Item, Kind, parse

MAX_ITEMS = 5000
MAX_NAME = 32
MAX_EXPONENT = 200
"""Largest power of a symbolic base; larger ones would be multiplied out for ever."""

CONSTANTS = {"pi": sympy.pi, "E": sympy.E, "I": sympy.I}

FUNCTIONS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "sin": (lambda m, z: m.sin(z), lambda m, z: m.cos(z)),
    "cos": (lambda m, z: m.cos(z), lambda m, z: -m.sin(z)),
    "tan": (lambda m, z: m.tan(z), lambda m, z: 1 / m.cos(z) ** 2),
    "sec": (lambda m, z: 1 / m.cos(z), lambda m, z: m.sin(z) / m.cos(z) ** 2),
    "csc": (lambda m, z: 1 / m.sin(z), lambda m, z: -m.cos(z) / m.sin(z) ** 2),
    "cot": (lambda m, z: 1 / m.tan(z), lambda m, z: -1 / m.sin(z) ** 2),
    "asin": (lambda m, z: m.asin(z), lambda m, z: 1 / m.sqrt(1 - z * z)),
    "acos": (lambda m, z: m.acos(z), lambda m, z: -1 / m.sqrt(1 - z * z)),
    "atan": (lambda m, z: m.atan(z), lambda m, z: 1 / (1 + z * z)),
    "sinh": (lambda m, z: m.sinh(z), lambda m, z: m.cosh(z)),
    "cosh": (lambda m, z: m.cosh(z), lambda m, z: m.sinh(z)),
    "tanh": (lambda m, z: m.tanh(z), lambda m, z: 1 / m.cosh(z) ** 2),
    "asinh": (lambda m, z: m.asinh(z), lambda m, z: 1 / m.sqrt(1 + z * z)),
    "acosh": (lambda m, z: m.acosh(z), lambda m, z: 1 / (m.sqrt(z - 1) * m.sqrt(z + 1))),
    "atanh": (lambda m, z: m.atanh(z), lambda m, z: 1 / (1 - z * z)),
    "sech": (lambda m, z: 1 / m.cosh(z), lambda m, z: -m.sinh(z) / m.cosh(z) ** 2),
    "csch": (lambda m, z: 1 / m.sinh(z), lambda m, z: -m.cosh(z) / m.sinh(z) ** 2),
    "coth": (lambda m, z: 1 / m.tanh(z), lambda m, z: -1 / m.sinh(z) ** 2),
    "acot": (lambda m, z: m.atan(1 / z), lambda m, z: -1 / (1 + z * z)),
    "asec": (lambda m, z: m.acos(1 / z), lambda m, z: 1 / (z * z * m.sqrt(1 - 1 / (z * z)))),
    "acsc": (lambda m, z: m.asin(1 / z), lambda m, z: -1 / (z * z * m.sqrt(1 - 1 / (z * z)))),
    "exp": (lambda m, z: m.exp(z), lambda m, z: m.exp(z)),
    "log": (lambda m, z: m.log(z), lambda m, z: 1 / z),
    "ln": (lambda m, z: m.log(z), lambda m, z: 1 / z),
    "sqrt": (lambda m, z: m.sqrt(z), lambda m, z: 1 / (2 * m.sqrt(z))),
    "Abs": (lambda m, z: abs(z), lambda m, z: _sign(z)),
    "abs": (lambda m, z: abs(z), lambda m, z: _sign(z)),
}
"""Functions of one argument: value and derivative, in terms of a module that has the functions of cmath."""

SAMPLE_POINTS = ("0.3718", "0.7351", "1.6183", "2.9137")
FLOAT_TOLERANCE = 1e-6
DIGITS = 60
DIGITS_TOLERANCE = 1e-40
MAX_NAMES = 8


def _sign(value: Any) -> int:
    if value.imag != 0 or value.real == 0:
        raise ArithmeticError("no derivative")
    return 1 if value.real > 0 else -1


def build(program: Sequence[Item], *, exact_decimals: bool) -> sympy.Expr:
    """The sympy expression of a program. Raises ExpressionError for names and calls that are not elementary, and for
    powers that would grow out of bounds."""
    values: list[Any] = []
    for item in program:
        if item.kind is Kind.NUMBER:
            values.append(_number(item.text, exact_decimals))
        elif item.kind is Kind.NAME:
            values.append(_symbol(item.text))
        elif item.text in ("+", "-"):
            right, left = _total(values.pop()), values.pop()
            # Sums are collected, and added up at once: one after the other would take quadratic time.
            terms = left if isinstance(left, list) else [left]
            terms.append(-right if item.text == "-" else right)
            values.append(terms)
        else:
            arguments = [_total(value) for value in values[len(values) - item.arity :]]
            del values[len(values) - item.arity :]
            apply = _call if item.kind is Kind.CALL else _combine
            values.append(apply(item.text, arguments))
    value = _total(values.pop())
    if value.has(sympy.nan, sympy.zoo, sympy.oo, -sympy.oo):
        raise ExpressionError("an infinite or undefined value")
    return value


def _total(value: Any) -> Any:
    return sympy.Add(*value) if isinstance(value, list) else value


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
    return frozenset({*dir(sympy), *keyword.kwlist, *FUNCTIONS}) - {"C"}


def _call(name: str, arguments: list[Any]) -> Any:
    if len(arguments) == 1 and name in FUNCTIONS:
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
    if abs(exponent) > MAX_EXPONENT:
        raise ExpressionError("a power that is too large")
    size = math.ceil(abs(exponent))
    if base.is_Rational and size * max(base.p.bit_length(), base.q.bit_length()) > MAX_BITS:
        raise ExpressionError("a value of too many digits")


def is_antiderivative(answer: str, integrand: str, variable: str) -> bool:
    """Whether the derivative of the answer is the integrand, as far as sympy's simplification can show it."""
    program = parse(answer, MAX_ITEMS)
    target_program = parse(integrand, MAX_ITEMS)
    if len(_names(program)) > MAX_NAMES:
        raise ExpressionError(f"over {MAX_NAMES} variables")
    if _differs(program, target_program, variable):
        return False
    with _sympy_failures():
        target = build(target_program, exact_decimals=True)
        derivative = sympy.diff(build(program, exact_decimals=True), sympy.Symbol(variable))
        return bool(sympy.simplify(derivative - target) == 0)


def is_same_polynomial(answer: str, target: str) -> bool:
    """Whether two texts become the same sympy expression; products of sums are not multiplied out."""
    program, target_program = parse(answer, MAX_ITEMS), parse(target, MAX_ITEMS)
    if any(item.kind is Kind.CALL for item in program) or not _names(program) <= _names(target_program):
        return False
    with _sympy_failures():
        return bool(build(program, exact_decimals=False) == build(target_program, exact_decimals=False))


@contextlib.contextmanager
def _sympy_failures() -> Iterator[None]:
    """Sympy raises many things for expressions that it cannot cope with."""
    try:
        yield
    except (ArithmeticError, AttributeError, TypeError, ValueError, RecursionError, NotImplementedError) as error:
        raise ExpressionError(f"sympy fails: {type(error).__name__}") from error


def _names(program: Sequence[Item]) -> frozenset[str]:
    return frozenset(item.text for item in program if item.kind is Kind.NAME)


def _differs(program: Sequence[Item], target: Sequence[Item], variable: str) -> bool:
    """Whether a program's derivative is not the target's value at a point where the latter has one.

    What differs in numbers cannot be equal, and is told apart in microseconds; simplification, which decides the rest,
    takes up to seconds. Floating point comes first, because it overflows where digits would be computed for ever.
    """
    if _differs_numerically(program, target, variable, cmath, complex, FLOAT_TOLERANCE):
        return True
    with mpmath.workdps(DIGITS):
        return _differs_numerically(program, target, variable, mpmath.mp, mpmath.mpc, DIGITS_TOLERANCE)


def _differs_numerically(
    program: Sequence[Item], target: Sequence[Item], variable: str, module: Any, number: Any, tolerance: float
) -> bool:
    for point in SAMPLE_POINTS:
        wanted = _try_evaluate(target, variable, point, module, number)
        if wanted is None:
            continue
        found = _try_evaluate(program, variable, point, module, number)
        if found is None:
            return True
        value, slope = wanted[0], found[1]
        if abs(slope - value) > tolerance * (1 + abs(value) + abs(slope)):
            return True
    return False


def _try_evaluate(
    program: Sequence[Item], variable: str, point: str, module: Any, number: Any
) -> tuple[Any, Any] | None:
    """Value and derivative where both are finite numbers."""
    try:
        value, slope = _evaluate(program, variable, point, module, number)
    except (ArithmeticError, ValueError, TypeError, ExpressionError):
        return None
    return (value, slope) if module.isfinite(value) and module.isfinite(slope) else None


def _evaluate(program: Sequence[Item], variable: str, point: str, module: Any, number: Any) -> tuple[Any, Any]:
    """A program's value and its derivative, by forward differentiation; other names are constants."""
    stack: list[tuple[Any, Any]] = []
    for item in program:
        if item.kind is Kind.NUMBER:
            stack.append((number(item.text), 0))
        elif item.kind is Kind.NAME:
            stack.append((number(point), 1) if item.text == variable else (_constant(item.text, module, number), 0))
        elif item.kind is Kind.CALL and item.arity == 1 and item.text in FUNCTIONS:
            (value, slope), (apply, derive) = stack.pop(), FUNCTIONS[item.text]
            # A constant has no slope, even where the function has no derivative.
            stack.append((apply(module, value), slope * derive(module, value) if slope != 0 else 0))
        elif item.arity == 1:
            value, slope = stack.pop()
            # A minus sign would also turn the sign of a zero imaginary part, and with it the side of a branch cut.
            stack.append((0 - value, 0 - slope) if item.text == "negate" else (value, slope))
        elif item.arity == 2:
            right, left = stack.pop(), stack.pop()
            stack.append(_combine_duals(item.text, left, right, module))
        else:
            raise ExpressionError(f"no value for {item.text}")
    (result,) = stack
    return result


def _constant(name: str, module: Any, number: Any) -> Any:
    constants = {"pi": module.pi, "E": module.e, "I": 1j}
    return number(constants[name]) if name in constants else number("0.5772")


def _combine_duals(operator: str, left: tuple[Any, Any], right: tuple[Any, Any], module: Any) -> tuple[Any, Any]:
    (a, da), (b, db) = left, right
    if operator == "+":
        return a + b, da + db
    if operator == "-":
        return a - b, da - db
    if operator == "*":
        return a * b, da * b + a * db
    if operator in ("/", "Rational"):
        return a / b, (da * b - a * db) / (b * b)
    if operator == "log":
        return _combine_duals("/", (module.log(a), da / a), (module.log(b), db / b), module)
    if operator not in ("**", "Pow", "pow"):
        raise ExpressionError(f"no value for {operator}")
    value = a**b
    if db != 0:
        return value, value * (db * module.log(a) + b * da / a)
    return value, b * a ** (b - 1) * da if da != 0 else 0
