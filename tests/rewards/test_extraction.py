from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reasoning_env.records import Reason
from reasoning_env.rewards import Extraction, extract_answer, remove_thinking

LIMIT = 20_000
LINEAR_S = 10.0
"""Far more than linear work on a megabyte takes, far less than quadratic work would."""


def _refused(reason: Reason) -> Extraction:
    return Extraction(None, reason)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<answer>5</answer>", "5"),
        ("It is <answer>5</answer>, I am sure.", "5"),
        ("<answer> \n 5 6\n\t</answer>", "5 6"),
        ("<ANSWER>5</Answer>", "5"),
        ("<think>2 + 3</think><answer>5</answer>", "5"),
        ("<answer>5</answer><think>really?</think>", "5"),
        ("<answer><b>5</b></answer>", "<b>5</b>"),
        ("<answer>5 < 6 > 4</answer>", "5 < 6 > 4"),
        ("<answer>\u3000é\u2003</answer>", "é"),
        ("<answer><answer\n></answer>", "<answer\n>"),
    ],
)
def test_one_pair_of_tags_holds_the_answer(text: str, answer: str) -> None:
    assert extract_answer(text, LIMIT) == Extraction(answer)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", Reason.NO_ANSWER),
        ("5", Reason.NO_ANSWER),
        ("5</answer>", Reason.NO_ANSWER),
        ("< answer>5</ answer>", Reason.NO_ANSWER),
        ("<answer id='1'>5</answer>", Reason.NO_ANSWER),
        ("<think><answer>5</answer></think>", Reason.NO_ANSWER),
        ("<answer>5", Reason.UNCLOSED_ANSWER),
        ("</answer><answer>5", Reason.UNCLOSED_ANSWER),
        ("<answer>5<answer>", Reason.SEVERAL_ANSWERS),
        ("<answer>5</answer><answer>5</answer>", Reason.SEVERAL_ANSWERS),
        ("<answer>4</answer> no, <ANSWER>5</ANSWER>", Reason.SEVERAL_ANSWERS),
        ("<answer><answer>5</answer></answer>", Reason.SEVERAL_ANSWERS),
        ("<answer>5</answer></answer>", Reason.SEVERAL_ANSWERS),
        ("</answer><answer>5</answer>", Reason.SEVERAL_ANSWERS),
        ("<answer></answer>", Reason.EMPTY_ANSWER),
        ("<answer> \n\t\u3000</answer>", Reason.EMPTY_ANSWER),
    ],
)
def test_anything_else_is_refused_with_its_reason(text: str, reason: Reason) -> None:
    assert extract_answer(text, LIMIT) == _refused(reason)


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("a<think>b</think>c", "ac"),
        ("<THINK>b</Think>c", "c"),
        ("a<think>b</think>c<think>d</think>e", "ace"),
        ("b</think>c", "c"),
        ("a</think>b</think>c", "c"),
        ("a<think>b</think>c</think>d", "d"),
        ("a<think>b", "a"),
        ("a<think>b<think>c", "a"),
        ("a<think>b<think>c</think>d", "ad"),
        ("a<think>b<think>c</think>d</think>e", "e"),
        ("a</think>b<think>c", "b"),
        ("a<think>b</think>c<think>d", "ac"),
        ("</think>", ""),
        ("<think></think>", ""),
        ("no thought", "no thought"),
    ],
)
def test_thinking_is_removed(text: str, rest: str) -> None:
    assert remove_thinking(text) == rest


@pytest.mark.parametrize(
    "text",
    [
        "<think>is it <answer>4</answer>?</think><answer>5</answer>",
        "is it <answer>4</answer>?</think><answer>5</answer>",
        "<answer>5</answer><think>or <answer>4</answer>",
    ],
)
def test_answers_inside_thinking_do_not_count(text: str) -> None:
    assert extract_answer(text, LIMIT) == Extraction("5")


def test_answer_that_begins_inside_unclosed_thinking_does_not_count() -> None:
    assert extract_answer("<think><answer>5</answer>", LIMIT) == _refused(Reason.NO_ANSWER)


@pytest.mark.parametrize("text", ["<an\u017fwer>5</an\u017fwer>", "<answer\u0130>5</answer\u0130>"])
def test_letters_outside_ascii_spell_no_answer_tag(text: str) -> None:
    assert extract_answer(text, LIMIT) == _refused(Reason.NO_ANSWER)


def test_letters_outside_ascii_spell_no_think_tag() -> None:
    assert remove_thinking("a</thin\u212a>b") == "a</thin\u212a>b"


# ------------------------------------------------------------------ size


