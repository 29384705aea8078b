"""Compare model text with integrals and polynomials, as numbers or as sympy expressions that are built node by node.

Sympy's own parser, which evaluates text, is never called.

Only the elementary functions below can be called, so no answer can restate the question (with an evaluated or
unevaluated integral, `expand`, `Subs`). Decimals in integrals are read exactly: a large floating-point term could
absorb another term, and make unequal expressions equal.
"""

from __future__ import annotations

import ast
import cmath
import contextlib
import math
import operator
import random
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any, Protocol, TypeAlias, TypeVar

import mpmath
import sympy

from .expressions import MAX_BITS, ExpressionError, parse_expression

MAX_TREE_PARTS = 2000
SYMPY_S = 1.0
"""Limit of sympy's processor time for an answer; honest answers take less."""
MAX_SYMBOL_NAME = 32
MAX_NAMES = 8
MAX_CALLS = 100
"""Limit of functions and general powers in an integral: each is calculated to many digits at many points.

Honest integrals have a few.
"""
MAX_POWER = 200
"""Largest power of a symbolic base; to multiply out larger powers would take for ever."""

NAMED_CONSTANTS = {"pi": sympy.pi, "E": sympy.E, "I": sympy.I}
FUNCTIONS = frozenset(
    {"sin", "cos", "tan", "sec", "csc", "cot"}
    | {"asin", "acos", "atan", "asec", "acsc", "acot"}
    | {"sinh", "cosh", "tanh", "sech", "csch", "coth"}
    | {"asinh", "acosh", "atanh"}
    | {"exp", "log", "ln", "sqrt"}
)
"""Functions of one argument with the same name in sympy and mpmath."""
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
OPERATORS: Mapping[str, type[ast.AST]] = {"Rational": ast.Div, "Pow": ast.Pow, "pow": ast.Pow}
"""Functions of two arguments that mean an operator."""

NEAR_POINTS = (0.3718, 0.7351, 1.6183, 2.9137, -0.4142, -1.2361, -2.6458)
FAR_POINTS = (4e1, 1e4, 1e8, 3e12, -4e1, -1e4, -1e8, -3e12)
"""Beyond constants up to PLAIN: the slope of `x**2 + x + abs(x - 50)` is 2*x at all points near zero."""
SPREAD = 0.1
"""Relative distance of a point from the one above. An answer cannot be made for its own points."""
OTHER_VALUE = 0.5772
"""The value of names other than the variable, with a SPREAD."""
NEGATIVE_VALUE = -97.5772
"""Their value at one point: in `abs(x**2 + C)` the constant decides the slope."""
DIGITS = 140
"""Digits of the numbers from which slopes are calculated."""
STEP = "1e-40"
"""A slope is the difference of the values at one step to the left and to the right, over two steps."""
TOLERANCE = mpmath.mpf("1e-60")
"""Largest relative difference of values that count as equal."""
LARGEST_PLAIN = 1e12
"""Largest constant, and the inverse of the smallest, that cannot hide a term from the compared digits."""


def is_antiderivative(answer: str, integrand: str, variable: str) -> bool:
    """Tell whether the derivative of the answer is the integrand, to 60 digits at several points.

    The points depend on the answer. With too few comparable points, or with parts that could hide a difference, sympy's
    simplification decides.

    Raises ExpressionError for text outside the grammar or its limits, and where sympy fails or takes over SYMPY_S.
    """
    said = parse_expression(answer, MAX_TREE_PARTS)
    if len(_names(said)) > MAX_NAMES:
        raise ExpressionError(f"over {MAX_NAMES} variables")
    if not _names(said).isdisjoint(_reserved_names() - NAMED_CONSTANTS.keys()):
        raise ExpressionError("a name that sympy does not read as a variable")
    if len(_calls(said)) + _general_powers(said) > MAX_CALLS:
        raise ExpressionError(f"over {MAX_CALLS} functions")
    verdict = _judge_tree(_Tree(ast.dump(said), said), integrand, variable)
    if isinstance(verdict, ExpressionError):
        raise verdict
    return verdict


@dataclass(frozen=True)
class _Tree:
    """A tree that equals another tree of the same form."""

    dump: str
    root: ast.expr = field(compare=False)


@lru_cache(maxsize=1)
def _judge_tree(tree: _Tree, integrand: str, variable: str) -> bool | ExpressionError:
    """Return the decision on an answer. Its frames are mostly parentheses, within which the tree is the same."""
    try:
        return _has_slope(tree.root, parse_expression(integrand, MAX_TREE_PARTS), variable)
    except ExpressionError as error:
        return error


