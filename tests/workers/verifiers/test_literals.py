"""Lists in model text: the values that Python's own literals have, and nothing else."""

from __future__ import annotations

import ast
import contextlib
import inspect
import json
import math
import sys
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reasoning_env.verifiers.grammars.literals import MAX_DEPTH, MAX_TOKENS, LiteralError, parse_literal

PLAIN_TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8)
SCALARS = (
    st.integers(-(10**12), 10**12)
    | st.floats(allow_nan=False, allow_infinity=False)
    | PLAIN_TEXT
    | st.sampled_from([True, False, None])
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.tuples(inner, inner), max_leaves=10)


@given(VALUES)
@settings(max_examples=300, deadline=None)
def test_a_value_is_read_as_python_writes_it(value: Any) -> None:
    assert parse_literal(repr(value)) == value


@given(st.lists(st.lists(st.integers(-99, 99) | PLAIN_TEXT, max_size=4), max_size=4))
@settings(max_examples=200, deadline=None)
def test_rows_are_read_as_json_writes_them(rows: list[list[Any]]) -> None:
    assert parse_literal(json.dumps(rows, indent=1, ensure_ascii=False)) == rows


@pytest.mark.parametrize(
    "text",
    [
        "[1, 2]",
        " \n[1,\n 2]\n",
        "1, 2, 3",
        "(1,)",
        "()",
        "[1, 2,]",
        "[-1, +2, -.5, 1., 2e3, -1E-2]",
        "['it\\'s', \"\\\"\", '\\t', '\\u0041']",
        "[True, False, None]",
        "[[1], (2, [3])]",
        "[(1)]",
        "00",
        "7",
    ],
)
def test_is_the_value_that_python_reads(text: str) -> None:
    assert parse_literal(text) == ast.literal_eval(text.strip())


@pytest.mark.parametrize(("opening", "closing"), ["[]", "()"])
def test_nesting_is_limited(opening: str, closing: str) -> None:
    parse_literal(opening * MAX_DEPTH + closing * MAX_DEPTH)
    with pytest.raises(LiteralError, match="deep"):
        parse_literal(opening * (MAX_DEPTH + 1) + closing * (MAX_DEPTH + 1))


def test_parts_are_limited() -> None:
    within = (MAX_TOKENS - 4) // 2
    assert len(parse_literal("[" + "1," * within + "]")) == within
    with pytest.raises(LiteralError, match="parts"):
        parse_literal("[" + "1," * (within + 2) + "]")


def test_digits_are_limited() -> None:
    assert parse_literal("1" * 64) == int("1" * 64)
    with pytest.raises(LiteralError):
        parse_literal("1" * 65)


def test_decimal_exponents_are_limited() -> None:
    assert parse_literal("1e308") == 1e308
    assert parse_literal("1e999") == math.inf
    with pytest.raises(LiteralError):
        parse_literal("1e9999")


