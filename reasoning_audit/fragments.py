"""Answers that need no reasoning: words, numbers and lines of a question, and their counts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from reasoning_env.answers.shortcuts import SHOWN_NUMBER, quotations

QUESTION_WORD = re.compile(r"[^\W\d_]+")
LISTED_LINE = re.compile(r"\W*\d+[.):]\s+(\S.*)")


def fragments(question: str) -> dict[str, str]:
    """Return answers that need no reasoning, by description, such as `the first number`."""
    numbers = SHOWN_NUMBER.findall(question)
    words = QUESTION_WORD.findall(question)
    lines = question.strip().splitlines()
    parts = {
        "the first number": _first(numbers),
        "the last number": _last(numbers),
        "the largest number": max(numbers, key=float, default=""),
        "the most frequent number": _most_frequent(numbers),
        "the number of numbers in the question": str(len(numbers)),
        "the first word": _first(words),
        "the last word": _last(words),
        "the most frequent word": _most_frequent([word for word in words if len(word) > 2]),
        "the number of words in the question": str(len(question.split())),
        "the number of lines in the question": str(len(lines)),
        "the number of characters in the question": str(len(question)),
        "the first option": _first(_options(question)),
        "the last option": _last(_options(question)),
    }
    for mark in "#1X":
        parts[f"the number of {mark} in the question"] = str(question.count(mark))
    listed = next(filter(None, map(LISTED_LINE.fullmatch, lines)), None)
    if listed is not None:
        parts["the first item of a numbered list"] = listed[1].strip()
    return {name: part for name, part in parts.items() if part}


def _options(question: str) -> list[str]:
    """Return the options in a question: words joined by `or` or a slash; if there are none, the quoted strings."""
    pairs = re.findall(r"\b(\w+)\s*(?:/|,? or )\s*(\w+)\b", question)
    return [word for pair in pairs for word in pair] or quotations(question)


def _most_frequent(items: Sequence[str]) -> str:
    return Counter(items).most_common(1)[0][0] if items else ""


def _first(items: Sequence[str]) -> str:
    return items[0] if items else ""


def _last(items: Sequence[str]) -> str:
    return items[-1] if items else ""
