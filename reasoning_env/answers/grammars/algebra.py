"""Check integrals and products of polynomials by evaluating them at random points.

Answers must not restate the question: integrals may call only elementary functions, and products must be expanded.
"""

from __future__ import annotations

import ast
import math
import random
from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple, TypeAlias

import mpmath

from ..calculations import ABSOLUTE_VALUES, FUNCTIONS
from .expressions import OPERATIONS, Arithmetic, ExpressionError, evaluate_exactly, parse_expression, within_bits

MAX_TREE_PARTS = 2000
MAX_NAMES = 8
MAX_CALLS = 100
"""Limit for function calls and powers with a non-constant exponent. Both are slow, and right answers have few."""
POLYNOMIAL_POINTS, LARGEST_INTEGER = 4, 10**6
"""Number of random points, and the limit of a variable's value. Two different polynomials of degree 100 agree at all
these points with a probability of at most 1e-16."""

INVERSE_FUNCTIONS = frozenset({"asin", "acos", "atan", "asinh", "acosh", "atanh"})
SMALLEST_POINT, LARGEST_POINT = 1e-3, 1e3
"""Smallest and largest absolute value of a random point. Points are log-uniform."""
MAX_POINTS = 120
AGREEING = 6
"""Number of points at which the derivative of the answer must equal the integrand."""
DIGITS = 140
"""Number of decimal digits with which derivatives are calculated."""
STEP = "1e-40"
"""Step of the central difference that approximates the derivative: (f(x + step) - f(x - step)) / (2 * step)."""
TOLERANCE = mpmath.mpf("1e-60")
"""Two values count as equal up to this relative difference."""
LARGEST_PART = 1e26
"""Functions are compared at a point only if all intermediate values there have sizes from 1e-26 to 1e26 (or are 0).
A far larger term could hide another term."""


def _calls(tree: ast.expr) -> list[ast.Call]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


def _function(call: ast.Call) -> str:
    """Return mpmath's name of the called function, such as `log` for `ln`."""
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    return FUNCTIONS.get(name, name)


def _names(tree: ast.expr) -> frozenset[str]:
    """Return the names of the variables and constants in `tree`."""
    functions = {id(call.func) for call in _calls(tree)}
    return frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in functions)


# ---- polynomials


def is_same_polynomial(answer: str, polynomial: str) -> bool:
    """Return True if two polynomials have the same values at random points.

    Raises ExpressionError for strings outside the grammar or its limits, and for products that are not multiplied out.
    """
    trees = [parse_expression(text, MAX_TREE_PARTS) for text in (answer, polynomial)]
    drawn = random.Random(answer)  # seeded, so that the same answer always gets the same score
    names = sorted(frozenset[str]().union(*map(_names, trees)))
    for _ in range(POLYNOMIAL_POINTS):
        point = {name: Fraction(drawn.randrange(LARGEST_INTEGER)) for name in names}
        left, right = (_Polynomial(point).value(tree) for tree in trees)
        if left.value != right.value:
            return False
    return True


class _Part(NamedTuple):
    """The value of a part of a polynomial, such as a term or a factor."""

    value: Fraction
    varies: bool = False  # the part has variables
    is_sum: bool = False  # the part has a sum with variables


class _Polynomial(Arithmetic[_Part]):
    """Calculates a polynomial's value at a point. Unexpanded products, such as `x*(x + 1)`, raise an error."""

    def __init__(self, point: Mapping[str, Fraction]) -> None:
        self._point = point

    def number(self, digits: str) -> _Part:
        if not digits.isdigit():
            raise ExpressionError("decimal numbers in a polynomial are not supported")
        return _Part(Fraction(digits))

    def name(self, name: str) -> _Part:
        return _Part(self._point[name], varies=True)

    def operate(self, sign: type[ast.AST], operands: list[_Part]) -> _Part:
        left, right = operands[0], operands[-1]
        is_sum = left.is_sum or right.is_sum
        if sign in (ast.Div, ast.Pow) and right.varies:
            raise ExpressionError("variables in a divisor or an exponent are not supported")
        if sign is ast.Div and not right.value:
            raise ExpressionError("division by zero")
        if sign is ast.Pow:
            if right.value.denominator != 1 or right.value < 0 or (is_sum and right.value != 1):
                raise ExpressionError("negative or fractional exponents, and powers of sums, are not supported")
            within_bits(left.value, times=int(right.value))
        if sign is ast.Mult and is_sum and left.varies and right.varies:
            raise ExpressionError("a product of sums must be multiplied out")
        value = within_bits(Fraction(OPERATIONS[sign](*(part.value for part in operands))))
        varies = left.varies or right.varies
        return _Part(value, varies, is_sum or (varies and sign in (ast.Add, ast.Sub)))


