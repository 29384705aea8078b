"""Parse lists and dictionaries in the notation of JSON or Python."""

from __future__ import annotations

import ast
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasoning_env.answers.literals import as_json, literal_value

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text("ab'\"\\\n\u00e9 ,[]{}", max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab'", max_size=3), inner, max_size=3),
    max_leaves=12,
)


@given(VALUES)
def test_json_literals_are_parsed(value: Any) -> None:
    assert literal_value(json.dumps(value)) == value


@given(VALUES)
def test_python_literals_are_parsed(value: Any) -> None:
    assert literal_value(repr(value)) == value == ast.literal_eval(repr(value))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("(1, 'a',)", [1, "a"]),
        ("{0: None, 1: True}", {"0": None, "1": True}),
        ("[1, 2,]", [1, 2]),
        ("['it\\'s', \"it's\"]", ["it's", "it's"]),
        ("[+5, 07, .5]", ["+5", "07", ".5"]),
        ("[-1.5e3]", [-1500.0]),
    ],
)
def test_lists_in_loose_json_or_python_notation_are_parsed(text: str, value: object) -> None:
    assert literal_value(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[",
        "[1, 2",
        "[1 2]",
        "[a]",
        "[NaN]",
        "{1, 2}",
        "[1] [2]",
        "[,]",
        "f(1)",
        "[1+1]",
        "[*[1]]",
        "[x for x in (1, 2)]",
        "[1][0]",
        "().__class__",
        "f'{1}'",
        "lambda: 0",
        "[1] # one",
        "\uff3b1\uff3d",
        "__import__('os')",
        "'a",
        "{1: 2, 1: 3}",
        '{"a": 1, "a": 1}',
    ],
)
def test_parsing_a_string_that_is_no_literal_returns_none(text: str) -> None:
    assert as_json(text) is None


MOST_S = 2.0
"""Limit of CPU time for a string of 50,000 characters. Linear work takes 0.05 s; quadratic work takes many seconds."""
