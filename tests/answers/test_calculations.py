"""Translate mathematical notation to Python, and evaluate calculations."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasoning_env.answers.calculations import FUNCTIONS, calculate, calculate_complex, to_python_notation


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ("10x^3 + 2x", "10*x**3+2*x"),
        ("x\u00b2y", "x**(2)*y"),
        ("2x\u00b2(x + 1)", "2*x**(2)*(x+1)"),
        ("2(x + 1)(x - 1)", "2*(x+1)*(x-1)"),
        ("x sin(x) + x^2 cos(x)", "x*sin(x)+x**2*cos(x)"),
        ("sin^2(3x)/3", "sin(3*x)**2/3"),
        ("((1)/(2))x", "((1)/(2))*x"),
        ("x^{10}sin(x)", "x**(10)*sin(x)"),
        ("2x^3 e^x", "2*x**3*e**x"),
        ("x e^x", "x*e**x"),
        ("e^{2x}(x + 1)", "e**(2*x)*(x+1)"),
        ("4x^(3/2)/3", "4*x**(3/2)/3"),
        ("2 \u00d7 3 \u00f7 4 \u00b7 5", "2*3/4*5"),
        ("x/2 * 3y", "x/2*3*y"),
    ],
)
def test_mathematical_notation_is_translated_to_python(said: str, written: str | None) -> None:
    assert to_python_notation(said, FUNCTIONS) == written


AMBIGUOUS = ("1/2x", "3/4cos(x)", "1/x^2y", "x/2(x + 1)", "e^2x", "e^2 x", "2^3(x)", "x^2y", "x^-2y", "sin 2x")
OTHER_TEXT = ("sin", "2 3", "x 2", "x or y", "C C", "x)", "x\ny", "x!", "x = 1", "|x|")


@pytest.mark.parametrize("said", [*AMBIGUOUS, *OTHER_TEXT])
def test_ambiguous_mathematical_notation_is_rejected(said: str) -> None:
    assert to_python_notation(said, FUNCTIONS) is None


@pytest.mark.parametrize(
    ("side", "value"),
    [
        ("5 \u00d7 13 \u00d7 5", "325"),
        ("2^3 * 3^2", "72"),
        ("26 x 39 / 13", "78"),
        ("2\u00b3 \u22c5 9", "72"),
        ("3(2 + 1)", "9"),
        ("2^-2", "1/4"),
    ],
)
def test_calculation_returns_its_exact_value(side: str, value: str) -> None:
    assert calculate(side) == Fraction(value)


@pytest.mark.parametrize(
    ("side", "value"), [("(1 + 2i)(3 - j)", 5 + 5j), ("(6 - 4)i", 2j), ("(1 + i)/(1 - i)", 1j), ("2\u00b2 - i^2", 5)]
)
def test_calculation_with_complex_numbers_returns_its_value(side: str, value: complex) -> None:
    assert calculate_complex(side) == pytest.approx(value)


@pytest.mark.parametrize("side", ["9**9**99", "1/0", "0^-1", "x + 1", "1/2(3)", "import", "2 3", "", "1" * 2000])
def test_invalid_calculation_returns_none(side: str) -> None:
    assert calculate(side) is calculate_complex(side) is None


@given(st.text("0123456789.x*/^()+- ij\u00b2\u00d7e{}", max_size=60))
def test_fuzzed_text_does_not_crash_the_function_calculate(side: str) -> None:
    assert isinstance(calculate(side), Fraction | None)
    assert isinstance(calculate_complex(side), complex | None)
