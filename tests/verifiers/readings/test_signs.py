"""A sign or a separator beside an answer makes it another answer."""

from __future__ import annotations

import pytest

from reasoning_env.verifiers.readings import readings

from .entries import entry, is_read


@pytest.mark.parametrize(
    ("task", "right", "said"),
    [
        ("gcd", "0", "-0"),
        ("decimal_arithmetic", "0.0", "-0.0"),
        ("list_functions", "[0, 1]", "[-0, 1]"),
        ("sudoku", "0 1\n1 0", "-0 1\n1 0"),
        ("polynomial_equations", "0.0, 1.5", "x = -0.0 or x = 1.5"),
    ],
)
def test_negative_nought(task: str, right: str, said: str) -> None:
    assert is_read(said.replace("-0", "0"), task, right)
    assert right not in readings(said, task, entry(right))


@pytest.mark.parametrize("said", ["- 0", "- 0.0", "$- 0$"])
def test_negative_nought_with_blank(said: str) -> None:
    assert "0" not in readings(said, "circuit_logic", entry("0"))


@pytest.mark.parametrize(
    ("task", "right", "said"),
    [
        ("cryptarithm", "A=1,B=2", ",A=1,B=2"),
        ("ab", "#A B#", ", #A B#"),
        ("polynomial_equations", "1.0, 2.0", ";1.0, 2.0"),
        ("sudoku", "1 2\n3 4", "&1 2\n3 4"),
    ],
)
def test_separator_before_answer(task: str, right: str, said: str) -> None:
    assert not is_read(said, task, right)
