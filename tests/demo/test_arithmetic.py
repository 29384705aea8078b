"""The evaluator of question text: right on arithmetic, closed to everything else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demo.arithmetic import ArithmeticTextError, evaluate

NUMBERS = st.integers(min_value=-(10**6), max_value=10**6).map(lambda number: f"({number})")
EXPRESSIONS = st.recursive(
    NUMBERS,
    lambda inner: st.tuples(inner, st.sampled_from("+-*&|^"), inner).map(lambda parts: f"({' '.join(parts)})"),
    max_leaves=8,
)


@given(EXPRESSIONS)
def test_values_are_those_of_python(expression: str) -> None:
    assert evaluate(expression) == eval(expression)


def test_a_slash_divides_and_rounds_down() -> None:
    assert evaluate("-7 / 2 * 3") == -12


def test_names_are_read_from_the_mapping() -> None:
    assert evaluate("3*x + 0x10", {"x": 5}) == 31


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "().__class__",
        "x",
        "'a' * 3",
        "1.5 + 1",
        "True",
        "2 ** 9",
        "[1, 2]",
        "1 if 1 else 2",
        "1 < 2",
        "(lambda: 1)()",
        "1 +",
        "",
    ],
)
def test_anything_but_arithmetic_is_refused(text: str) -> None:
    with pytest.raises(ArithmeticTextError):
        evaluate(text)


@pytest.mark.parametrize(
    "text",
    ["1 / 0", "1 << 1000", "1 << -1", " * ".join(["9" * 90] * 9), "(" * 400 + "1" + ")" * 400, "1+" * 2000 + "1"],
)
def test_work_and_numbers_are_bounded(text: str) -> None:
    with pytest.raises(ArithmeticTextError):
        evaluate(text)
