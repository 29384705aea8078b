"""Options and texts become the expected answer in other capitals and quotes, and in no other case."""

from __future__ import annotations

import pytest

from .entries import is_read


@pytest.mark.parametrize(
    "said", ["'TRUE'", "true", "**True**", "\\boxed{\\textbf{True}}", "- True", "\u201cTrue\u201d."]
)
def test_option(said: str) -> None:
    assert is_read(said, "ransom_note", "True")


@pytest.mark.parametrize(
    "said", ["not true", "True or False", "True?", "un-True", "True, False", '"True" or "False"', "T"]
)
def test_other_option(said: str) -> None:
    assert not is_read(said, "ransom_note", "True")


def test_word_that_is_no_option() -> None:
    assert not is_read("HELLO", "bf", "hello")
    assert not is_read("HELLO", "emoji_mystery", "hello")


def test_exact_output() -> None:
    assert not is_read("042", "bf", "42")
    assert is_read('"042"', "bf", "042")


def test_quotation_that_is_right_as_written() -> None:
    right = '"It is late," he said.'
    assert is_read(right, "emoji_mystery", right)
    assert is_read("\u201cIt\u2019s late.\u201d", "emoji_mystery", "It\u2019s late.")
