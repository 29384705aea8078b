"""Readings of honest forms: text around an answer goes, text beside an answer stays."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasoning_env.verifiers.readings import WRAPPERS, expected_form, plain_reading
from tests.workers.hostile import TABLES

TEXTS = [text for table in TABLES.values() for text in table.values()]
FORMS = (
    "```\n{}\n```",
    "```json\n{}\n```",
    "\\boxed{{{}}}",
    "$\\boxed{{{}}}$",
    "**{}**",
    "__{}__",
    "`{}`",
    "**`{}`**",
    "\\[{}\\]",
    "\\[\n\\boxed{{{}}}\n\\]",
    "$${}$$",
    "${}$",
    "\\({}\\)",
    "\\boxed{{\\text{{{}}}}}",
)
PLAIN = st.text(st.characters(codec="ascii", exclude_characters="`*_\\{}$~.\r\n"), min_size=1).filter(str.strip)


@pytest.mark.parametrize("name", WRAPPERS)
def test_example_of_wrapper(name: str) -> None:
    wrapper = WRAPPERS[name]
    assert wrapper.match(wrapper.example) == wrapper.reading
    assert [other for other in WRAPPERS if WRAPPERS[other].match(wrapper.example) is not None] == [name]


@given(PLAIN, st.sampled_from(FORMS))
def test_wrappers_are_taken_off(answer: str, form: str) -> None:
    assert plain_reading(form.format(answer.strip()), strip_full_stop=True) == answer.strip()


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
def test_plain_reading(answer: str, reading: str) -> None:
    assert plain_reading(answer, strip_full_stop=True) == reading


@pytest.mark.parametrize(
    "answer",
    [
        "2**3**2",
        "**4** or **5**",
        "`4` `5`",
        "\\boxed{4} \\boxed{5}",
        "it is \\boxed{4}",
        "```\n4\n``` 5",
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
    ],
)
def test_text_beside_answer(answer: str) -> None:
    assert plain_reading(answer, strip_full_stop=True) == answer


def test_full_stop_stays() -> None:
    assert plain_reading("**The end.**", strip_full_stop=False) == "The end."


def _reads_a_part(text: str) -> bool:
    """Tell whether the reading of a text is a part of the text, so that it says nothing new."""
    lines = "\n".join(line.rstrip() for line in text.replace("\r\n", "\n").split("\n"))
    return plain_reading(text, strip_full_stop=True) in lines.replace("\N{MINUS SIGN}", "-")


def test_reading_of_hostile_text() -> None:
    assert [text for text in TEXTS if not _reads_a_part(text)] == []


@given(st.text(st.sampled_from("`*_\\boxed{}$~.\r\n- 5")))
def test_reading_of_any_text(text: str) -> None:
    assert _reads_a_part(text)


@pytest.mark.parametrize("piece", ["`", "*", "_", "\\boxed{", "```\n", "{}", "**a", "$\\boxed{a}", "~~~x\n", "\n", "."])
def test_plain_reading_in_linear_time(piece: str) -> None:
    """Quadratic work would run into the time limit of the tests."""
    for text in (piece * (200_000 // len(piece)), "**" + piece * (100_000 // len(piece)) + "**"):
        plain_reading(text, strip_full_stop=True)


# ------------------------------------------------------------------ the expected form

QUESTION = "How many legs do 3 cows and 2 hens have in total?"


def entry(answer: str | None, question: str = QUESTION) -> dict[str, Any]:
    return {"question": question, "answer": answer, "metadata": {}}


@pytest.mark.parametrize("said", ["16", "16.0", "+16", "016", "x = 16", "16 legs", "16 Leg", "$16", "1.6e1", "16."])
def test_same_number(said: str) -> None:
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
def test_other_number(said: str) -> None:
    assert expected_form(said, "leg_counting", entry("16")) is None


@pytest.mark.parametrize(
    ("said", "same"),
    [("1,234,567", True), ("1{,}234{,}567", True), ("1\\,234\\,567", True), ("1,2345,67", False), ("1,234567", False)],
)
def test_thousands(said: str, same: bool) -> None:
    assert (expected_form(said, "lcm", entry("1234567")) is not None) == same


@pytest.mark.parametrize(("said", "same"), [("3 / 4", True), ("\\frac{3}{4}", True), ("6/8", False), ("0.75", False)])
def test_fraction(said: str, same: bool) -> None:
    assert (expected_form(said, "dice", entry("3/4")) is not None) == same


def test_option() -> None:
    assert expected_form("'TRUE'", "ransom_note", entry("True")) == "True"
    assert expected_form("not true", "ransom_note", entry("True")) is None


def test_option_as_number() -> None:
    assert expected_form("5.0", "shortest_path", entry("5")) == "5"


def test_word_that_is_no_option() -> None:
    assert expected_form("HELLO", "bf", entry("hello")) is None
    assert expected_form("HELLO", "emoji_mystery", entry("hello")) is None


@pytest.mark.parametrize(
    ("said", "same"),
    [
        ("[1,'2', 3.50]", True),
        ("[\n  1,\n  2,\n  3.5\n]", True),
        ("(1, 2, 3.5)", True),
        ("[1, 2]", False),
        ("[2, 1, 3.5]", False),
        ("[[1, 2, 3.5]]", False),
        ("[1, 2, x]", False),
        ("[1, 2, 3.5", False),
        ("[NaN, 2, 3.5]", False),
        ("[1, 2, 1e400]", False),
        ("[True, 2, 3.5]", False),
        ("1", False),
    ],
)
def test_list(said: str, same: bool) -> None:
    assert (expected_form(said, "number_filtering", entry("['1', '2', '3.5']")) is not None) == same


@pytest.mark.parametrize(
    "said",
    [
        "1, 2\n3, 4",
        "12\n34",
        "1 2\n\n3 4",
        "[[1, 2], [3, 4]]",
        "| 1 | 2 |\n|---|---|\n| 3 | 4 |",
        "[1 2]\n[3 4]",
        "1 & 2 \\\\ 3 & 4",
        "\\begin{bmatrix}\n1 & 2 \\\\\n3 & 4\n\\end{bmatrix}",
        "1 < 2\n---\n3   4",
    ],
)
def test_board_layouts(said: str) -> None:
    assert expected_form(said, "sudoku", entry("1 2\n3 4")) == "1 2\n3 4"


@pytest.mark.parametrize("said", ["1 2 3 4", "1 2\n3", "1 2\n3 4\n5 6", "1 x\n3 4", "12 1\n3 4", "", "one 1 2\n3 4"])
def test_board_of_another_shape(said: str) -> None:
    assert expected_form(said, "sudoku", entry("1 2\n3 4")) is None


def test_lone_v_is_sign() -> None:
    board = entry("1 < 2\n\u2228\n2   1")
    forms = [
        "1<2\nv v\n2 1",
        '[["1", "<", "2"], ["v", "", "v"], ["2", "", "1"]]',
        "1&<&2\\\\v&&v\\\\2&&1",
        "|1|<|2|\n|v||\n|2||1|",
    ]
    assert [expected_form(form, "futoshiki", board) for form in forms] == ["1 < 2\n\u2228\n2   1"] * 4
    assert expected_form("1v2\n2 1", "futoshiki", board) is None


def test_board_with_signs() -> None:
    assert expected_form("2 1\n1 2", "futoshiki", entry("1 < 2\n\u2228\n2   1")) == "2 < 1\n\u2228\n1   2"


@pytest.mark.parametrize(
    ("said", "reading"),
    [
        ("3 \u00d7 [4 \u00f7 2]", "3 * (4 / 2)"),
        ("\\frac{8}{3 - 1} \\times 2", "((8)/(3 - 1)) * 2"),
        ("2\\cdot3", "2*3"),
    ],
)
def test_expression(said: str, reading: str) -> None:
    assert expected_form(said, "countdown", entry(None)) == reading


def test_factors() -> None:
    forms = ["2*3*7", "2 x 3 x 7", "2 \\times 3 \\times 7", "2\u00b73\u00b77"]
    assert {expected_form(said, "prime_factorization", entry("2")) for said in forms} == {"2 \u00d7 3 \u00d7 7"}
    assert expected_form("9**9", "prime_factorization", entry("2")) is None


def test_words() -> None:
    for said in ("b,a", "b , a", "b,\na", '["b", "a"]'):
        assert expected_form(said, "word_sequence_reversal", entry("b, a")) == "b, a"
    assert expected_form("COLD, CORD", "word_ladder", entry("COLD,CORD")) == "COLD,CORD"


def test_duration() -> None:
    assert expected_form("3 Days 04:05", "time_intervals", entry("3 days, 04:05")) == "3 days, 04:05"


def test_exact_output() -> None:
    assert expected_form("042", "bf", entry("42")) is None


def test_deep_list() -> None:
    deep = "[" * 900 + "]" * 900
    assert expected_form(deep, "list_functions", entry("[1]")) is None


@pytest.mark.parametrize("piece", ["1", "1 ", "[", "[[1],", "1,", "a = ", "\\frac{1}", "{", "1\n", "'", "\\\\", "| "])
@pytest.mark.parametrize("right", ["16", "[1, 2]", "1 2\n3 4", "1/2", "a, b"])
def test_expected_form_in_linear_time(piece: str, right: str) -> None:
    """Quadratic work would run into the time limit of the tests."""
    for task in ("countdown", "leg_counting"):
        expected_form(piece * (100_000 // len(piece)), task, entry(right))
