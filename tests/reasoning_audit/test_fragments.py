from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasoning_audit.fragments import fragments

QUESTION = """Add one to each cell. (Answer "yes" or "no", as in [1, 2].)
1. Begin here
Numbers: [7, 9]
The board at 10:15:
1 2
3 4"""


def test_question_is_split_into_fragments() -> None:
    found = fragments(QUESTION)
    assert (found["the first number"], found["the last number"], found["the largest number"]) == ("1", "4", "15")
    assert (found["the first option"], found["the last option"]) == ("yes", "no")
    assert found["the first item of a numbered list"] == "Begin here"
    assert found["the number of lines in the question"] == "6"


@given(st.text(st.sampled_from("_ 10a\n:[]'\"?x.,"), max_size=300))
def test_fuzzed_question_does_not_crash_the_extraction_of_fragments(question: str) -> None:
    assert all(fragments(question).values())


@pytest.mark.parametrize("piece", ["[", "'", "a ", ": ", "1 2\n", "a or "])
def test_extracting_fragments_of_a_long_question_takes_linear_time(piece: str) -> None:
    """Quadratic work would exceed the time limit of the tests."""
    assert fragments(piece * (60_000 // len(piece)))
