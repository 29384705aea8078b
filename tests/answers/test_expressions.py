"""Evaluate expressions in answers to exact values, in limited time and without executing code."""

from __future__ import annotations

import ast
import contextlib
import operator
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from reasoning_env.answers.grammars.expressions import (
    MAX_BITS,
    MAX_DECIMAL_EXPONENT,
    MAX_DIGITS,
    MAX_OPERAND_DEPTH,
    ExpressionError,
    evaluate_exactly,
    parse_expression,
)

MANY = 20_000
HALF_OF_THE_BITS = MAX_BITS // 2


def value_of(text: str) -> Fraction:
    return evaluate_exactly(parse_expression(text, MANY))


# ------------------------------------------------------------------ exact values

NUMBERS = st.integers(0, 12).map(str) | st.sampled_from(["1.5", ".25", "2.", "10e-1", "3E2", "0.1"])
BLANKS = st.sampled_from(["", "", " ", "\t", "  "])


def _grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Return longer expressions, mostly without parentheses, so that operator precedence matters."""
    joined = st.tuples(inner, BLANKS, st.sampled_from(["+", "-", "*", "/"]), BLANKS, inner).map("".join)
    powers = st.tuples(inner, BLANKS, st.sampled_from(["**2", "** 3", "**-1", "**0", "**1**2", "**-2**1"])).map("".join)
    signed = st.tuples(st.sampled_from(["-", "+", "- ", "--", "-+"]), inner).map("".join)
    enclosed = st.tuples(st.sampled_from(["(", "( ", "(\n"]), inner, st.sampled_from([")", " )"])).map("".join)
    return joined | powers | signed | enclosed


OPERATIONS: dict[type[ast.AST], Callable[..., Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}


def _python_value(node: ast.AST, text: str) -> Fraction:
    """Evaluate an expression tree of Python with fractions. Raises ZeroDivisionError."""
    if isinstance(node, ast.Constant):
        return Fraction(ast.get_source_segment(text, node) or "")
    if isinstance(node, ast.UnaryOp):
        return OPERATIONS[type(node.op)](_python_value(node.operand, text))
    assert isinstance(node, ast.BinOp)
    left = _python_value(node.left, text)
    right = _python_value(node.right, text)
    if not isinstance(node.op, ast.Pow):
        return OPERATIONS[type(node.op)](left, right)
    assume(right.denominator == 1 and abs(right) < 50)
    return Fraction(left ** int(right))


@given(st.recursive(NUMBERS, _grow, max_leaves=12))
def test_expressions_evaluate_to_exact_values(text: str) -> None:
    try:
        expected = _python_value(ast.parse(text.strip(), mode="eval").body, text.strip())
    except ZeroDivisionError:
        with pytest.raises(ExpressionError, match="division by zero"):
            value_of(text)
        return
    assume(max(expected.numerator.bit_length(), expected.denominator.bit_length()) < 200)
    assert value_of(text) == expected


def test_decimals_are_evaluated_exactly() -> None:
    assert value_of("0.1 + 0.2 - 0.3") == 0
    assert value_of("0.1234567890123456789012345678901") == Fraction("0.1234567890123456789012345678901")


def test_expression_over_several_lines_is_parsed() -> None:
    tree = parse_expression("(1.50 +\r\n 2e3 *\n .5)", MANY)
    assert sorted(str(node.value) for node in ast.walk(tree) if isinstance(node, ast.Constant)) == [".5", "1.50", "2e3"]


# ------------------------------------------------------------------ limits


@pytest.mark.parametrize(
    "nested",
    [lambda n: "-" * n + "1", lambda n: "1" + "**1" * n, lambda n: "f(" * n + "1" + ")" * n],
    ids=["signs", "powers", "calls"],
)
def test_deeply_nested_expression_raises(nested: Callable[[int], str]) -> None:
    parse_expression(nested(MAX_OPERAND_DEPTH), MANY)
    with pytest.raises(ExpressionError, match="deep"):
        parse_expression(nested(MAX_OPERAND_DEPTH + 1), MANY)


def test_sum_of_501_terms_is_evaluated() -> None:
    assert value_of("1" + "+1" * 500) == 501


@pytest.mark.parametrize(("text", "parts"), [("1" + "+1" * 50, 101), ("-x*f(1, 2)", 9), ("2**3**4", 5)])
def test_expression_with_too_many_operators_and_operands_raises(text: str, parts: int) -> None:
    parse_expression(text, parts)
    with pytest.raises(ExpressionError, match="names and signs"):
        parse_expression(text, parts - 1)


@pytest.mark.parametrize("number", ["9" * MAX_DIGITS, "1." + "3" * (MAX_DIGITS - 2), "." + "3" * (MAX_DIGITS - 1)])
def test_number_with_too_many_digits_raises(number: str) -> None:
    parse_expression(number, MANY)
    with pytest.raises(ExpressionError, match="digits"):
        parse_expression(number + "1", MANY)


@pytest.mark.parametrize("sign", ["", "+", "-"])
def test_decimal_number_with_a_large_exponent_raises(sign: str) -> None:
    assert value_of(f"1e{sign}{MAX_DECIMAL_EXPONENT}") == Fraction(10) ** int(f"{sign}{MAX_DECIMAL_EXPONENT}")
    for exponent in (str(MAX_DECIMAL_EXPONENT + 1), "9" * 6, "9" * 5000):
        with pytest.raises(ExpressionError, match="digits"):
            parse_expression(f"1e{sign}{exponent}", MANY)


def test_expression_with_huge_value_raises() -> None:
    half = HALF_OF_THE_BITS
    assert value_of(f"2**{half} * 2**{half - 1}").numerator.bit_length() == MAX_BITS
    for text in (f"2**{half} * 2**{half}", f"1 / 2**{half} / 2**{half}", f"2**{half + 1}", f"2**-{half + 1}"):
        with pytest.raises(ExpressionError, match="digits"):
            value_of(text)


@pytest.mark.parametrize(
    "text", ["9**9**9", "9**9**9**9**9", "(9**9)**9**9", "2**1e300", "2**-1e300", "9" * 200 + "**99"]
)
def test_expression_with_huge_power_raises(text: str) -> None:
    """Without a limit, computing one of these powers would take practically for ever."""
    with pytest.raises(ExpressionError):
        value_of(text)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 20_000,
        "-" * 20_000,
        "1" + "**1" * 9_000,
        "f(" * 20_000,
        "1" + "+1" * 20_000,
        ")" * 20_000,
        "9" * 20_000,
        "1" + "(1)" * 6_000,
        "- " * 9_000 + "1",
    ],
)
def test_expression_that_is_too_long_raises(text: str) -> None:
    with pytest.raises(ExpressionError):
        parse_expression(text, MANY)


# ------------------------------------------------------------------ strings without a value


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        (["1/0", "1/(1-1)", "0**-1", "(2-2)**-3", "5/(0.1+0.2-0.3)"], "zero"),
        (["2**0.5", "2**(1/2)", "(-8)**(1/3)", "1**.5"], "whole"),
        (["x", "x + 1", "f(1)", "abs(-1)", "pi", "1 + E"], "not supported"),
    ],
)
def test_expression_that_cannot_be_evaluated_raises(texts: list[str], reason: str) -> None:
    for text in texts:
        with pytest.raises(ExpressionError, match=reason):
            value_of(text)


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
    "missing operands": ["1 +", "* 1", "/ 2", "2 ** ", "2 ** *3"],
    "missing operators": ["1 2", "x y", "x 2", "2x", "2(3)", "(1)(2)", "(1) 2", "1 (2)"],
    "parentheses": ["(", ")", "(1", "1)", "((1)", "(1))", ")(", "f(1", "f(1))", "(1]"],
    "commas": ["1, 2", "(1, 2)", "f(,1)", "f(,)", ",", "f(1,,2)", "(1,)", "f((1, 2))"],
    "separated digits": ["1_0", "1_000.5", "1__0", "1e1_0", "1,000"],
    "other bases": ["0x10", "0b1", "0o7", "0XFF", "0x", "0b2"],
    "other numbers": ["1j", "1J", "2.5j", "1e", "1e+", "1.5.2", "1..2", ".", "e5.", "1L", "01", "007", "1.e"],
    "full-width characters": ["\uff11", "1\uff0b2", "\uff58", "\uff081\uff09", "\uff11.5"],
    "other digits": ["\u0661", "\u00b2", "2\u00b2", "\u0967", "\U0001d7d9", "\u2460", "\u00bd", "1\u06f0"],
    "look-alike operators": ["1 \u2212 2", "2 \u00d7 3", "6 \u00f7 2", "2 \u22c5 3", "1 \u2044 2", "2 \u2217 3"],
    "other letters": ["\u03c0", "\u0445", "x\u0301", "\u00e9", "\u212f", "\u221a2", "x\u2081"],
    "invisible characters": ["1\u200b", "1\u00a0+ 2", "1\x0b+ 2", "1\x0c+ 2", "1\x00", "1 +\u2028 2", "\ufeff1"],
    "surrogates": ["\ud800", "1\udcff", "1 + \ud83d"],
    "other symbols": ["$x", "?", "1 \u2248 2", "x'", "`x`", "@", "x:", "...", "->"],
}


@pytest.mark.parametrize("kind", NO_EXPRESSIONS)
def test_string_that_is_no_expression_raises(kind: str) -> None:
    for text in NO_EXPRESSIONS[kind]:
        with pytest.raises(ExpressionError):
            parse_expression(text, MANY)


@pytest.mark.parametrize("name", ["__import__", "_", "__class__", "eval", "print", "e5"])
def test_names_and_calls_in_an_expression_are_parsed_without_evaluation(name: str) -> None:
    assert isinstance(parse_expression(name, MANY), ast.Name)
    assert isinstance(parse_expression(f"{name}(1)", MANY), ast.Call)


@pytest.mark.parametrize("word", ["lambda", "None", "True", "not", "or", "yield", "await"])
def test_python_keyword_in_expression_raises(word: str) -> None:
    for text in (word, f"x + {word}", f"{word} x", f"x {word} x"):
        with pytest.raises(ExpressionError):
            parse_expression(text, MANY)


NEAR = st.text(alphabet="0123456789.eE+-*/(), \t\n\rxf_", max_size=60)
TOKENS = st.lists(
    st.sampled_from(["(", ")", ",", *"+-*/", "**", "1", "0", "2.5", ".5", "1e9", "x", "f(", "\n", ";", "[", "1e9999"]),
    max_size=60,
).map("".join)


@given(st.text(max_size=200) | NEAR | TOKENS)
def test_fuzzed_text_raises_only_expression_error(text: str) -> None:
    with contextlib.suppress(ExpressionError):
        assert isinstance(value_of(text), Fraction)