# ---- integrals


Context: TypeAlias = "mpmath.ctx_mp.MPContext | mpmath.ctx_fp.FPContext"
"""One of mpmath's contexts: `mp` has any number of digits, `fp` is floating point."""


def is_antiderivative(answer: str, integrand: str, variable: str) -> bool:
    """Return True if the derivative of the answer equals the integrand, to 60 digits at random points.

    All functions are real, and `log(x)` means `log(abs(x))`. Answers that could have a jump or a corner are rejected,
    because random points could miss a jump or a corner.

    Raises ExpressionError for such answers, and for strings outside the grammar or its limits.
    """
    tree = parse_expression(answer, MAX_TREE_PARTS)
    if len(_names(tree)) > MAX_NAMES:
        raise ExpressionError(f"the answer has more than {MAX_NAMES} variables")
    powers = [node for node in ast.walk(tree) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow)]
    general_powers = sum(not isinstance(power.right, ast.Constant) for power in powers)
    if len(_calls(tree)) + general_powers > MAX_CALLS:
        raise ExpressionError(f"the answer has more than {MAX_CALLS} function calls and variable exponents in total")
    drawn = random.Random(answer)  # seeded, so that the same answer always gets the same score
    _check_calls(tree, variable, drawn)
    for power in powers:
        _check_power(power, variable, drawn)
    return _has_derivative(tree, parse_expression(integrand, MAX_TREE_PARTS), variable, drawn)


def _check_calls(tree: ast.expr, variable: str, drawn: random.Random) -> None:
    """Raise ExpressionError for functions whose graph can have a corner or a jump, such as `abs(x - 2)`.

    - An absolute value must be inside a logarithm: `log(abs(x))` equals `log(x)` here.
    - An inverse function such as `atan` needs a linear argument, because `atan(x) + atan(1/x)` has a jump.
    - An exponent must not contain a logarithm, because `exp(log(x**2)/2)` equals `abs(x)`.
    """
    in_logarithms = {id(call.args[0]) for call in _calls(tree) if _function(call) == "log"}
    for call in _calls(tree):
        name, argument = _function(call), call.args[0]
        if variable not in _names(argument):
            continue
        if name in ABSOLUTE_VALUES and id(call) not in in_logarithms:
            raise ExpressionError("an absolute value is supported only inside a logarithm")
        if name in INVERSE_FUNCTIONS and _quadratic(argument, variable, drawn)[2]:
            raise ExpressionError("an inverse function is supported only with a linear argument")
        if name in ("exp", "sinh", "cosh"):
            _check_exponent(argument)
        if name == "sqrt":
            _check_root(argument, variable, drawn)


def _check_power(power: ast.BinOp, variable: str, drawn: random.Random) -> None:
    """Raise ExpressionError for a power whose graph can have a corner, such as `(x**2)**(1/2)`, which is `abs(x)`."""
    if variable not in _names(power.left):
        _check_exponent(power.right)
    elif _names(power.right):
        raise ExpressionError("a power with variables in both base and exponent is not supported")
    elif evaluate_exactly(power.right).denominator != 1:
        _check_root(power.left, variable, drawn)


def _check_exponent(tree: ast.expr) -> None:
    if any(_function(call) == "log" for call in _calls(tree)):
        raise ExpressionError("a logarithm in an exponent is not supported")


def _check_root(tree: ast.expr, variable: str, drawn: random.Random) -> None:
    """Raise ExpressionError if `tree`, the operand of a root, has a degree above 2 or a double zero.

    If `tree` is an odd power, its base is checked instead.
    """
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Pow) and evaluate_exactly(tree.right) % 2 == 1:
        tree = tree.left
    constant, factor, square = _quadratic(tree, variable, drawn)
    if square and factor * factor == 4 * constant * square:
        raise ExpressionError("the root of a perfect square is not supported")


