"""Make guesses that need no reasoning: parts of the question, and boards whose empty cells are filled."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasoning_env.answers.shortcuts import (
    FILLS,
    LEGAL_FILLS,
    choice,
    copies,
    filled_boards,
    last_grid,
    layouts,
    same_content,
)

QUESTION = """Add one to each cell. (Answer "yes" or "no", as in [1, 2].)
1. Begin here
Numbers: [7, 9]
The board at 10:15:
1 2
3 4"""


def test_shortcut_answers_include_parts_of_the_question() -> None:
    found = copies(QUESTION)
    assert found["the last line"] == "3 4"
    assert found["the text after the last colon"] == found["the last grid"] == "1 2\n3 4"
    assert found["the first line after the last colon"] == "1 2"
    assert found["the last list"] == "[7, 9]"
    assert found["the last quotation"] == "no"


def test_shortcut_answers_have_the_same_constant_for_every_number() -> None:
    numbers = ("0", "1", "2", "5", "12", "nan")
    assert layouts("[3, 4]") == {f"{number} for every number": f"[{number}, {number}]" for number in numbers}


SUDOKU = "Solve:\n4 _ 2 3\n_ _ _ 4\n3 _ _ _\n_ 4 _ _\nOne answer only."


def test_shortcut_answers_fill_the_empty_cells_of_a_board_by_simple_rules() -> None:
    boards = filled_boards(SUDOKU, {**FILLS, **LEGAL_FILLS})
    assert boards["empty cells filled with 1"] == "4 1 2 3\n1 1 1 4\n3 1 1 1\n1 4 1 1"
    assert boards["empty cells filled with a digit that the row lacks"].splitlines()[1] == "1 2 3 4"
    assert boards["empty cells filled with the lowest legal digit"] == "4 1 2 3\n2 3 1 4\n3 2 4 1\n1 4 3 2"
    assert boards["empty cells filled with the highest legal digit"].splitlines()[1] == "2 3 1 4"


def test_answer_to_a_board_with_one_empty_cell_is_the_missing_value() -> None:
    question = "Fill it:\n\n1 0\n_ 1\n"
    assert choice(question, "1 0\n0 1") == choice("Fill it:\n\n1 1\n1 _\n", "1 1\n1 0") == "0"
    assert choice(SUDOKU, "TRUE") == choice("Is it so?", "True") == "true"


def test_shortcut_answers_fill_boards_with_inequality_signs() -> None:
    board = filled_boards("Fill the blanks (_) of:\n\n_ > 1\n∧    \n_   _\n\nMind the signs.")
    assert board["empty cells filled with 1"] == "1 > 1\n∧\n1   1"
    boards = filled_boards("Fill it:\n\n1 2 _ _\n∧\n_ _ _ _\n∧\n_ _ _ _\n∧\n_ _ _ _\n\nMind the signs.", LEGAL_FILLS)
    assert boards["empty cells filled with the lowest legal digit"].splitlines()[2] == "2 1 4 3"


@pytest.mark.parametrize("question", ["no board", "1 2\n3 4", "", "_ " * 40_000])
def test_no_filled_board_is_made_from_a_question_without_a_board(question: str) -> None:
    assert filled_boards(question) == {}


@pytest.mark.parametrize(
    ("answer", "zeros"), [("-1.50", "0"), ("['2', '-3']", "['0', '0']"), ("3 apples", None), ("In 1905 he wrote", None)]
)
def test_numbers_become_zeros_only_in_answers_that_are_mostly_numbers(answer: str, zeros: str | None) -> None:
    assert layouts(answer).get("0 for every number") == zeros


@given(st.text(st.sampled_from("_ 10a\n:[]'\"?x.,"), max_size=300))
def test_fuzzed_question_does_not_crash_the_derivation_of_shortcut_answers(question: str) -> None:
    for found in (copies(question), filled_boards(question)):
        assert all(found.values())


@pytest.mark.parametrize("piece", ["[", "[[1],", "'", "a ", "_\n", ": ", "1 2\n", "a or ", "- _ "])
def test_deriving_shortcut_answers_from_a_long_question_takes_linear_time(piece: str) -> None:
    """Quadratic work would exceed the time limit of the tests."""
    question = piece * (60_000 // len(piece))
    assert len(copies(question)) + len(filled_boards(question)) + len(last_grid(question))


def test_answers_with_the_same_values_in_two_notations_count_as_equal() -> None:
    same = [("1 2\n3 4", "[[1, 2], [3, 4]]"), ("7 0", "7.0 0.00"), ("a, b", "['a', 'b']")]
    others = [("1 2", "12"), ("1 2", "2 1"), ("a b", "A b"), ("-1", "1")]
    assert [pair for pair in [*same, *others] if same_content(*pair)] == same
