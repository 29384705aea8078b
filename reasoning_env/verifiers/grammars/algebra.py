"""Read model text as sympy expressions, built node by node, never through sympy's own parser.

Only the elementary functions below can be called, so nothing that restates a question (an unevaluated or evaluated
integral, `expand`, `Subs`) can be written. Decimals in integrals are read exactly: a floating-point term large enough
to swallow another would make unequal expressions equal.
"""

from __future__ import annotations

import cmath
import contextlib
import keyword
import math
import signal
from collections.abc import Iterator
from functools import cache
from typing import Any

import mpmath
import sympy

from .expressions import MAX_BITS, OPERATIONS, ExpressionError, Item, Kind, parse_expression, run_program

MAX_ITEMS = 5000
SYMPY_S = 1.0
"""Processor time for what sympy does with an answer; honest ones take less."""
MAX_NAME = 32
MAX_NAMES = 8
MAX_EXPONENT = 200
"""Largest power of a symbolic base; larger ones would be multiplied out for ever."""

Program = tuple[Item, ...]

CONSTANTS = {"pi": sympy.pi, "E": sympy.E, "I": sympy.I}
FUNCTIONS = frozenset({
    *("sin", "cos", "tan", "sec", "csc", "cot", "asin", "acos", "atan", "asec", "acsc", "acot"),
    *("sinh", "cosh", "tanh", "sech", "csch", "coth", "asinh", "acosh", "atanh", "exp", "log", "ln", "sqrt"),
})  # fmt: skip
"""Functions of one argument that have the same name in sympy and in mpmath."""
SIZE = frozenset({"Abs", "abs"})
OPERATORS = {"Rational": "/", "Pow": "**", "pow": "**"}
"""Functions of two arguments that are operators."""

SAMPLE_POINTS = ("0.3718", "0.7351", "1.6183", "2.9137", "-0.4142", "-1.2361", "-2.6458")
ENOUGH_POINTS = 4
"""At so many points, elementary functions that agree in TOLERANCE are the same."""
OTHER_VALUE = "0.5772"
"""Of names that are not the variable."""
DIGITS, STEP = 140, "1e-40"
"""Slopes are differences over twice this step, calculated to so many digits."""
TOLERANCE = mpmath.mpf("1e-60")
"""The relative difference of values that count as equal."""
ROUNDING = 1e-6
"""The same for floating point."""
PLAIN = 1e12
"""Constants above it, or below its inverse, could hide a term from the digits that are compared."""


def is_antiderivative(answer: str, integrand: str, variable: str) -> bool:
    """Tell whether the derivative of the answer is the integrand, to 60 digits at several points.

    Where there are too few points, or constants could hide a difference, sympy's simplification must show it in time.
    """
    program, target = read_algebra(answer), read_algebra(integrand)
    if len(_names(program)) > MAX_NAMES:
        raise ExpressionError(f"over {MAX_NAMES} variables")
    points = _agreeing_points(program, target, variable)
    if points is None:
        return False
    if points >= ENOUGH_POINTS and _has_plain_constants(program):
        return True
    with _bounded_sympy():
        derivative = sympy.diff(build(program, exact_decimals=True), sympy.Symbol(variable))
        return bool(sympy.simplify(derivative - build(target, exact_decimals=True)) == 0)


def is_same_polynomial(answer: str, polynomial: str) -> bool:
    """Tell whether two texts become the same sympy expression; products of sums are not multiplied out."""
    program, target = read_algebra(answer), read_algebra(polynomial)
    if any(item.kind is Kind.CALL for item in program) or not _names(program) <= _names(target):
        return False
    if _values_differ(program, target):
        return False  # found in a moment, where sympy would work on radicals for minutes
    with _bounded_sympy():
        return bool(build(program, exact_decimals=False) == build(target, exact_decimals=False))


def read_algebra(text: str) -> Program:
    """Return a text's program, with operators for functions that are operators. Raises ExpressionError."""
    return tuple(
        Item(Kind.OPERATOR, OPERATORS[item.text], 2) if item.arity == 2 and item.text in OPERATORS else item
        for item in parse_expression(text, MAX_ITEMS)
    )


def _names(program: Program) -> frozenset[str]:
    return frozenset(item.text for item in program if item.kind is Kind.NAME)


class _OverTime(BaseException):
    """Sympy catches what is an Exception."""


@contextlib.contextmanager
def _bounded_sympy() -> Iterator[None]:
    """Give sympy SYMPY_S of processor time; raises ExpressionError when sympy takes longer or fails."""

    def end(*_: object) -> None:
        raise _OverTime

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, SYMPY_S)
    try:
        yield
    except _OverTime:
        raise ExpressionError(f"sympy takes over {SYMPY_S:g} s") from None
    except (ArithmeticError, AttributeError, TypeError, ValueError, RecursionError, NotImplementedError) as error:
        raise ExpressionError(f"sympy fails: {type(error).__name__}") from error
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


# ---- symbols


def build(program: Program, *, exact_decimals: bool) -> sympy.Expr:
    """Return the sympy expression of a program.

    Raises ExpressionError for names and calls that are not elementary, and for powers that would grow out of bounds.
    """

    def leaf(item: Item) -> sympy.Expr:
        if item.kind is Kind.NAME:
            return _symbol(item.text)
        if item.text.isdigit():
            return sympy.Integer(item.text)
        return sympy.Rational(item.text) if exact_decimals else sympy.Float(item.text)

    value = _total(run_program(program, leaf, _combine))
    if value.has(sympy.nan, sympy.zoo, sympy.oo, -sympy.oo):
        raise ExpressionError("an infinite or undefined value")
    return value


