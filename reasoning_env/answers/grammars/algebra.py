"""Compare model text with integrals, as numbers, and with polynomials, term by term.

Only the elementary functions below can be called, so no answer can restate the question (with an evaluated or
unevaluated integral, `expand`, `Subs`), and no product of sums is multiplied out.
"""

from __future__ import annotations

import ast
import cmath
import operator
import random
from collections import Counter
from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import cycle
from typing import Any, Protocol, TypeAlias, TypeVar

import mpmath

from .expressions import ExpressionError, parse_expression, within_bits

MAX_TREE_PARTS = 2000
MAX_NAMES = 8
MAX_CALLS = 100
"""Limit of functions and general powers in an integral: each is calculated to many digits at many points.

Honest integrals have a few.
"""
MAX_POWER = 200
"""Largest power of a variable in a polynomial."""

FUNCTIONS = frozenset(
    {"sin", "cos", "tan", "sec", "csc", "cot"}
    | {"asin", "acos", "atan", "asec", "acsc", "acot"}
    | {"sinh", "cosh", "tanh", "sech", "csch", "coth"}
    | {"asinh", "acosh", "atanh"}
    | {"exp", "log", "ln", "sqrt"}
)
"""Functions of one argument, by their names in mpmath."""
ABSOLUTE_VALUES = frozenset({"Abs", "abs"})
OPERATIONS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}

NEAR_POINTS = (0.3718, 0.7351, 1.6183, 2.9137, -0.4142, -1.2361, -2.6458)
FAR_POINTS = (4e1, 1e4, 1e8, 3e12, -4e1, -1e4, -1e8, -3e12)
"""Beyond constants up to LARGEST_PLAIN: the slope of `x**2 + x + abs(x - 50)` is 2*x at all points near zero."""
SPREAD = 0.1
"""Relative distance of a point from the one above. An answer cannot be made for its own points."""
OTHER_VALUE = 0.5772
"""The value of names other than the variable, above and below zero in turn, with a SPREAD."""
AGREEING = 4
"""Points near zero at which slopes must agree: elementary functions that do so within TOLERANCE are the same."""
DIGITS = 140
"""Digits of the numbers from which slopes are calculated."""
STEP = "1e-40"
"""A slope is the difference of the values at one step to the left and to the right, over two steps."""
TOLERANCE = mpmath.mpf("1e-60")
"""Largest relative difference of values that count as equal."""
LARGEST_PLAIN = 1e12
"""Largest constant, and the inverse of the smallest, that cannot hide a term from the compared digits."""


def _calls(tree: ast.expr) -> list[ast.Call]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


def _names(tree: ast.expr) -> frozenset[str]:
    """Return the names of variables and constants."""
    functions = {id(call.func) for call in _calls(tree)}
    return frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in functions)


Value = TypeVar("Value")


class _Arithmetic(Protocol[Value]):
    """The values of the parts of a tree."""

    def number(self, digits: str) -> Value: ...

    def name(self, name: str) -> Value: ...

    def operate(self, sign: type[ast.AST], operands: list[Value]) -> Value: ...

    def call(self, function: str, arguments: list[Value]) -> Value: ...


def _evaluate(node: ast.expr, meaning: _Arithmetic[Value]) -> Value:
    """Return the value of a tree. A chain of operators, which may have thousands, takes a loop and no recursion."""
    chain = []
    while isinstance(node, ast.BinOp):
        chain.append((type(node.op), node.right))
        node = node.left
    match node:
        case ast.Constant(value=str(digits)):
            value = meaning.number(digits)
        case ast.Name(id=name):
            value = meaning.name(name)
        case ast.UnaryOp(op=negation, operand=operand):
            value = meaning.operate(type(negation), [_evaluate(operand, meaning)])
        case ast.Call(func=ast.Name(id=function), args=nodes):
            value = meaning.call(function, [_evaluate(argument, meaning) for argument in nodes])
        case _:
            raise ExpressionError(f"{type(node).__name__} is no part of an expression")
    for sign, right in reversed(chain):
        value = meaning.operate(sign, [value, _evaluate(right, meaning)])
    return value


# ---- polynomials


Monomial: TypeAlias = "tuple[tuple[str, int], ...]"
"""The variables of a term with their powers, in alphabetical order."""
Terms: TypeAlias = "dict[Monomial, Fraction]"


def is_same_polynomial(answer: str, polynomial: str) -> bool:
    """Tell whether two texts have the same terms; products of sums are not multiplied out.

    Raises ExpressionError for text outside the grammar or its limits, and for decimal numbers.
    """
    said, right = (_evaluate(parse_expression(text, MAX_TREE_PARTS), _Terms()) for text in (answer, polynomial))
    return _without_noughts(said) == _without_noughts(right)


def _without_noughts(terms: Terms) -> Terms:
    return {monomial: factor for monomial, factor in terms.items() if factor}