@pytest.mark.parametrize(
    ("character", "bytes_each"),
    [("x", 1), ("é", 2), ("\u20ac", 3), ("😀", 4), ("\ud800", 3)],
    ids=["ascii", "two bytes", "three bytes", "four bytes", "lone surrogate"],
)
def test_size_limit_counts_bytes(character: str, bytes_each: int) -> None:
    fits = character * (60 // bytes_each)
    assert extract_answer(f"<answer>{fits}</answer>", 60) == Extraction(fits)
    assert extract_answer(f"<answer>{fits}x</answer>", 60) == _refused(Reason.TOO_LONG)


def test_size_limit_does_not_count_the_blanks_around() -> None:
    assert extract_answer(f"<answer>{' ' * 100}12345{' ' * 100}</answer>", 5) == Extraction("12345")


# ------------------------------------------------------------------ beside a slow, plain reading of the rule

PIECES = st.sampled_from(
    [
        *("<think>", "</think>", "<answer>", "</answer>", "<ANSWER>", "</Think>"),
        *("<", ">", "/", "ans", "wer", "thi", "nk", "5", " ", "\n", "é", "\ud800", "\u212a"),
    ]
)
TEXTS = st.lists(PIECES, max_size=12).map("".join)


def _tags(text: str, name: str) -> list[tuple[int, int, bool]]:
    """Start, end and kind (True: closing) of every tag of that name, found one character at a time."""
    found = []
    for start in range(len(text)):
        for tag, closing in ((f"<{name}>", False), (f"</{name}>", True)):
            spelling = text[start : start + len(tag)]
            if spelling.isascii() and spelling.lower() == tag:
                found.append((start, start + len(tag), closing))
    return found


def _reference_thinking(text: str) -> str:
    """The rule in its own order: closed blocks, then leftover closing tags, then leftover opening tags."""
    removed = [False] * len(text)
    tags = _tags(text, "think")

    def remove(start: int, end: int) -> None:
        removed[start:end] = [True] * (end - start)

    def left(closing: bool) -> Sequence[tuple[int, int, bool]]:
        return [tag for tag in tags if tag[2] == closing and not removed[tag[0]]]

    while True:
        openings, closings = left(False), left(True)
        pairs = [(opening, next((c for c in closings if c[0] > opening[0]), None)) for opening in openings]
        block = next(((opening, closing) for opening, closing in pairs if closing is not None), None)
        if block is None:
            break
        remove(block[0][0], block[1][1])
    for closing in left(True):
        remove(0, closing[1])
    for opening in left(False):
        remove(opening[0], len(text))
    return "".join(character for character, gone in zip(text, removed, strict=True) if not gone)


def _reference_extraction(text: str, max_bytes: int) -> Extraction:
    rest = _reference_thinking(text)
    kinds = [closing for _, _, closing in _tags(rest, "answer")]
    if False not in kinds:
        return _refused(Reason.NO_ANSWER)
    if kinds.count(False) > 1 or len(kinds) > 2:
        return _refused(Reason.SEVERAL_ANSWERS)
    if kinds != [False, True]:
        return _refused(Reason.UNCLOSED_ANSWER)
    opening, closing = _tags(rest, "answer")
    answer = rest[opening[1] : closing[0]].strip()
    if not answer:
        return _refused(Reason.EMPTY_ANSWER)
    if sum(len(character.encode("utf-8", "surrogatepass")) for character in answer) > max_bytes:
        return _refused(Reason.TOO_LONG)
    return Extraction(answer)


@settings(max_examples=400)
@given(TEXTS)
@example("<think>a</think>b</think><answer>5</answer>")
@example("<thi<think></think>nk><answer>5</answer>")
def test_thinking_is_removed_as_a_plain_reading_of_the_rule_does(text: str) -> None:
    assert remove_thinking(text) == _reference_thinking(text)


@settings(max_examples=400)
@given(TEXTS, st.integers(1, 10))
def test_answers_are_found_as_a_plain_reading_of_the_rule_does(text: str, max_bytes: int) -> None:
    assert extract_answer(text, max_bytes) == _reference_extraction(text, max_bytes)


@given(st.text(st.characters(exclude_characters="<>"), min_size=1).filter(lambda text: text.strip() != ""))
def test_any_content_without_tags_comes_back_stripped(content: str) -> None:
    assert extract_answer(f"<think>so</think><answer>{content}</answer>", 10**6) == Extraction(content.strip())


@pytest.mark.parametrize(
    "piece",
    [
        *("<think>", "</think>", "<think></think>", "<answer>", "</answer>", "<answer></answer>"),
        *("<", "</", " ", "<think", "<answer><think>", "é</think>"),
    ],
)
def test_hostile_megabyte_takes_linear_time(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))
    started = time.monotonic()
    extract_answer(text, LIMIT)
    extract_answer(f"<answer>{text}</answer>", LIMIT)
    assert time.monotonic() - started < LINEAR_S