def _combine(item: Item, operands: list[Any]) -> Any:
    """Apply an item to sympy expressions.

    Sums are collected in lists, and added up at once: one after the other would take quadratic time.
    """
    if item.text in ("+", "-"):
        terms, right = operands[0] if isinstance(operands[0], list) else [operands[0]], _total(operands[1])
        terms.append(-right if item.text == "-" else right)
        return terms
    operands = [_total(operand) for operand in operands]
    if item.text == "**":
        _check_power(*operands)
    if item.kind is Kind.OPERATOR:
        return OPERATIONS[item.text](*operands)
    if (item.arity == 1 and item.text in FUNCTIONS) or (item.arity == 2 and item.text == "log"):
        return getattr(sympy, item.text)(*operands)
    if item.arity == 1 and item.text in SIZE:
        return sympy.Abs(*operands)
    raise ExpressionError(f"{item.text} with {item.arity} arguments is not an elementary function")


def _total(value: Any) -> Any:
    return sympy.Add(*value) if isinstance(value, list) else value


def _symbol(name: str) -> sympy.Expr:
    if name in CONSTANTS:
        return CONSTANTS[name]
    if len(name) > MAX_NAME or name in _reserved_names():
        raise ExpressionError(f"{name!r} is not a variable")
    return sympy.Symbol(name)


@cache
def _reserved_names() -> frozenset[str]:
    """Return names that sympy does not read as new variables, but for C, the constant of integration."""
    return frozenset({*dir(sympy), *keyword.kwlist, *SIZE}) - {"C"}


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


# ---- numbers


def _agreeing_points(program: Program, target: Program, variable: str) -> int | None:
    """Count points at which the slope equals the target; None if they differ at a comparable point.

    Floating point comes first, because it overflows where digits would be calculated for ever. Functions may have
    other branches left of zero, where only real values are compared.
    """
    agreeing = 0
    for point in SAMPLE_POINTS:
        if _value(target, variable, float(point), mpmath.fp) is None:
            continue
        if _value(program, variable, float(point), mpmath.fp) is None:
            return None
        with mpmath.workdps(DIGITS):
            x, step = mpmath.mpf(point), mpmath.mpf(STEP)
            wanted = _value(target, variable, x, mpmath.mp)
            low, high = (_value(program, variable, near, mpmath.mp) for near in (x - step, x + step))
            if wanted is None or low is None or high is None:
                return None
            slope = (high - low) / (2 * step)
            if _is_near(slope, wanted):
                agreeing += 1
            elif x > 0 or (_is_real(slope) and _is_real(wanted)):
                return None
    return agreeing


def _values_differ(program: Program, target: Program) -> bool:
    """Tell whether two programs have different values at a point, as far as floating point reaches."""
    variable = min(_names(target), default="")
    said, right = (_value(one, variable, float(SAMPLE_POINTS[0]), mpmath.fp) for one in (program, target))
    if said is None or right is None:
        return right is not None
    return bool(abs(said - right) > ROUNDING * (1 + abs(right) + abs(said)))


def _is_near(one: Any, other: Any) -> bool:
    return bool(abs(one - other) <= TOLERANCE * (1 + abs(other) + abs(one)))


def _is_real(value: Any) -> bool:
    return bool(abs(mpmath.im(value)) <= TOLERANCE * (1 + abs(value)))


def _has_plain_constants(program: Program) -> bool:
    """Tell whether no constant part of a program is so large or so small that it could hide something."""
    plain = True

    def leaf(item: Item) -> Any:
        return _checked(mpmath.mpf(item.text)) if item.kind is Kind.NUMBER else None

    def apply(item: Item, operands: list[Any]) -> Any:
        if item.kind is not Kind.OPERATOR or None in operands:
            return None
        return _checked(OPERATIONS[item.text](*operands))

    def _checked(value: Any) -> Any:
        nonlocal plain
        plain = plain and (value == 0 or 1 / PLAIN <= abs(value) <= PLAIN)
        return value

    try:
        run_program(program, leaf, apply)
    except (ArithmeticError, ValueError):
        return False
    return plain


def _value(program: Program, variable: str, point: Any, context: Any) -> Any:
    """Return a program's value in one of mpmath's contexts where it is a finite number, else None."""
    constants = {variable: point, "pi": +context.pi, "E": +context.e, "I": context.mpc(0, 1)}

    def leaf(item: Item) -> Any:
        if item.kind is Kind.NAME:
            return constants.get(item.text, context.mpf(OTHER_VALUE))
        return context.mpf(item.text)

    def apply(item: Item, operands: list[Any]) -> Any:
        if item.kind is Kind.OPERATOR:
            return OPERATIONS[item.text](*operands)
        if item.arity == 2 and item.text == "log":
            return context.log(operands[0]) / context.log(operands[1])
        if item.arity == 1 and item.text in FUNCTIONS:
            return (getattr(context, item.text, None) or getattr(cmath, item.text))(*operands)
        if item.arity == 1 and item.text in SIZE and operands[0].imag == 0:
            return abs(*operands)  # of a complex number it has no derivative
        raise ExpressionError(f"no value for {item.text}")

    try:
        value = run_program(program, leaf, apply)
    except (ArithmeticError, ValueError, TypeError, ExpressionError):
        return None
    return value if mpmath.isfinite(value) else None
