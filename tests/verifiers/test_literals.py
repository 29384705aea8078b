"""Lists in model text: the values that Python's own literals have, and nothing else."""

from __future__ import annotations

import ast
import contextlib
import inspect
import math
import sys
from typing import Any

import pytest
from hypothesis import given
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
def test_value_is_read_as_python_writes_it(value: Any) -> None:
    assert parse_literal(repr(value)) == value


LITERALS = ["[1, 2]", " \n[1,\n 2]\n", "1, 2, 3", "(1,)", "()", "[1, 2,]", "[-1, +2, -.5, 1., 2e3, -1E-2]", "7", "00"]
LITERALS += ["['it\\'s', \"\\\"\", '\\t', '\\u0041']", "[True, False, None]", "[[1], (2, [3])]", "[(1)]"]


@pytest.mark.parametrize("text", LITERALS)
def test_is_the_value_that_python_reads(text: str) -> None:
    assert parse_literal(text) == ast.literal_eval(text.strip())


# ------------------------------------------------------------------ limits


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


def test_digits_and_decimal_exponents_are_limited() -> None:
    assert parse_literal("1" * 64) == int("1" * 64)
    assert (parse_literal("1e308"), parse_literal("1e999")) == (1e308, math.inf)
    for text in ("1" * 65, "1e9999"):
        with pytest.raises(LiteralError):
            parse_literal(text)


# ------------------------------------------------------------------ what is no literal

NO_LITERALS = {
    "nothing": ["", " ", "\n", ","],
    "names": ["x", "nan", "inf", "true", "null", "print", "__import__", "NoneType", "Truex", "[a]", "e5"],
    "calls": ["f()", "[].append(1)", "1(2)", "'a'(1)", "[1](2)", "(1)(2)", "None(1)", "set()", "list('ab')"],
    "attributes": ["().__class__", "[].x", "'a'.join(['b'])", "1 .real", "None.x"],
    "subscripts": ["[1][0]", "'a'[0]", "(1)[0]", "[1][0][0]", "[1, 2][0, 1]"],
    "sums": ["1+1", "1 - 2", "[1]+[2]", "-1 -1", "(1)-1", "1-2-3", "[2, 1+1]"],
    "products": ["[1] * 3", "'a' * 3", "2**3", "1/2"],
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
    "other numbers": ["01", "1.2.3", "1..2", ".", "1e", "1e+", "1 2", "1 .5", "[1 2]", "..."],
    "other characters": ["\uff11", "\u0661", "\u00b2", "\uff3b1\uff3d", "\u201ca\u201d", "[1\u3001 2]", "1\u2212"],
    "brackets": ["[", "]", "[1", "1]", "(1]", "[1)", "[[1]", "][", "[,]", "[1,,2]", "(,)", "[1] [2]", "[] []"],
    "constants in a row": ["True False", "TrueFalse", "NoneNone", "1True", "True1", "'a'1", "1'a'", "None'a'"],
}


@pytest.mark.parametrize("kind", NO_LITERALS)
def test_is_no_literal(kind: str) -> None:
    for text in NO_LITERALS[kind]:
        with pytest.raises(LiteralError):
            parse_literal(text)


NEAR = st.text(alphabet="[](),'\"\\ \n0123456789-+.eEjTrueFalsNo_", max_size=60)
PARTS = [*"[](), \n'\\", "1", "-1", "+2.5", "1e9", "'a'", '"b"', "'\\n'", "None", "True", "'\x00'"]


@given(st.text(max_size=200) | NEAR | st.lists(st.sampled_from(PARTS), max_size=40).map("".join))
@pytest.mark.filterwarnings("ignore:.*invalid escape sequence")
def test_any_text_is_a_literal_error_or_has_pythons_value(text: str) -> None:
    with contextlib.suppress(LiteralError):
        assert parse_literal(text) == ast.literal_eval(text.strip())


LONG = ["[" * 100_000, "(" * 100_000 + ")" * 100_000, "1" + "+1" * 9000, "1" + "(1)" * 6000, "1" + "[1]" * 6000]
LONG += ["()" * 9000, "''" * 9000, "[],[" * 4000, "- " * 9000 + "1"]


@pytest.mark.parametrize("text", LONG, ids=lambda text: text[:8])
def test_no_text_exhausts_a_stack(text: str) -> None:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 100)
    try:
        with contextlib.suppress(LiteralError):
            parse_literal(text)
    finally:
        sys.setrecursionlimit(limit)
