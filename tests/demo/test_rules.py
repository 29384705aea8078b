"""The rules and questions that they must not answer."""

from __future__ import annotations

import pytest
import reasoning_gym
from hypothesis import given
from hypothesis import strategies as st

from demo.rules import solve

ITEMS = 8


def test_other_task_has_no_answer() -> None:
    for task in ("polynomial_equations", "decimal_chain_sum", "simple_geometry", "maze", "complex_arithmetic"):
        dataset = reasoning_gym.create_dataset(task, size=ITEMS, seed=123)
        assert {solve(item["question"]) for item in dataset} == {None}, task


@given(st.text())
def test_any_text(text: str) -> None:
    solve(text)


@pytest.mark.parametrize(
    "question",
    [
        "convert the base-1 number 0 to base-99",
        "convert the base-7 number zz to hexadecimal",
        "Simplify the fraction 0/0 to its lowest terms",
        "how many legs are there in total if you have 3 dragons?",
        "Sort these numbers in ascending order: 1, -, 2",
        "Find the prime factorization of 1000000000000000000.",
        f"these numbers: {'9' * 5000}",
    ],
)
def test_malformed_question(question: str) -> None:
    assert solve(question) is None