def _has_slope(said: ast.expr, target: ast.expr, variable: str) -> bool:
    comparison = _compare_slopes(said, target, variable)
    if comparison is None:
        return False
    # Elementary functions that agree within TOLERANCE at four points near zero are the same.
    if comparison.agreeing >= 4 and comparison.sizes.are_plain():
        return True
    with _bounded_sympy():
        derivative = sympy.diff(build(said, exact_decimals=True), sympy.Symbol(variable))
        return bool(sympy.simplify(derivative - build(target, exact_decimals=True)) == 0)


def is_same_polynomial(answer: str, polynomial: str) -> bool:
    """Tell whether two texts become the same sympy expression; products of sums are not multiplied out.

    Raises ExpressionError for text outside the grammar or its limits, and where sympy fails or takes over SYMPY_S.
    """
    said = parse_expression(answer, MAX_TREE_PARTS)
    target = parse_expression(polynomial, MAX_TREE_PARTS)
    if not all(map(_operator_of, _calls(said))) or not _names(said) <= _names(target):
        return False
    if _values_differ(said, target):
        return False  # numbers tell in a moment, while sympy may work on radicals for minutes
    with _bounded_sympy():
        return bool(build(said, exact_decimals=False) == build(target, exact_decimals=False))


def _names(tree: ast.expr) -> frozenset[str]:
    """Return the names of variables and constants."""
    functions = {id(call.func) for call in _calls(tree)}
    return frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in functions)


def _calls(tree: ast.expr) -> list[ast.Call]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


def _general_powers(tree: ast.expr) -> int:
    """Count the powers whose exponent is no number, such as `x**x`: such a power is calculated as two functions."""
    powers = [node for node in ast.walk(tree) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow)]
    return sum(not isinstance(power.right, ast.Constant) for power in powers)


def _operator_of(call: ast.Call) -> type[ast.AST] | None:
    return OPERATORS.get(_function(call)) if len(call.args) == 2 else None


def _function(call: ast.Call) -> str:
    assert isinstance(call.func, ast.Name)
    return call.func.id


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
        case ast.Call(args=nodes):
            arguments = [_evaluate(argument, meaning) for argument in nodes]
            named = _operator_of(node)
            value = meaning.operate(named, arguments) if named else meaning.call(_function(node), arguments)
        case _:
            raise ExpressionError(f"{type(node).__name__} is no part of an expression")
    for sign, right in reversed(chain):
        value = meaning.operate(sign, [value, _evaluate(right, meaning)])
    return value


class _OverTime(BaseException):
    """Sympy took too long. A BaseException, since sympy catches any Exception."""


@contextlib.contextmanager
def _bounded_sympy() -> Iterator[None]:
    """Give sympy SYMPY_S of processor time. Raises ExpressionError when sympy takes longer or fails."""

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


def build(tree: ast.expr, *, exact_decimals: bool) -> sympy.Expr:
    """Return the sympy expression of a tree.

    Raises ExpressionError for names and calls that are not elementary, and for powers beyond the limits.
    """
    value = _total(_evaluate(tree, _Symbolic(exact_decimals)))
    if value.has(sympy.nan, sympy.zoo, sympy.oo, -sympy.oo):
        raise ExpressionError("an infinite or undefined value")
    return value


Terms: TypeAlias = "sympy.Expr | list[sympy.Expr]"
"""An expression, or the terms of a sum that is not added up yet."""


class _Symbolic:
    """Sympy expressions. Sums are lists that are added up at once: term by term takes quadratic time."""

    def __init__(self, exact_decimals: bool) -> None:
        self._decimal = sympy.Rational if exact_decimals else sympy.Float

    def number(self, digits: str) -> sympy.Expr:
        return sympy.Integer(digits) if digits.isdigit() else self._decimal(digits)

    def name(self, name: str) -> sympy.Expr:
        if name in NAMED_CONSTANTS:
            return NAMED_CONSTANTS[name]
        if len(name) > MAX_SYMBOL_NAME or name in _reserved_names():
            raise ExpressionError(f"{name!r} is not a variable")
        return sympy.Symbol(name)

    def operate(self, sign: type[ast.AST], operands: list[Terms]) -> Terms:
        if sign in (ast.Add, ast.Sub):
            terms = operands[0] if isinstance(operands[0], list) else [operands[0]]
            right = _total(operands[1])
            terms.append(-right if sign is ast.Sub else right)
            return terms
        totals = [_total(operand) for operand in operands]
        if sign is ast.Pow:
            _check_power(*totals)
        return OPERATIONS[sign](*totals)

    def call(self, function: str, arguments: list[Terms]) -> sympy.Expr:
        totals = [_total(argument) for argument in arguments]
        if (len(totals) == 1 and function in FUNCTIONS) or (len(totals) == 2 and function == "log"):
            return getattr(sympy, function)(*totals)
        if len(totals) == 1 and function in ABSOLUTE_VALUES:
            return sympy.Abs(*totals)
        raise ExpressionError(f"{function} with {len(totals)} arguments is not an elementary function")


