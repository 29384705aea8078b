"""The reading of honest forms: what stands around an answer goes, what stands beside it stays."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasoning_env.verifiers.readings import expected_form, plain_reading
from tests.workers.hostile import TABLES

TEXTS = [text for table in TABLES.values() for text in table.values()]
FORMS = (
    *("```\n{}\n```", "```json\n{}\n```", "\\boxed{{{}}}", "$\\boxed{{{}}}$", "**{}**", "__{}__", "`{}`", "**`{}`**"),
    *("\\[{}\\]", "\\[\n\\boxed{{{}}}\n\\]", "$${}$$", "${}$", "\\({}\\)", "\\boxed{{\\text{{{}}}}}"),
)
PLAIN = st.text(st.characters(codec="ascii", exclude_characters="`*_\\{}$~.\r\n"), min_size=1).filter(str.strip)


@given(PLAIN, st.sampled_from(FORMS))
def test_what_stands_around_an_answer_is_taken_off(answer: str, form: str) -> None:
    assert plain_reading(form.format(answer.strip()), full_stop=True) == answer.strip()


@pytest.mark.parametrize(
    ("answer", "reading"),
    [
        ("\N{MINUS SIGN}5", "-5"),
        ("1 2 \r\n3 4\t\r\n", "1 2\n3 4"),
        ("42.", "42"),
        ("**2*x**3 + x**2**", "2*x**3 + x**2"),
        ("```\n 1 2\n 3 4\n```", " 1 2\n 3 4"),
        ("\\boxed{\\frac{1}{2}}", "\\frac{1}{2}"),
    ],
)
def test_other_forms_are_read(answer: str, reading: str) -> None:
    assert plain_reading(answer, full_stop=True) == reading


@pytest.mark.parametrize(
    "answer",
    [
        *("2**3**2", "**4** or **5**", "`4` `5`", "\\boxed{4} \\boxed{5}", "it is \\boxed{4}", "```\n4\n``` 5"),
        *(
            "4...",
            ".",
            "``",
            "****",
            "\\boxed{}",
            "```\n\n```",
            "4, `5`",
            "__init__ and __x__",
            "**2** **3**",
            "*4*",
            "$4$ $5$",
            "\\[4\\] \\[5\\]",
            "\\text{4} or 5",
        ),
    ],
)
def test_what_stands_beside_an_answer_stays(answer: str) -> None:
    assert plain_reading(answer, full_stop=True) == answer


def test_full_stop_stays_where_answers_end_in_one() -> None:
    assert plain_reading("**The end.**", full_stop=False) == "The end."


def _reads_a_part(text: str) -> bool:
    """Whether the reading can say no more than the text, and never what the text does not say."""
    lines = "\n".join(line.rstrip() for line in text.replace("\r\n", "\n").split("\n"))
    return plain_reading(text, full_stop=True) in lines.replace("\N{MINUS SIGN}", "-")


def test_reading_of_hostile_text_is_a_part_of_it() -> None:
    assert [text for text in TEXTS if not _reads_a_part(text)] == []


@given(st.text(st.sampled_from("`*_\\boxed{}$~.\r\n- 5")))
def test_reading_is_a_part_of_any_text(text: str) -> None:
    assert _reads_a_part(text)


@pytest.mark.parametrize("piece", ["`", "*", "_", "\\boxed{", "```\n", "{}", "**a", "$\\boxed{a}", "~~~x\n", "\n", "."])
def test_hostile_text_is_read_in_linear_time(piece: str) -> None:
    """Quadratic work would run into the time limit of the tests."""
    for text in (piece * (200_000 // len(piece)), "**" + piece * (100_000 // len(piece)) + "**"):
        plain_reading(text, full_stop=True)


# ------------------------------------------------------------------ the expected form

QUESTION = "How many legs do 3 cows and 2 hens have in total?"


def entry(answer: str | None, question: str = QUESTION) -> dict[str, Any]:
    return {"question": question, "answer": answer, "metadata": {}}


@pytest.mark.parametrize("said", ["16", "16.0", "+16", "016", "x = 16", "16 legs", "16 Leg", "$16", "1.6e1", "16."])
def test_number_of_the_same_value_is_read(said: str) -> None:
    assert expected_form(said, "leg_counting", entry("16")) == "16"


@pytest.mark.parametrize(
    "said",
    [
        "17",
        "-16",
        "160",
        "1,6",
        "16 or 17",
        "16 not legs",
        "16 wheels",
        "16 17",
        "16 + 0",
        "0x10",
        "1_6",
        "\u0661\u0666",
    ],
)
def test_other_number_is_not_read(said: str) -> None:
    assert expected_form(said, "leg_counting", entry("16")) is None


@pytest.mark.parametrize(
    ("said", "same"),
    [("1,234,567", True), ("1{,}234{,}567", True), ("1\\,234\\,567", True), ("1,2345,67", False), ("1,234567", False)],
)
def test_thousands_are_separated_in_threes(said: str, same: bool) -> None:
    assert (expected_form(said, "lcm", entry("1234567")) is not None) == same


@pytest.mark.parametrize(("said", "same"), [("3 / 4", True), ("\\frac{3}{4}", True), ("6/8", False), ("0.75", False)])
def test_fraction_is_read_as_it_is_reduced(said: str, same: bool) -> None:
    assert (expected_form(said, "dice", entry("3/4")) is not None) == same


def test_options_are_read_in_any_case_where_there_are_options() -> None:
    assert expected_form("'TRUE'", "ransom_note", entry("True")) == "True"
    assert expected_form("not true", "ransom_note", entry("True")) is None
    assert expected_form("HELLO", "bf", entry("hello")) is None


@pytest.mark.parametrize(
    ("said", "same"),
    [
        *(("[1,'2', 3.50]", True), ("[\n  1,\n  2,\n  3.5\n]", True), ("(1, 2, 3.5)", True), ("[1, 2]", False)),
        *(("[2, 1, 3.5]", False), ("[[1, 2, 3.5]]", False), ("[1, 2, x]", False), ("[1, 2, 3.5", False)),
        *(("[NaN, 2, 3.5]", False), ("[1, 2, 1e400]", False), ("[True, 2, 3.5]", False), ("1", False)),
    ],
)
def test_list_with_the_same_elements_is_read(said: str, same: bool) -> None:
    assert (expected_form(said, "number_filtering", entry("['1', '2', '3.5']")) is not None) == same


@pytest.mark.parametrize(
    "said",
    [
        *("1, 2\n3, 4", "12\n34", "1 2\n\n3 4", "[[1, 2], [3, 4]]", "| 1 | 2 |\n|---|---|\n| 3 | 4 |", "[1 2]\n[3 4]"),
        *("1 & 2 \\\\ 3 & 4", "1 < 2\n---\n3   4"),
    ],
)
def test_board_is_read_in_any_layout(said: str) -> None:
    assert expected_form(said, "sudoku", entry("1 2\n3 4")) == "1 2\n3 4"


@pytest.mark.parametrize("said", ["1 2 3 4", "1 2\n3", "1 2\n3 4\n5 6", "1 x\n3 4", "12 1\n3 4", "", "one 1 2\n3 4"])
def test_board_of_another_shape_is_not_read(said: str) -> None:
    assert expected_form(said, "sudoku", entry("1 2\n3 4")) is None


def test_a_v_is_a_sign_where_it_stands_alone() -> None:
    board = entry("1 < 2\n\u2228\n2   1")
    forms = [
        "1<2\nv v\n2 1",
        '[["1", "<", "2"], ["v", "", "v"], ["2", "", "1"]]',
        "1&<&2\\\\v&&v\\\\2&&1",
        "|1|<|2|\n|v||\n|2||1|",
    ]
    assert [expected_form(form, "futoshiki", board) for form in forms] == ["1 < 2\n\u2228\n2   1"] * 4
    assert expected_form("1v2\n2 1", "futoshiki", board) is None


def test_cells_are_put_between_the_signs_of_the_expected_board() -> None:
    assert expected_form("2 1\n1 2", "futoshiki", entry("1 < 2\n\u2228\n2   1")) == "2 < 1\n\u2228\n1   2"


@pytest.mark.parametrize(
    ("said", "reading"),
    [
        ("3 \u00d7 [4 \u00f7 2]", "3 * (4 / 2)"),
        ("\\frac{8}{3 - 1} \\times 2", "((8)/(3 - 1)) * 2"),
        ("2\\cdot3", "2*3"),
    ],
)
def test_expression_has_the_signs_of_python(said: str, reading: str) -> None:
    assert expected_form(said, "countdown", entry(None)) == reading


def test_factors_have_the_expected_sign() -> None:
    forms = ["2*3*7", "2 x 3 x 7", "2 \\times 3 \\times 7", "2\u00b73\u00b77"]
    assert {expected_form(said, "prime_factorization", entry("2")) for said in forms} == {"2 \u00d7 3 \u00d7 7"}
    assert expected_form("9**9", "prime_factorization", entry("2")) is None


def test_words_have_the_expected_commas_between_them() -> None:
    for said in ("b,a", "b , a", "b,\na", '["b", "a"]'):
        assert expected_form(said, "word_sequence_reversal", entry("b, a")) == "b, a"
    assert expected_form("COLD, CORD", "word_ladder", entry("COLD,CORD")) == "COLD,CORD"


def test_duration_is_read_in_any_case_and_without_a_comma() -> None:
    assert expected_form("3 Days 04:05", "time_intervals", entry("3 days, 04:05")) == "3 days, 04:05"


def test_exact_output_is_not_read_otherwise() -> None:
    assert expected_form("042", "bf", entry("42")) is None


def test_list_that_is_too_deep_is_not_read() -> None:
    deep = "[" * 900 + "]" * 900
    assert expected_form(deep, "list_functions", entry("[1]")) is None


@pytest.mark.parametrize("piece", ["1", "1 ", "[", "[[1],", "1,", "a = ", "\\frac{1}", "{", "1\n", "'", "\\\\", "| "])
@pytest.mark.parametrize("right", ["16", "[1, 2]", "1 2\n3 4", "1/2", "a, b"])
def test_hostile_text_is_read_in_the_expected_form_in_linear_time(piece: str, right: str) -> None:
    """Quadratic work would run into the time limit of the tests."""
    for task in ("countdown", "leg_counting"):
        expected_form(piece * (100_000 // len(piece)), task, entry(right))
