"""Calculate the value of Python code that the library's verifiers would evaluate, without running the code.

Some verifiers pass an answer to `eval`, or to SymPy's `parse_expr`, which evaluates code. This module parses the code
and calculates operators, comparisons, conditions, lists, and calls of the functions below. Any other code, such as
attributes, lambdas and f-strings, raises ExpressionError.
"""

from __future__ import annotations

import ast
import builtins
import numbers
import operator
import re
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from .expressions import OPERATIONS, ExpressionError

MAX_NODE_DEPTH = 150
"""Maximum nesting of nodes. Each level needs up to four nested calls, and Python allows 1,000."""
MAX_VALUE_SIZE = 100_000
"""Maximum bits of a power or shift, and maximum items of a repeated list. Larger values take minutes or all memory."""

PYTHON_OPERATIONS: Mapping[type[ast.AST], Callable[..., Any]] = {
    **OPERATIONS,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitXor: operator.xor,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.Not: operator.not_,
    ast.Invert: operator.invert,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}
"""Python's operators and comparisons, except `@`."""
PYTHON_NAMES = (
    *("abs", "all", "any", "bool", "divmod", "enumerate", "float", "int", "len", "list", "max", "min", "pow"),
    *("reversed", "round", "sorted", "str", "sum", "tuple", "zip"),
)
NUMBER_NAMES = ("abs", "all", "any", "divmod", "len", "pow", "round", "sum")
"""Python functions that SymPy's parser accepts too."""
SYMPY_NAMES = (
    *("N", "S", "apart", "cancel", "cbrt", "collect", "combsimp", "diff", "expand", "expand_complex", "expand_func"),
    *("expand_log", "expand_mul", "expand_multinomial", "expand_power_base", "expand_power_exp", "expand_trig"),
    *("factor", "factor_terms", "gammasimp", "integrate", "limit", "logcombine", "powdenest", "powsimp"),
    *("product", "radsimp", "ratsimp", "rcollect", "real_root", "root", "separatevars", "series", "simplify", "sqrt"),
    *("summation", "sympify", "together", "trigsimp"),
)
"""SymPy functions that calculate with expressions. None of them prints, or reads a file."""
MADE_BY_NAME = ("Symbol", "Function", "Float")
"""SymPy's parser inserts calls of these functions into code. The argument is a string: a name, or a number's digits."""
NAME_OR_DIGITS = re.compile(r"[A-Za-z_]\w*|\d*\.?\d*(?:[eE][+-]?\d{1,6})?", re.ASCII)


@contextmanager
def read_safely(module: types.ModuleType) -> Iterator[list[ExpressionError]]:
    """Until the context ends, replace `eval` and SymPy's `parse_expr` by safe functions in a module of the library.

    Yields a list, to which the safe functions add an error for each string that they would have to run as code.
    """
    refused: list[ExpressionError] = []

    def noted(read: Callable[..., Any]) -> Callable[..., Any]:
        def read_and_note(*arguments: Any, **keywords: Any) -> Any:
            try:
                return read(*arguments, **keywords)
            except ExpressionError as error:  # the verifier ignores this error like any other
                refused.append(error)
                raise

        return read_and_note

    sympy = sys.modules.get("sympy")  # imported already if the verifier needs it
    names = vars(module)
    changed: dict[str, Any] = {"eval": noted(calculate)}
    if sympy is not None:
        parse = noted(parse_expression)
        safe = types.SimpleNamespace(**{**vars(sympy), "parse_expr": parse})
        changed |= {name: safe for name, value in names.items() if value is sympy}
        changed |= {name: parse for name, value in names.items() if value is sympy.parse_expr}
    kept = {name: names[name] for name in changed if name in names}
    names.update(changed)
    try:
        yield refused
    finally:
        del names["eval"]
        names.update(kept)


def calculate(text: str) -> Any:
    """Return the value that `eval(text)` would return. Raises any error of the calculation."""
    # `eval` ignores spaces and tabs before the code, but `ast.parse` does not.
    return Calculation({name: getattr(builtins, name) for name in PYTHON_NAMES}).of(text.strip(" \t"))


