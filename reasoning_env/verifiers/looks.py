"""What of a question's surface would decide between its options: the problem drawn beside it must have the same.

Options come out even among problems of the same look, where they come out even over all problems otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping

SHARES = 10
"""Shares of a whole are told apart in steps of one such part."""

LONG = 20
"""Letters beyond which the length of a string says nothing."""


def look(task: str, question: str) -> Hashable:
    """Return what a twin of this question must have too; the same for all questions where nothing decides."""
    return LOOKS[task](question) if task in LOOKS else None


def _final_gate(question: str) -> Hashable:
    """The legend, which ends with the last gate: an OR of several terms is nearly always 1."""
    return tuple(re.findall(r"(?m)^\S\S: \w+$", question))


def _prerequisites_per_course(question: str) -> Hashable:
    """Courses that go round in a circle have more of them."""
    courses = re.search(r"a total of (\d+)", question)
    return len(re.findall(r"\(\d+, \d+\)", question)) * SHARES // int(courses[1]) if courses else None


def _distinct_letters(question: str) -> Hashable:
    """Of strings that are isomorphic, one has as many letters as the other, and few of the others are short."""
    first, second = question.split()[-2:]
    return len({*first}) - len({*second}), min(len(first), LONG) // 3


def _share_of_marks(question: str) -> Hashable:
    """The fuller a grid, the likelier its blank is marked."""
    marked = question.count("\N{WHITE HEAVY CHECK MARK}")
    return marked * SHARES // (marked + question.count("\N{CROSS MARK}") + 1)


def _quantifiers(question: str) -> Hashable:
    """Of 64 combinations of three, most hold always or never."""
    return tuple(re.findall(r"(?m)^(?:\d\. )?(All|No|Some) \w+ are( not)?", question))


LOOKS: Mapping[str, Callable[[str], Hashable]] = {
    "circuit_logic": _final_gate,
    "course_schedule": _prerequisites_per_course,
    "isomorphic_strings": _distinct_letters,
    "modulo_grid": _share_of_marks,
    "syllogism": _quantifiers,
}