class _Terms:
    """The terms of a polynomial. Sums take terms into the left operand: a new one each time takes quadratic time."""

    def number(self, digits: str) -> Terms:
        if not digits.isdigit():
            raise ExpressionError("a decimal number in a polynomial")
        return {(): Fraction(digits)}

    def name(self, name: str) -> Terms:
        return {((name, 1),): Fraction(1)}

    def operate(self, sign: type[ast.AST], operands: list[Terms]) -> Terms:
        terms, *others = operands
        if sign in (ast.USub, ast.UAdd):
            return _scaled(terms, Fraction(-1 if sign is ast.USub else 1))
        (right,) = others
        if sign in (ast.Add, ast.Sub):
            for monomial, factor in right.items():
                terms[monomial] = terms.get(monomial, Fraction(0)) + (factor if sign is ast.Add else -factor)
            return terms
        if sign is ast.Mult:
            return _product(terms, right)
        number = _constant(right)
        if number is None:
            raise ExpressionError("a quotient or a power of something that is no number")
        if sign is ast.Div:
            if not number:
                raise ExpressionError("division by zero")
            return _scaled(terms, 1 / number)
        return _power(terms, number)

    def call(self, function: str, arguments: list[Terms]) -> Terms:
        raise ExpressionError("a function in a polynomial")


def _constant(terms: Terms) -> Fraction | None:
    """Return the value of terms without variables; None for others."""
    return terms[()] if terms.keys() == {()} else None


def _scaled(terms: Terms, factor: Fraction) -> Terms:
    return {monomial: within_bits(own * factor) for monomial, own in terms.items()}


def _product(left: Terms, right: Terms) -> Terms:
    for terms, other in ((left, right), (right, left)):
        number = _constant(terms)
        if number is not None:
            return _scaled(other, number)
    if len(left) > 1 or len(right) > 1:
        raise ExpressionError("a product of sums that is not multiplied out")
    ((monomial, factor),) = left.items()
    ((other_monomial, other_factor),) = right.items()
    powers = Counter(dict(monomial)) + Counter(dict(other_monomial))
    return {_monomial(powers): within_bits(factor * other_factor)}


def _power(terms: Terms, exponent: Fraction) -> Terms:
    if exponent.denominator != 1 or not 0 <= exponent <= MAX_POWER or (len(terms) > 1 and exponent != 1):
        raise ExpressionError("a power that is no term of a polynomial")
    if exponent == 1:
        return terms
    ((monomial, factor),) = terms.items()
    power = int(exponent)
    within_bits(factor, times=power)
    return {_monomial({name: own * power for name, own in monomial}): Fraction(factor**power)}


def _monomial(powers: Mapping[str, int]) -> Monomial:
    if max(powers.values(), default=0) > MAX_POWER:
        raise ExpressionError("a power that is too large")
    return tuple(sorted((name, power) for name, power in powers.items() if power))


# ---- integrals


PreciseNumber: TypeAlias = "mpmath.mpf | mpmath.mpc | complex"
Context: TypeAlias = "mpmath.ctx_mp.MPContext | mpmath.ctx_fp.FPContext"
"""One of mpmath's contexts: `mp` calculates with many digits, `fp` in floating point."""


def is_antiderivative(answer: str, integrand: str, variable: str) -> bool:
    """Tell whether the derivative of the answer is the integrand, to 60 digits at several points.

    The points depend on the answer. An answer with a part that could hide a term from these digits, such as
    `x*exp(-500)`, is none. Raises ExpressionError for text outside the grammar or its limits.
    """
    said = parse_expression(answer, MAX_TREE_PARTS)
    if len(_names(said)) > MAX_NAMES:
        raise ExpressionError(f"over {MAX_NAMES} variables")
    if len(_calls(said)) + _general_powers(said) > MAX_CALLS:
        raise ExpressionError(f"over {MAX_CALLS} functions")
    return _has_slope(said, parse_expression(integrand, MAX_TREE_PARTS), variable)


def _general_powers(tree: ast.expr) -> int:
    """Count the powers whose exponent is no number, such as `x**x`: such a power is calculated as two functions."""
    powers = [node for node in ast.walk(tree) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow)]
    return sum(not isinstance(power.right, ast.Constant) for power in powers)


def _has_slope(said: ast.expr, target: ast.expr, variable: str) -> bool:
    """Tell whether the slope of an answer is the target at enough points, and differs at none.

    Floating point comes first: it overflows where the calculation of many digits would take for ever. Left of zero only
    real values are compared, since functions may have other branches there.
    """
    agreeing = 0
    sizes = _Sizes()
    for number, (point, others) in enumerate(_points(said)):
        if _value(target, variable, float(point), mpmath.fp) is None:
            continue
        if _value(said, variable, float(point), mpmath.fp, others) is None:
            return False
        is_near_zero = number < len(NEAR_POINTS)
        with mpmath.workdps(DIGITS):
            x = mpmath.mpf(point)
            step = mpmath.mpf(STEP)
            expected = _value(target, variable, x, mpmath.mp)
            low = _value(said, variable, x - step, mpmath.mp, others, sizes if is_near_zero else None)
            high = _value(said, variable, x + step, mpmath.mp, others)
            if expected is None or low is None or high is None:
                return False
            slope = (high - low) / (2 * step)
            if _is_near(slope, expected):
                if is_near_zero:
                    agreeing += 1
            elif x > 0 or (_is_real(slope) and _is_real(expected)):
                return False
    return agreeing >= AGREEING and sizes.are_plain()


