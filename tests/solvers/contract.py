"""What a solver returns, and helpers for reading questions."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Solution:
    """What a question's text says of answers to it.

    `answer` is right. `others` are right too: other solutions, or the same in other notation. `wrong` are nearly right,
    and not right by any reading of the question.
    """

    answer: str
    others: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()


class UnsolvedError(Exception):
    """The solver gives up: its search is too long, or its parser does not know the question's wording."""


class AmbiguousError(Exception):
    """The question has several readings with different answers; the message names the cause."""


def find(pattern: str, text: str) -> re.Match[str]:
    """Return the first match of a pattern in a question; raises UnsolvedError for another wording."""
    found = re.search(pattern, text, re.DOTALL)
    if found is None:
        raise UnsolvedError(f"no {pattern!r} in the question")
    return found


def integers(text: str) -> list[int]:
    """Return the whole numbers in a text, in order."""
    return [int(word) for word in re.findall(r"-?\d+", text)]


def number_rows(text: str) -> list[list[int]]:
    """Return the rows of the last block of lines that hold whole numbers and blanks alone."""
    blocks = re.findall(r"(?:^[ \t]*-?\d+(?:[ \t]+-?\d+)*[ \t]*(?:\n|\Z))+", text, re.MULTILINE)
    if not blocks:
        raise UnsolvedError("no matrix in the question")
    return [integers(line) for line in blocks[-1].strip().splitlines()]


def as_rows(rows: list[list[int]]) -> str:
    """Return a matrix as the questions write it."""
    return "\n".join(" ".join(map(str, row)) for row in rows)


def near_number(value: int) -> tuple[str, ...]:
    """Return whole numbers that are not `value`, though near it or alike."""
    near = [value + 1, value - 1, -value, value * 10]
    return tuple(str(number) for number in near if number != value)


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())