class Calculation:
    """Calculates the value of code. `names` maps names in the code to their values."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = names

    def of(self, code: str) -> Any:
        """Return the value of `code`. Raises ExpressionError for unsupported code, and any error of the calculation."""
        try:
            tree = ast.parse(code, mode="eval").body
        except MemoryError as error:  # Python's parser raises this for too much nesting
            raise ExpressionError("the code is nested too deeply") from error
        return self._value(tree, 0)

    def text(self, text: str) -> Any:
        """Return the value of a string literal. A subclass may return another object."""
        return text

    def named(self, name: str) -> Any:
        try:
            return self._names[name]
        except KeyError:
            raise ExpressionError(f"the name {name[:40]!r} is not supported") from None

    def function(self, node: ast.expr) -> Callable[..., Any]:
        """Return the called function. Raises ExpressionError for unsupported code, TypeError if a value is called."""
        if not isinstance(node, ast.Name):
            raise ExpressionError("a function must be called by its name, as in f(x)")
        called = self.named(node.id)
        if not callable(called):
            raise TypeError(f"{type(called).__name__} is not callable")
        return called  # type: ignore[no-any-return]

    def operate(self, sign: Callable[..., Any], *operands: Any) -> Any:
        """Return the value of an operation. Raises ExpressionError if the value would be huge."""
        if sign in (operator.pow, operator.lshift, operator.mul) and _size(sign, *operands) > MAX_VALUE_SIZE:
            raise ExpressionError("a value is too large")
        return sign(*operands)

    def _value(self, node: ast.expr, depth: int) -> Any:
        if depth > MAX_NODE_DEPTH:
            raise ExpressionError(f"the code is nested more than {MAX_NODE_DEPTH} levels deep")

        def inner(part: ast.expr) -> Any:
            return self._value(part, depth + 1)

        match node:
            case ast.Constant(value=str(text)):
                return self.text(text)
            case ast.Constant(value=constant):
                return constant
            case ast.Name(id=name):
                return self.named(name)
            case ast.UnaryOp(op=sign, operand=operand):
                return self.operate(PYTHON_OPERATIONS[type(sign)], inner(operand))
            case ast.BinOp(left=left, op=sign, right=right) if type(sign) in PYTHON_OPERATIONS:
                return self.operate(PYTHON_OPERATIONS[type(sign)], inner(left), inner(right))
            case ast.BoolOp(op=sign, values=parts):
                return _first(map(inner, parts), until=isinstance(sign, ast.Or))
            case ast.Compare(left=left, ops=signs, comparators=others):
                return self._compared(inner(left), signs, map(inner, others))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return inner(body) if inner(test) else inner(orelse)
            case ast.List(elts=parts):
                return [*map(inner, parts)]
            case ast.Tuple(elts=parts):
                return (*map(inner, parts),)
            case ast.Subscript(value=ast.List() | ast.Tuple() as items, slice=place):
                return inner(items)[operator.index(inner(place))]
            case ast.Call(func=function, args=arguments, keywords=keywords):
                called = self.function(function)
                named = {keyword.arg: inner(keyword.value) for keyword in keywords if keyword.arg is not None}
                if len(named) == len(keywords):
                    return called(*map(inner, arguments), **named)
        raise ExpressionError(f"code with {type(node).__name__} cannot be scored without running it")

    def _compared(self, left: Any, signs: Sequence[ast.cmpop], others: Iterator[Any]) -> Any:
        result: Any = True
        for sign, right in zip(signs, others, strict=True):
            result = self.operate(PYTHON_OPERATIONS[type(sign)], left, right)
            if not result:
                break
            left = right
        return result


def _size(sign: Callable[..., Any], left: Any, right: Any) -> int:
    """Estimate the bits of a power or shift, or the items of a repeated list or string; return 0 for anything else."""
    if sign is operator.mul:
        items, times = (left, right) if isinstance(left, str | list | tuple) else (right, left)
        return len(items) * _whole(times) if isinstance(items, str | list | tuple) else 0
    if not isinstance(left, numbers.Rational):
        return 0
    bits = max(int(left.numerator).bit_length(), int(left.denominator).bit_length())
    return bits + _whole(right) if sign is operator.lshift else bits * _whole(right)


def _whole(value: object) -> int:
    return abs(int(value)) if isinstance(value, numbers.Integral) else 0


def _first(values: Iterator[Any], *, until: bool) -> Any:
    """Return the first value whose truth value is `until`; else the last value, as `or` and `and` do."""
    value = None
    for value in values:
        if bool(value) is until:
            break
    return value


# ---- SymPy


class Literal:
    """A string literal. SymPy would execute a `str` as code. For this class, SymPy calls the safe `_sympy_`."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __add__(self, other: object) -> Literal:
        return Literal(self._text + other._text) if isinstance(other, Literal) else NotImplemented

    def __eq__(self, other: object) -> bool:  # without this method, SymPy would convert the literal
        return isinstance(other, Literal) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __sub__(self, other: object) -> Literal:
        raise TypeError("subtraction from a string is not possible")  # the error that a string raises

    def _sympy_(self) -> Any:
        value = parse_expression(self._text.replace("\n", ""), convert_xor=True)
        return value._sympy_() if isinstance(value, Literal) else value

    def __float__(self) -> float:
        return float(self._text)

    def __int__(self) -> int:
        return int(self._text)

    def __bool__(self) -> bool:
        return bool(self._text)

    def as_name(self) -> str:
        """Return the string if it is a name or digits; otherwise raise ExpressionError."""
        if not NAME_OR_DIGITS.fullmatch(self._text):
            raise ExpressionError("the answer contains a string literal that is neither a name nor a number")
        return self._text