def _points(tree: ast.expr) -> list[tuple[str, str]]:
    """Return the points of a tree: values of the variable and of other names. Equal trees have equal points."""
    drawn = random.Random(ast.dump(tree))
    others = cycle((OTHER_VALUE, -OTHER_VALUE))
    points = NEAR_POINTS if _is_rational(tree) else (*NEAR_POINTS, *FAR_POINTS)
    return [(_near(point, drawn), _near(other, drawn)) for point, other in zip(points, others, strict=False)]


def _is_rational(tree: ast.expr) -> bool:
    """Tell whether a tree is a quotient of polynomials, whose slope is the same rule everywhere."""
    powers = [node for node in ast.walk(tree) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow)]
    whole = (isinstance(power.right, ast.Constant) and str(power.right.value).isdigit() for power in powers)
    return not _calls(tree) and all(whole)


def _near(value: float, drawn: random.Random) -> str:
    return repr(value * (1 + drawn.uniform(0, SPREAD)))


def _is_near(value: PreciseNumber, right: PreciseNumber) -> bool:
    return bool(abs(value - right) <= TOLERANCE * (1 + abs(right) + abs(value)))


def _is_real(value: PreciseNumber) -> bool:
    return bool(abs(mpmath.im(value)) <= TOLERANCE * (1 + abs(value)))


class _Sizes:
    """The least and the greatest size that each part of a tree has at some points, in the order of evaluation."""

    def __init__(self) -> None:
        self._least: list[mpmath.mpf] = []
        self._greatest: list[mpmath.mpf] = []
        self._place = 0

    def begin(self) -> None:
        """Begin another evaluation of the tree."""
        self._place = 0

    def note(self, value: PreciseNumber) -> None:
        """Note the value of the next part."""
        size = mpmath.mpf(abs(value))
        if self._place == len(self._least):
            self._least.append(size)
            self._greatest.append(size)
        else:
            self._least[self._place] = min(self._least[self._place], size)
            self._greatest[self._place] = max(self._greatest[self._place], size)
        self._place += 1

    def are_plain(self) -> bool:
        """Tell whether no part is so large or so small at every point that it could hide a term, or be hidden.

        Nought is small: `1 - tanh(200)` has no digit among those that are calculated.
        """
        return all(least <= LARGEST_PLAIN for least in self._least) and all(
            greatest >= 1 / LARGEST_PLAIN for greatest in self._greatest
        )


def _value(
    tree: ast.expr,
    variable: str,
    point: PreciseNumber,
    context: Context,
    others: str = str(OTHER_VALUE),
    sizes: _Sizes | None = None,
) -> PreciseNumber | None:
    """Return a tree's value in one of mpmath's contexts; None where the value is no finite number.

    `others` is the value of names other than the variable. `sizes` notes the values of the tree's parts.
    """
    if sizes is not None:
        sizes.begin()
    try:
        value = _evaluate(tree, _Numeric(variable, point, context, others, sizes))
    except (ArithmeticError, ValueError, TypeError, ExpressionError):
        return None
    return value if mpmath.isfinite(value) else None


class _Numeric:
    """Numbers of one of mpmath's contexts, with the variable at one point."""

    def __init__(
        self, variable: str, point: PreciseNumber, context: Context, others: str, sizes: _Sizes | None
    ) -> None:
        self._sizes = sizes
        self._context = context
        self._others = others
        self._values = {variable: point, "pi": +context.pi, "E": +context.e, "I": context.mpc(0, 1)}

    def number(self, digits: str) -> PreciseNumber:
        value = self._context.mpf(digits)
        return self._noted(value) if value else value  # a nought that is written hides nothing

    def name(self, name: str) -> PreciseNumber:
        return self._values.get(name, self._context.mpf(self._others))

    def operate(self, sign: type[ast.AST], operands: list[PreciseNumber]) -> PreciseNumber:
        return self._noted(OPERATIONS[sign](*operands))

    def call(self, function: str, arguments: list[PreciseNumber]) -> PreciseNumber:
        return self._noted(self._called(function, arguments))

    def _noted(self, value: PreciseNumber) -> PreciseNumber:
        if self._sizes is not None:
            self._sizes.note(value)
        return value

    def _called(self, function: str, arguments: list[PreciseNumber]) -> PreciseNumber:
        if len(arguments) == 1 and function in FUNCTIONS:
            return (getattr(self._context, function, None) or getattr(cmath, function))(*arguments)
        if len(arguments) == 1 and function in ABSOLUTE_VALUES and arguments[0].imag == 0:
            return abs(*arguments)  # the absolute value of a complex number has no derivative
        raise ExpressionError(f"no value for {function}")
