"""The reading of honest forms: what stands around an answer goes, what stands beside it stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasoning_env.verifiers.readings import plain_reading
from tests.workers.hostile import TABLES

TEXTS = [text for table in TABLES.values() for text in table.values()]
FORMS = ("```\n{}\n```", "```json\n{}\n```", "\\boxed{{{}}}", "$\\boxed{{{}}}$", "**{}**", "__{}__", "`{}`", "**`{}`**")
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
        *("4...", ".", "``", "****", "\\boxed{}", "```\n\n```", "4, `5`", "__init__ and __x__", "**2** **3**", "*4*"),
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