def _quadratic(tree: ast.expr, variable: str, drawn: random.Random) -> tuple[Fraction, Fraction, Fraction]:
    """Return the coefficients of a polynomial of degree 2 or less, the constant first.

    Raises ExpressionError if random points show that `tree` is not such a polynomial.
    """
    constant, after, later = (evaluate_exactly(tree, {variable: Fraction(point)}) for point in range(3))
    square = (later - 2 * after + constant) / 2
    factor = after - constant - square
    for _ in range(3):
        point = Fraction(drawn.randrange(3, 10**6), 997)
        if evaluate_exactly(tree, {variable: point}) != constant + factor * point + square * point * point:
            raise ExpressionError("the expression is not a polynomial of degree 2 or less")
    return constant, factor, square


def _has_derivative(tree: ast.expr, target: ast.expr, variable: str, drawn: random.Random) -> bool:
    """Return True if the derivative of a tree equals `target` at AGREEING random points and differs at none."""
    agreeing = 0
    constants = sorted((_names(tree) | _names(target)) - {variable})
    for _ in range(MAX_POINTS):
        size = math.exp(drawn.uniform(math.log(SMALLEST_POINT), math.log(LARGEST_POINT)))
        point = repr(drawn.choice((size, -size)))
        others = {name: repr(drawn.uniform(-1, 1)) for name in constants}
        # Skip points at which a float overflows: calculating a huge value with many digits would not end.
        if any(_value(one, _Numeric(mpmath.fp, variable, float(point), others)) is None for one in (target, tree)):
            continue
        with mpmath.workdps(DIGITS):
            x, step = mpmath.mpf(point), mpmath.mpf(STEP)
            left = _Numeric(mpmath.mp, variable, x - step, others)
            expected = _value(target, _Numeric(mpmath.mp, variable, x, others))
            low, high = _value(tree, left), _value(tree, _Numeric(mpmath.mp, variable, x + step, others))
            if expected is None or low is None or high is None:
                continue
            slope = (high - low) / (2 * step)
            if abs(slope - expected) > TOLERANCE * (1 + abs(slope) + abs(expected)):
                return False
        if left.has_usual_sizes:
            agreeing += 1
            if agreeing == AGREEING:
                return True
    return False


def _value(tree: ast.expr, meaning: _Numeric) -> mpmath.mpf | None:
    """Return a tree's value at one point; None if the value is not a finite real number."""
    try:
        value = meaning.value(tree)
    except (ArithmeticError, ValueError, TypeError, ExpressionError):
        return None
    return value if mpmath.isfinite(value) else None


class _Numeric(Arithmetic[mpmath.mpf]):
    """Calculates the value of a tree at one point, with real numbers of mpmath."""

    def __init__(self, context: Context, variable: str, point: float | mpmath.mpf, others: Mapping[str, str]) -> None:
        self.has_usual_sizes = True
        """False once a value is outside the sizes that LARGEST_PART allows."""
        self._context = context
        self._values = {
            **{name: context.mpf(value) for name, value in others.items()},
            variable: point,
            "pi": +context.pi,
            "E": +context.e,
            "e": +context.e,
        }

    def number(self, digits: str) -> mpmath.mpf:
        return self._note_size(self._context.mpf(digits))

    def name(self, name: str) -> mpmath.mpf:
        return self._values[name]

    def operate(self, sign: type[ast.AST], operands: list[mpmath.mpf]) -> mpmath.mpf:
        return self._note_size(super().operate(sign, operands))

    def call(self, function: str, arguments: list[mpmath.mpf]) -> mpmath.mpf:
        if len(arguments) != 1 or function not in {*FUNCTIONS, *ABSOLUTE_VALUES}:
            raise ExpressionError(f"the function {function} is not supported")
        (argument,) = arguments
        name = FUNCTIONS.get(function, "abs")
        if name in ("abs", "log"):
            argument = abs(argument)
        if name == "abs":
            return self._note_size(argument)
        return self._note_size((getattr(self._context, name, None) or getattr(math, name))(argument))

    def _note_size(self, value: mpmath.mpf) -> mpmath.mpf:
        if isinstance(value, complex | mpmath.mpc):
            raise ExpressionError("the value of an expression is not a real number")
        if value and not 1 / LARGEST_PART <= abs(value) <= LARGEST_PART:
            self.has_usual_sizes = False
        return value
