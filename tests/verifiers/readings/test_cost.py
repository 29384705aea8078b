"""Readings take linear time."""

from __future__ import annotations

from time import process_time

import pytest

from reasoning_env.verifiers.readings import expected_forms, readings

from .entries import entry


def test_deep_list() -> None:
    deep = "[" * 900 + "]" * 900
    assert [*expected_forms(deep, "list_functions", entry("[1]"))] == []


CASES = (
    *(("leg_counting", right) for right in ("16", "[1, 2]", "1 2\n3 4", "1/2", "(1, 2)")),
    ("advanced_geometry", "16\N{DEGREE SIGN}"),
    ("base_conversion", "12"),
    ("complex_arithmetic", "1 + i"),
    ("countdown", "1 + 2"),
    ("cryptarithm", "A=1"),
    ("jugs", None),
    ("knights_knaves", "Ann is an angel"),
    ("polynomial_equations", "1.0"),
    ("prime_factorization", "2"),
    ("shortest_path", "up"),
    ("word_sorting", "a, b"),
    ("time_intervals", "3 days"),
    ("tower_of_hanoi", "Move disk 1"),
)


MOST_S = 1.0
"""Processor time for a text of 10,000 characters: linear work takes 0.02 s, quadratic work seconds."""


PIECES = (
    "1",
    "1 ",
    "[",
    "[[1],",
    "1,",
    "a = ",
    "\\frac{1}",
    "{",
    "1\n",
    "'",
    "\\\\",
    "| ",
    " ",
    "\n",
    "a,",
    ";",
    "1*",
    "=1",
    "\\ ",
    "A: 1,",
    "x = 1 or ",
    "-",
    "->",
    "1,111",
    "1/",
    "days ",
    ". ",
    "\\begin{array}{",
    "*",
)


@pytest.mark.parametrize("piece", PIECES)
def test_linear_time(piece: str) -> None:
    long = piece * (10_000 // len(piece))
    for said in (long, f"[{long}]"):
        for task, right in CASES:
            begun = process_time()
            for _ in readings(said, task, entry(right)):
                pass
            assert process_time() - begun < MOST_S, task
