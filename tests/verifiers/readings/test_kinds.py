"""Answers of each kind become the expected answer in other notations."""

from __future__ import annotations

import pytest

from .entries import is_read


@pytest.mark.parametrize(
    ("task", "right", "said"),
    [
        ("advanced_geometry", "1.204", "r \u2248 1.204"),
        ("advanced_geometry", "(10.0, -2.0)", "x = 10.0, y = -2.0"),
        ("caesar_cipher", "SEE THE MAP", "see the map"),
        ("codeio", '"a b"', "'a b'"),
        ("codeio", "false", "False"),
        ("complex_arithmetic", "-1068 - 1273i", "-1,068 - 1,273i"),
        ("countdown", "11 * 4 * (1 + 8)", "11 x 4 x (1 + 8)"),
        ("cryptarithm", "A=1,B=2,C=3", "A=1, B=2 and C=3"),
        ("knights_knaves", "Ann is a fool, Bob is a sage", "Ann - fool\nBob - the sage"),
        ("ab", "#A B#", "Final state: #A B#"),
        ("complex_arithmetic", "+4.0-7.0i", "-7.0i + 4.0"),
        ("cryptarithm", "A=1,B=2", "| Letter | Digit |\n|---|---|\n| A | 1 |\n| B | 2 |"),
        (
            "knights_knaves",
            "Ann is a fool, Bob is a sage",
            "| Name | Role |\n|:--|:--|\n| Ann | fool |\n| Bob | sage |",
        ),
        ("knights_knaves", "Ann is a fool, and Bob is a sage", "Ann is the fool, and Bob is the sage"),
        ("list_functions", "[5]", "5"),
        ("word_sorting", "a, b, c", "a, b, and c"),
        ("word_sorting", "a, b", "a and b"),
    ],
)
def test_forms_of_kinds(task: str, right: str, said: str) -> None:
    assert is_read(said, task, right)