def _total(value: Terms) -> sympy.Expr:
    return sympy.Add(*value) if isinstance(value, list) else value


@cache
def _reserved_names() -> frozenset[str]:
    """Return names that sympy does not read as variables. C, the constant of integration, is allowed as a variable."""
    return frozenset({*dir(sympy), *ABSOLUTE_VALUES}) - {"C"}


def _check_power(base: sympy.Expr, exponent: sympy.Expr) -> None:
    if not exponent.is_number:
        return
    if not exponent.is_Rational and not exponent.is_Float:
        if base.is_number and not exponent.is_Symbol and exponent.has(sympy.Pow):
            raise ExpressionError("a tower of powers")
        return
    if abs(exponent) > MAX_POWER:
        raise ExpressionError("a power that is too large")
    size = math.ceil(abs(exponent))
    if base.is_Rational and size * max(base.p.bit_length(), base.q.bit_length()) > MAX_BITS:
        raise ExpressionError("a value of too many digits")


# ---- numbers


PreciseNumber: TypeAlias = "mpmath.mpf | mpmath.mpc | complex"
Context: TypeAlias = "mpmath.ctx_mp.MPContext | mpmath.ctx_fp.FPContext"
"""One of mpmath's contexts: `mp` calculates with many digits, `fp` in floating point."""


@dataclass(frozen=True)
class _SlopeComparison:
    """`agreeing`: the points near zero at which slopes agree. `sizes`: the sizes of the answer's parts there."""

    agreeing: int
    sizes: _Sizes


def _compare_slopes(said: ast.expr, target: ast.expr, variable: str) -> _SlopeComparison | None:
    """Compare the slope of an answer with the target; None if they differ at a comparable point.

    Floating point comes first: it overflows where the calculation of many digits would take for ever. Left of zero only
    real values are compared, since functions may have other branches there.
    """
    agreeing = 0
    sizes = _Sizes()
    for number, (point, others) in enumerate(_points(said)):
        if _value(target, variable, float(point), mpmath.fp) is None:
            continue
        if _value(said, variable, float(point), mpmath.fp, others) is None:
            return None
        is_near_zero = number < len(NEAR_POINTS)
        with mpmath.workdps(DIGITS):
            x = mpmath.mpf(point)
            step = mpmath.mpf(STEP)
            expected = _value(target, variable, x, mpmath.mp)
            low = _value(said, variable, x - step, mpmath.mp, others, sizes if is_near_zero else None)
            high = _value(said, variable, x + step, mpmath.mp, others)
            if expected is None or low is None or high is None:
                return None
            slope = (high - low) / (2 * step)
            if _is_near(slope, expected):
                if is_near_zero:
                    agreeing += 1
            elif x > 0 or (_is_real(slope) and _is_real(expected)):
                return None
    return _SlopeComparison(agreeing, sizes)


def _points(tree: ast.expr) -> list[tuple[str, str]]:
    """Return the points of a tree: values of the variable and of other names. Equal trees have equal points."""
    drawn = random.Random(ast.dump(tree))
    points = []
    for point in (*NEAR_POINTS, *FAR_POINTS):
        others = NEGATIVE_VALUE if point == NEAR_POINTS[1] else OTHER_VALUE
        points.append((_near(point, drawn), _near(others, drawn)))
    return points


def _near(value: float, drawn: random.Random) -> str:
    return repr(value * (1 + drawn.uniform(0, SPREAD)))


def _values_differ(said: ast.expr, target: ast.expr) -> bool:
    """Tell whether two trees have different values at a point, in floating point."""
    variable = min(_names(target), default="")
    point = NEAR_POINTS[0]
    value = _value(said, variable, point, mpmath.fp)
    right = _value(target, variable, point, mpmath.fp)
    if value is None or right is None:
        return right is not None
    rounding = 1e-6 * (1 + abs(right) + abs(value))
    return bool(abs(value - right) > rounding)


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
        return self._noted(self._context.mpf(digits))

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
        if len(arguments) == 2 and function == "log":
            return self._context.log(arguments[0]) / self._context.log(arguments[1])
        if len(arguments) == 1 and function in FUNCTIONS:
            return (getattr(self._context, function, None) or getattr(cmath, function))(*arguments)
        if len(arguments) == 1 and function in ABSOLUTE_VALUES and arguments[0].imag == 0:
            return abs(*arguments)  # the absolute value of a complex number has no derivative
        raise ExpressionError(f"no value for {function}")