NO_LITERALS = {
    "nothing": ["", " ", "\n", ","],
    "names": ["x", "nan", "inf", "true", "null", "print", "__import__", "NoneType", "Truex", "[a]", "e5"],
    "calls": ["f()", "[].append(1)", "1(2)", "'a'(1)", "[1](2)", "(1)(2)", "None(1)", "set()", "list('ab')"],
    "attributes": ["().__class__", "[].x", "'a'.join(['b'])", "1 .real", "None.x"],
    "subscripts": ["[1][0]", "'a'[0]", "(1)[0]", "[1][0][0]", "[1, 2][0, 1]"],
    "arithmetic": [
        "1+1",
        "1 - 2",
        "[1]+[2]",
        "-1 -1",
        "(1)-1",
        "1-2-3",
        "[1] * 3",
        "'a' * 3",
        "2**3",
        "1/2",
        "[2, 1+1]",
    ],
    "signs apart from their number": ["- 1", "--1", "+-1", "-[1]", "-(1)", "-'a'", "-True"],
    "complex numbers": ["1j", "1+2j", "[1j]"],
    "comparisons": ["1 < 2", "1 == 1", "1 if 1 else 2", "1 in [1]", "not 1", "1 and 2", "None is None"],
    "other collections": ["{1}", "{}", "{1: 2}", "{'a': 1}", "[{}]"],
    "comprehensions": ["[x for x in (1, 2)]", "[1 for _ in ()]", "(1 for _ in ())"],
    "stars": ["[*[1]]", "*[1]", "(*(1,),)"],
    "lambdas and assignments": ["lambda: 0", "(x := 1)", "x = 1", "[x := 1]"],
    "prefixed strings": ["f'{1}'", "b'a'", "r'a'", "u'a'", "rb'a'", "f'a'"],
    "long strings": ["'''a\nb'''", '"""a\nb"""'],
    "open strings": ["'", "'a", "'a\nb'", "'a\\", "\"a'", "'\\'"],
    "bad escapes": ["'\\x'", "'\\u12'", "'\\N{no such name}'", "'\\U00110000'", "'a\\\nb'"],
    "null characters and surrogates": ["\x00", "'\x00'", "'\ud800'", "\ud800", "['a\x00b']", "['\udfff']"],
    "comments and lines": ["[1] # one", "[1]; [2]", "[1]\n[2]", "1\n2", "[1, # one\n2]", "\\\n1", "[1]\\"],
    "separated digits and other bases": ["1_0", "0x10", "0b1", "0o7", "0x", "[0x1]"],
    "other numbers": ["01", "1.2.3", "1..2", ".", "1e", "1e+", "1 2", "1 .5", "[1 2]"],
    "other characters": [
        "\uff11",
        "\u0661",
        "\u00b2",
        "\uff3b1\uff3d",
        "\u201ca\u201d",
        "[1\u3001 2]",
        "1\u2212",
        "\u2026",
        "...",
    ],
    "brackets": ["[", "]", "[1", "1]", "(1]", "[1)", "[[1]", "][", "[,]", "[1,,2]", "(,)", "[1] [2]", "[] []"],
    "constants in a row": ["True False", "TrueFalse", "NoneNone", "1True", "True1", "'a'1", "1'a'", "None'a'"],
}


@pytest.mark.parametrize("text", [text for texts in NO_LITERALS.values() for text in texts])
def test_is_no_literal(text: str) -> None:
    with pytest.raises(LiteralError):
        parse_literal(text)


NEAR = st.text(alphabet="[](),'\"\\ \n0123456789-+.eEjTrueFalsNo_", max_size=60)
PARTS = [
    "[",
    "]",
    "(",
    ")",
    ",",
    "1",
    "-1",
    "+2.5",
    "1e9",
    "'a'",
    '"b"',
    "'\\n'",
    "None",
    "True",
    " ",
    "\n",
    "'",
    "\\",
    "'\x00'",
]
TOKENS = st.lists(st.sampled_from(PARTS), max_size=40).map("".join)


@given(st.text(max_size=200) | NEAR | TOKENS)
@settings(max_examples=600, deadline=None)
@pytest.mark.filterwarnings("ignore:.*invalid escape sequence")
def test_any_text_is_a_value_or_a_literal_error(text: str) -> None:
    with contextlib.suppress(LiteralError):
        parse_literal(text)


@given(NEAR | TOKENS)
@settings(max_examples=300, deadline=None)
@pytest.mark.filterwarnings("ignore:.*invalid escape sequence")
def test_a_value_that_is_read_is_pythons(text: str) -> None:
    with contextlib.suppress(LiteralError):
        assert parse_literal(text) == ast.literal_eval(text.strip())


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "(" * 100_000 + ")" * 100_000,
        "1" + "+1" * 9000,
        "1" + "-1" * 9000,
        "1" + "(1)" * 6000,
        "1" + "[1]" * 6000,
        "()" * 9000,
        "''" * 9000,
        "[],[" * 4000,
        "- " * 9000 + "1",
    ],
)
def test_no_text_exhausts_a_stack(text: str) -> None:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 100)
    try:
        parse_literal(text)
    except LiteralError:
        pass
    finally:
        sys.setrecursionlimit(limit)


@pytest.mark.parametrize(
    "text", ["1,", "[1],", "'a',", "'\\n", "1 ", "-", "'", "\\", "[", "None,", "'a", "9", " ", "1e9"]
)
def test_the_time_is_about_linear_in_the_length(text: str) -> None:
    def seconds(length: int) -> float:
        long = (text * length)[:length]
        best = float("inf")
        for _ in range(3):
            started = time.process_time()
            with contextlib.suppress(LiteralError):
                parse_literal(long)
            best = min(best, time.process_time() - started)
        return best

    assert seconds(30_000) < 40 * seconds(3000) + 0.05
