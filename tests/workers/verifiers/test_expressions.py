"""The grammar of arithmetic, beside Python's own parser and exact fractions."""

from __future__ import annotations

import ast
import contextlib
import inspect
import operator
import sys
import time
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from reasoning_env.verifiers.grammars.expressions import (
    MAX_BITS,
    MAX_DECIMAL_EXPONENT,
    MAX_DEPTH,
    MAX_DIGITS,
    ExpressionError,
    Item,
    Kind,
    evaluate_exactly,
    is_integer,
    parse,
)

MANY = 1_000_000
BITS_OF_BASE_TWO = 2


def value_of(text: str) -> Fraction:
    return evaluate_exactly(parse(text, MANY))


# Beside Python

NUMBERS = st.integers(0, 12).map(str) | st.sampled_from(["1.5", ".25", "2.", "10e-1", "3E2", "0.1"])
BLANKS = st.sampled_from(["", "", " ", "\t", "  "])


def _grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Longer texts, mostly without parentheses, so that it is the parser that decides what belongs together."""
    joined = st.tuples(inner, BLANKS, st.sampled_from(["+", "-", "*", "/"]), BLANKS, inner).map("".join)
    powers = st.tuples(inner, BLANKS, st.sampled_from(["**2", "** 3", "**-1", "**0", "**1**2", "**-2**1"])).map("".join)
    signed = st.tuples(st.sampled_from(["-", "+", "- ", "--", "-+"]), inner).map("".join)
    enclosed = st.tuples(st.sampled_from(["(", "( ", "(\n"]), inner, st.sampled_from([")", " )"])).map("".join)
    return joined | powers | signed | enclosed


TEXTS = st.recursive(NUMBERS, _grow, max_leaves=12)

OPERATIONS: dict[type[ast.AST], Callable[..., Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}


def _python_value(node: ast.AST, text: str) -> Fraction:
    """What Python's tree says, calculated in fractions; ZeroDivisionError, or nothing for powers beyond all bounds."""
    if isinstance(node, ast.Constant):
        return Fraction(ast.get_source_segment(text, node) or "")
    if isinstance(node, ast.UnaryOp):
        return OPERATIONS[type(node.op)](_python_value(node.operand, text))
    assert isinstance(node, ast.BinOp)
    left, right = _python_value(node.left, text), _python_value(node.right, text)
    if not isinstance(node.op, ast.Pow):
        return OPERATIONS[type(node.op)](left, right)
    assume(right.denominator == 1 and abs(right) < 50)
    return Fraction(left ** int(right))


@given(TEXTS)
@settings(max_examples=300, deadline=None)
def test_values_are_those_of_pythons_own_reading(text: str) -> None:
    try:
        expected = _python_value(ast.parse(text.strip(), mode="eval").body, text.strip())
    except ZeroDivisionError:
        with pytest.raises(ExpressionError, match="division by zero"):
            value_of(text)
        return
    assume(max(expected.numerator.bit_length(), expected.denominator.bit_length()) < 200)
    assert value_of(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2 - 3 - 4", -5),
        ("24 / 4 / 2", 3),
        ("24 / 4 * 2", 12),
        ("2 ** 3 ** 2", 512),
        ("-2 ** 2", -4),
        ("(-2) ** 2", 4),
        ("2 ** -1", Fraction(1, 2)),
        ("2 ** -2 ** 2", Fraction(1, 16)),
        ("- -2", 2),
        ("3 - -2", 5),
        ("2 * -3 + 1", -5),
        ("1 + 2 * 3 ** 2", 19),
        ("-(1 + 2) * 3", -9),
        ("0.1 + 0.2", Fraction(3, 10)),
        ("1e-3", Fraction(1, 1000)),
        ("0 ** 0", 1),
        ("(1\n+\r\n2)", 3),
        ("\n 1 + 2 \n", 3),
    ],
)
def test_precedence_and_associativity(text: str, expected: int | Fraction) -> None:
    assert value_of(text) == expected


