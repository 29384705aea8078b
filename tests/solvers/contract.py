"""The result of a solver, and helper functions to read questions."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Solution:
    """The solution of a question.

    `answer` is right. `others` are further right answers: other solutions, or other notations of `answer`. `wrong` are
    nearly right answers that are wrong by every reading of the question.
    """

    answer: str
    others: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()


class UnsolvedError(Exception):
    """Raised if the search takes too long, or if the solver cannot parse the question."""


class AmbiguousError(Exception):
    """Raised if readings of the question have different answers; the message names the cause."""


def find(pattern: str, text: str) -> re.Match[str]:
    """Return the first match of a pattern in a question. Raises UnsolvedError if there is none."""
    found = re.search(pattern, text, re.DOTALL)
    if found is None:
        raise UnsolvedError(f"no {pattern!r} in the question")
    return found


def integers(text: str) -> list[int]:
    """Return the integers in a string, in order."""
    return [int(word) for word in re.findall(r"-?\d+", text)]


def number_rows(text: str) -> list[list[int]]:
    """Return the rows of the last block of lines that contain only integers and whitespace."""
    blocks = re.findall(r"(?:^[ \t]*-?\d+(?:[ \t]+-?\d+)*[ \t]*(?:\n|\Z))+", text, re.MULTILINE)
    if not blocks:
        raise UnsolvedError("no matrix in the question")
    return [integers(line) for line in blocks[-1].strip().splitlines()]


def as_rows(rows: list[list[int]]) -> str:
    """Return a matrix in the notation of the questions."""
    return "\n".join(" ".join(map(str, row)) for row in rows)


def near_number(value: int) -> tuple[str, ...]:
    """Return integers that are close or similar to `value`, but different."""
    near = [value + 1, value - 1, -value, value * 10]
    return tuple(str(number) for number in near if number != value)


def word_set(text: str) -> frozenset[str]:
    """Return the set of words in a string."""
    return frozenset(text.split())