class SympyCalculation(Calculation):
    """Calculates the value of code that SymPy's parser generates."""

    def text(self, text: str) -> Literal:
        return Literal(text)

    def function(self, node: ast.expr) -> Callable[..., Any]:
        match node:
            case ast.Name(id=str(name)) if name in MADE_BY_NAME:
                return _made_by_name(super().function(node))
            case ast.Call(func=ast.Name(id="Function"), args=[ast.Constant(value=str(name))], keywords=[]):
                return sys.modules["sympy"].Function(Literal(name).as_name())  # type: ignore[no-any-return]
        return super().function(node)

    def operate(self, sign: Callable[..., Any], *operands: Any) -> Any:
        literals = [isinstance(operand, Literal) for operand in operands]
        if any(literals) and not all(literals):  # SymPy rejects strings here, but would convert literals
            raise TypeError("an operation cannot combine a string and an expression")
        return super().operate(sign, *operands)


def _made_by_name(made: Callable[..., Any]) -> Callable[..., Any]:
    def make(*arguments: Any, **keywords: Any) -> Any:
        return made(*(one.as_name() if isinstance(one, Literal) else one for one in arguments), **keywords)

    return make


def parse_expression(text: str, local_dict: Mapping[str, Any] | None = None, *, convert_xor: bool = False) -> Any:
    """Return the value that SymPy's `parse_expr` would return. Raises any error of the calculation."""
    names = dict(local_dict or {})
    parser: Any = sys.modules["sympy.parsing.sympy_parser"]
    transformations = (*parser.standard_transformations, *([parser.convert_xor] if convert_xor else []))
    code = parser.stringify_expr(text, names, _known_to_sympy(), transformations)
    return SympyCalculation({**_sympy_meanings(), **names}).of(code.strip())


@cache
def _known_to_sympy() -> dict[str, Any]:
    """Return the names that SymPy's parser does not read as symbols, with their values."""
    sympy: Any = sys.modules["sympy"]
    functions = {name: one for name, one in vars(builtins).items() if isinstance(one, types.BuiltinFunctionType)}
    return {**{name: getattr(sympy, name) for name in sympy.__all__}, **functions, "max": sympy.Max, "min": sympy.Min}


@cache
def _sympy_meanings() -> Mapping[str, Any]:
    """Return the names that code may use, and their values: constants and classes of SymPy, and allowed functions."""
    sympy: Any = sys.modules["sympy"]
    known = _known_to_sympy()
    functions = {name: known[name] for name in (*NUMBER_NAMES, *SYMPY_NAMES, "max", "min")}
    constants = {name: one for name, one in known.items() if isinstance(one, sympy.Basic)}
    classes = {name: one for name, one in known.items() if isinstance(one, type) and issubclass(one, sympy.Basic)}
    return {**functions, **constants, **classes}