def test_a_name_before_a_parenthesis_is_a_call() -> None:
    assert parse("f(x, 2) * f", MANY) == (
        Item(Kind.NAME, "x"),
        Item(Kind.NUMBER, "2"),
        Item(Kind.CALL, "f", 2),
        Item(Kind.NAME, "f"),
        Item(Kind.OPERATOR, "*", 2),
    )


def test_calls_nest_and_keep_their_own_arguments() -> None:
    calls = [(item.text, item.arity) for item in parse("f(g(1, 2, 3), h((4)), -k(5))", MANY) if item.kind is Kind.CALL]
    assert calls == [("g", 3), ("h", 1), ("k", 1), ("f", 3)]


@pytest.mark.parametrize(("text", "expected"), [("12", True), ("1.0", False), ("1e2", False), ("x", False)])
def test_only_plain_digits_are_integers(text: str, expected: bool) -> None:
    assert is_integer(parse(text, MANY)[0]) is expected


# Limits


@pytest.mark.parametrize(
    "nested",
    [
        lambda n: "(" * n + "1" + ")" * n,
        lambda n: "-" * n + "1",
        lambda n: "+" * n + "1",
        lambda n: "1" + "**1" * n,
        lambda n: "f(" * n + "1" + ")" * n,
    ],
    ids=["parentheses", "minus", "plus", "powers", "calls"],
)
def test_nesting_is_limited(nested: Callable[[int], str]) -> None:
    parse(nested(MAX_DEPTH), MANY)
    with pytest.raises(ExpressionError, match="deep"):
        parse(nested(MAX_DEPTH + 1), MANY)


