"""Expressions, factors, complex numbers and solutions become the expected answer in other notations."""

from __future__ import annotations

import pytest

from reasoning_env.verifiers.readings import readings

from .entries import entry, is_read


def test_plus_minus() -> None:
    assert "1.0 -2.0i" in readings("1.0 + -2.0i", "complex_arithmetic", entry("1.0 - 2.0i"))


@pytest.mark.parametrize("said", ["-5.0 + 20.0*i", "z = -5.0 + 20.0 \\cdot i", "$-5.0 + 20.0i$"])
def test_complex(said: str) -> None:
    assert "-5.0 + 20.0i" in (
        reading.replace("0 i", "0i") for reading in readings(said, "complex_arithmetic", entry("-5.0 + 20.0i"))
    )


@pytest.mark.parametrize(
    ("said", "same"),
    [
        ("x = -0.04, x = 0.0", True),
        ("x = -0.04 or x = 0.0", True),
        ("x_1 = -0.04, x_2 = 0.0", True),
        ("[-0.04, 0.0]", True),
        ("\\{-0.04, 0.0\\}", True),
        ("-0.04\n0.0", True),
        ('"-0.04, 0.0"', True),
        ("-0.04; 0.0", True),
        ('["-0.04", "0.0"]', True),
        ("x = -0.04, 0.0", True),
        ("x \\in \\{-0.04, 0.0\\}", True),
        ("- 0.04, 0.0", True),
        ("x = - 0.04 or x = 0.0", True),
        ("-0.04, 0.0, none", False),
        ("-0.04, or 0.0", True),
        ("-0.04,\n0.0,", True),
        ("-0.04, 0.0 or", False),
        ("or -0.04, 0.0", False),
        ("-0.04 or or 0.0", False),
        ("-0.04,, 0.0", False),
        ("-0.04, not 0.0", False),
        ("-0.04 0.0", False),
        ("-0.04, 0.1", False),
        ("-0.04, 0.0 and 1", False),
    ],
)
def test_solutions(said: str, same: bool) -> None:
    assert is_read(said, "polynomial_equations", "-0.04, 0.0") == same


@pytest.mark.parametrize(
    ("said", "reading"),
    [
        ("3 \u00d7 [4 \u00f7 2]", "3 * (4 / 2)"),
        ("\\frac{8}{3 - 1} \\times 2", "((8)/(3 - 1)) * 2"),
        ("2\\cdot3", "2*3"),
        ("\\left(2 + 3\\right) \\times 4", "(2 + 3) * 4"),
    ],
)
def test_expression(said: str, reading: str) -> None:
    assert reading in readings(said, "countdown", entry(None))


@pytest.mark.parametrize(
    ("said", "same"),
    [
        ("2*3*7", True),
        ("2 x 3 x 7", True),
        ("2 \\times 3 \\times 7", True),
        ("2\u00b73\u00b77", True),
        ("42 = 2 \u00d7 3 \u00d7 7", True),
        ("$42 = 2 \\cdot 3 \\cdot 7$", True),
        ("43 = 2 \u00d7 3 \u00d7 7", False),
        ("2**3", False),
        ("2 * 3 * 7 * 1", False),
        ("42 = 2 * 21 = 2 * 3 * 7", False),
    ],
)
def test_factors(said: str, same: bool) -> None:
    assert is_read(said, "prime_factorization", "2 \u00d7 3 \u00d7 7") == same