@pytest.mark.parametrize("text", ["1" + "+1" * 50, "-x*f(1, 2)", "2**3**4"])
def test_parts_are_limited(text: str) -> None:
    parts = len(parse(text, MANY))
    assert len(parse(text, parts)) == parts
    with pytest.raises(ExpressionError, match="parts"):
        parse(text, parts // 2)


def test_whatever_the_text_no_program_is_longer_than_its_limit_by_more_than_a_part() -> None:
    for parts in range(1, 40):
        for limit in range(1, 40):
            try:
                program = parse("1" + "+1" * parts, limit)
            except ExpressionError:
                continue
            assert len(program) <= limit + 1


@pytest.mark.parametrize("number", ["9" * MAX_DIGITS, "1." + "3" * (MAX_DIGITS - 2), "." + "3" * (MAX_DIGITS - 1)])
def test_digits_are_limited(number: str) -> None:
    parse(number, MANY)
    with pytest.raises(ExpressionError, match="digits"):
        parse(number + "1", MANY)


@pytest.mark.parametrize("sign", ["", "+", "-"])
def test_decimal_exponents_are_limited(sign: str) -> None:
    assert value_of(f"1e{sign}{MAX_DECIMAL_EXPONENT}") == Fraction(10) ** int(f"{sign}{MAX_DECIMAL_EXPONENT}")
    for exponent in (str(MAX_DECIMAL_EXPONENT + 1), "9" * 6, "9" * 5000):
        with pytest.raises(ExpressionError, match="digits"):
            parse(f"1e{sign}{exponent}", MANY)


@pytest.mark.parametrize("sign", ["", "-"])
def test_powers_are_limited(sign: str) -> None:
    largest = MAX_BITS // BITS_OF_BASE_TWO
    assert value_of(f"2**{sign}{largest}") == Fraction(2) ** int(f"{sign}{largest}")
    with pytest.raises(ExpressionError, match="digits"):
        value_of(f"2**{sign}{largest + 1}")


def test_products_are_limited() -> None:
    half = MAX_BITS // BITS_OF_BASE_TWO
    assert value_of(f"2**{half} * 2**{half - 1}").numerator.bit_length() == MAX_BITS
    with pytest.raises(ExpressionError, match="digits"):
        value_of(f"2**{half} * 2**{half}")


def test_quotients_are_limited() -> None:
    half = MAX_BITS // BITS_OF_BASE_TWO
    with pytest.raises(ExpressionError, match="digits"):
        value_of(f"1 / 2**{half} / 2**{half}")


@pytest.mark.parametrize(
    "text", ["9**9**9", "9**9**9**9**9", "(9**9)**9**9", "2**1e300", "2**-1e300", "9" * 200 + "**99"]
)
def test_no_power_is_worked_out_before_it_is_refused(text: str) -> None:
    started = time.process_time()
    with pytest.raises(ExpressionError):
        value_of(text)
    assert time.process_time() - started < 0.1


@pytest.mark.parametrize("text", ["1/0", "1/(1-1)", "0**-1", "(2-2)**-3", "5/(0.1+0.2-0.3)"])
def test_division_by_zero_is_an_error(text: str) -> None:
    with pytest.raises(ExpressionError, match="zero"):
        value_of(text)


@pytest.mark.parametrize("text", ["2**0.5", "2**(1/2)", "(-8)**(1/3)", "1**.5"])
def test_powers_that_are_not_whole_are_errors(text: str) -> None:
    with pytest.raises(ExpressionError, match="whole"):
        value_of(text)


@pytest.mark.parametrize("text", ["x", "x + 1", "f(1)", "abs(-1)", "pi", "1 + E"])
def test_names_and_calls_have_no_value(text: str) -> None:
    with pytest.raises(ExpressionError, match="no value"):
        value_of(text)


# What is no expression

NO_EXPRESSIONS = {
    "nothing": ["", " ", "\n", "()", "f()", "( )"],
    "attributes": ["x.y", "().__class__", "x.diff(x)", "1 .real", "1..real", "f(x).y"],
    "subscripts": ["x[0]", "[1]", "x[1:2]", "f(x)[0]", "{1}", "{}"],
    "strings": ["'a'", '"a"', "f'{1}'", "b'a'", "'''a'''", "'"],
    "keywords that need more": ["lambda: 0", "lambda x: x", "1 if 1 else 2", "not 1", "x and y", "x or y", "x in y"],
    "comparisons": ["1 < 2", "1 == 1", "x != y", "1 >= 1", "x is y", "3*8 = 24"],
    "other operators": ["7 // 2", "7 % 2", "1 & 2", "1 | 2", "2 ^ 3", "~1", "1 << 2", "1 >> 2", "a @ b", "5!", "2 !"],
    "statements": ["1; 2", "x = 1", "(x := 1)", "import os", "del x", "x += 1", "1;"],
    "comments": ["1 # one", "#", "1 + (2 # two\n)"],
    "continuations": ["1 + \\\n2", "\\", "1\\2"],
    "several lines": ["1\n2", "1\n+ 2", "1 +\n2", "sin\n(x)", "1\r2"],
    "stars": ["*x", "**x", "f(*x)", "f(**x)", "1 *** 2", "1 * * 2", "f(a=1)"],
    "missing parts": [
        "1 +",
        "* 1",
        "1 2",
        "x y",
        "x 2",
        "2x",
        "2(3)",
        "(1)(2)",
        "(1) 2",
        "1 (2)",
        "/ 2",
        "2 ** ",
        "2 ** *3",
    ],
    "parentheses": ["(", ")", "(1", "1)", "((1)", "(1))", ")(", "f(1", "f(1))", "(1]"],
    "commas": ["1, 2", "(1, 2)", "f(1,)", "f(,1)", "f(,)", ",", "f(1,,2)", "(1,)", "f((1, 2))"],
    "separated digits": ["1_0", "1_000.5", "1__0", "1e1_0", "1,000"],
    "other bases": ["0x10", "0b1", "0o7", "0XFF", "0x", "0b2"],
    "other numbers": ["1j", "1J", "2.5j", "1e", "1e+", "1.5.2", "1..2", ".", "e5.", "1L", "01", "007", "00", "1.e"],
    "full-width characters": ["\uff11", "1\uff0b2", "\uff58", "\uff081\uff09", "\uff11.5"],
    "other digits": ["\u0661", "\u00b2", "2\u00b2", "\u0967", "\U0001d7d9", "\u2460", "\u00bd", "1\u06f0"],
    "look-alike operators": [
        "1 \u2212 2",
        "2 \u00d7 3",
        "6 \u00f7 2",
        "2 \u22c5 3",
        "1 \u2044 2",
        "2 \u2217 3",
        "1 \u2013 2",
    ],
    "other letters": ["\u03c0", "\u0445", "x\u0301", "\u00e9", "\u212f", "\u221a2", "x\u2081"],
    "invisible characters": [
        "1\u200b",
        "1\u00a0+ 2",
        "1\x0b+ 2",
        "1\x0c+ 2",
        "1\x00",
        "1 +\u2028 2",
        "\ufeff1",
        "1\x1c+2",
    ],
    "surrogates": ["\ud800", "1\udcff", "1 + \ud83d"],
    "other symbols": ["$x", "?", "1 \u2248 2", "x'", "`x`", "@", "x:", "...", "->"],
}


@pytest.mark.parametrize("text", [text for texts in NO_EXPRESSIONS.values() for text in texts])
def test_is_no_expression(text: str) -> None:
    with pytest.raises(ExpressionError):
        parse(text, MANY)


@pytest.mark.parametrize("name", ["__import__", "_", "__class__", "lambda", "eval", "None", "True", "print", "e5"])
def test_no_name_means_anything_to_the_parser(name: str) -> None:
    assert parse(name, MANY) == (Item(Kind.NAME, name),)
    assert parse(f"{name}(1)", MANY)[-1] == Item(Kind.CALL, name, 1)


# Any text

NEAR = st.text(alphabet="0123456789.eE+-*/(), \t\n\rxf_", max_size=60)
TOKENS = st.lists(
    st.sampled_from(["(", ")", ",", *"+-*/", "**", "1", "0", "2.5", ".5", "1e9", "x", "f(", "\n", ";", "[", "1e9999"]),
    max_size=60,
).map("".join)


@given(st.text(max_size=200) | NEAR | TOKENS)
@settings(max_examples=500, deadline=None)
def test_any_text_is_a_program_or_an_expression_error(text: str) -> None:
    try:
        program = parse(text, 200)
        evaluate_exactly(program)
    except ExpressionError:
        pass


@given(NEAR | TOKENS)
@settings(max_examples=300, deadline=None)
def test_every_program_leaves_one_value(text: str) -> None:
    try:
        program = parse(text, 200)
    except ExpressionError:
        return
    depth = 0
    for item in program:
        assert depth >= item.arity
        depth += 1 - item.arity
    assert depth == 1


@given(NEAR | TOKENS)
@settings(max_examples=300, deadline=None)
def test_what_is_taken_is_an_expression_to_python_as_well(text: str) -> None:
    try:
        parse(text, 200)
    except ExpressionError:
        return
    ast.parse(text.strip(), mode="eval")


@pytest.mark.parametrize(
    "text", ["(" * 20_000, "-" * 20_000, "1" + "**1" * 20_000, "f(" * 20_000, "1" + "+1" * 20_000, ")" * 20_000]
)
def test_no_text_is_read_by_recursion(text: str) -> None:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 60)
    try:
        evaluate_exactly(parse(text, MANY))
    except ExpressionError:
        pass
    finally:
        sys.setrecursionlimit(limit)


@pytest.mark.parametrize(
    "text",
    ["1+", "(1)*", "x+", "f(1,2)-", "-1*", "1e5 ", " ", "9", "1\n", "((1)", ".5+", "2**1*", "f", ",", "1.", "e9"],
)
def test_the_time_is_about_linear_in_the_length(text: str) -> None:
    def seconds(length: int) -> float:
        long = (text * length)[: length * 2]
        best = float("inf")
        for _ in range(3):
            started = time.process_time()
            with contextlib.suppress(ExpressionError):
                parse(long + "1", MANY)
            best = min(best, time.process_time() - started)
        return best

    assert seconds(20_000) < 40 * seconds(2000) + 0.05
