"""What of a question's surface would decide between options; the problem beside it must share it.

Options come out even among problems with the same surface, where they come out even over all problems otherwise.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable, Mapping

from .entries import Entry
from .shortcuts import choice, straight_ways

SHARES = 10
"""Shares of a whole are told apart in steps of one such part."""

MANY_DIGITS = 60
"""Digits beyond which answers are spread by themselves."""
LONG = 20
"""Letters beyond which the length of a string says nothing."""


def surface_key(task: str, question: str) -> Hashable:
    """Return what a question must share to be like this one on its surface; None where nothing decides."""
    return SURFACE_KEYS[task](question) if task in SURFACE_KEYS else None


def option(task: str, entry: Entry) -> Hashable:
    """Return the right answer's choice: as its task defines it, else the only blank's content or itself."""
    return OPTIONS[task](entry) if task in OPTIONS else choice(str(entry["question"]), str(entry["answer"]))


def is_looked_up(question: str) -> bool:
    """Tell whether a test is one of the experiments, so that it must be neither served nor compared with others."""
    test = re.search(r"New test case:\n(.+)", question)
    return test is not None and f"\n{test[1]} \N{RIGHTWARDS ARROW} " in question


def _final_gate(question: str) -> Hashable:
    """The legend, which ends with the last gate: an OR of several terms is nearly always 1."""
    return tuple(re.findall(r"(?m)^\S\S: \w+$", question))


def _accused_of_two(question: str) -> Hashable:
    """Who is called a knave mostly is one."""
    named = re.findall(r"(\w+) is an? \w+/(\w+)", question)
    if len(named) != 2:
        return None
    return tuple(re.search(rf"\b{name} is an? {knave}\b", question) is None for name, knave in named)


def _prerequisites_per_course(question: str) -> Hashable:
    """Courses that go round in a circle have more of them."""
    courses = re.search(r"a total of (\d+)", question)
    return len(re.findall(r"\(\d+, \d+\)", question)) * SHARES // int(courses[1]) if courses else None


def _length(question: str) -> Hashable:
    """A quarter of the digits is the most frequent answer."""
    return min(len(question.split()[-1]), MANY_DIGITS) // 4


def _all_even(question: str) -> Hashable:
    """Of even numbers 2 is a frequent divisor, of others 1."""
    return all(int(number) % 2 == 0 for number in re.findall(r"\d+", question))


def _distinct_letters(question: str) -> Hashable:
    """Count letters: isomorphic strings have equally many, and few of the others are short."""
    first, second = question.split()[-2:]
    return len({*first}), len({*second}), min(len(first), LONG)


def _share_of_marks(question: str) -> Hashable:
    """The fuller a grid, the likelier its blank is marked."""
    marked = question.count("\N{WHITE HEAVY CHECK MARK}")
    return marked * SHARES // (marked + question.count("\N{CROSS MARK}") + 1)


def _quantifiers(question: str) -> Hashable:
    """Of 64 combinations of three, most hold always or never."""
    return tuple(re.findall(r"(?m)^(?:\d\. )?(All|No|Some) \w+ are( not)?", question))


def _second_number_counts(entry: Entry) -> Hashable:
    return int(entry["answer"]) == int(re.findall(r"\d+", entry["question"])[1]) + 1


def _common_divisor(entry: Entry) -> Hashable:
    return int(math.prod(entry["metadata"]["numbers"]) // entry["metadata"]["result"])


def _detour(entry: Entry) -> Hashable:
    """How many steps walls add to a way."""
    metadata = entry["metadata"]
    return int(entry["answer"]) + 1 - len(straight_ways(metadata["grid"], metadata["start"], metadata["goal"])[0])


OPTIONS: Mapping[str, Callable[[Entry], Hashable]] = {
    "aiw": _second_number_counts,
    "knights_knaves": lambda entry: tuple(entry["metadata"]["solution"]),
    "lcm": _common_divisor,
    "maze": _detour,
}
SURFACE_KEYS: Mapping[str, Callable[[str], Hashable]] = {
    "binary_alternation": _length,
    "circuit_logic": _final_gate,
    "course_schedule": _prerequisites_per_course,
    "gcd": _all_even,
    "isomorphic_strings": _distinct_letters,
    "knights_knaves": _accused_of_two,
    "lcm": _all_even,
    "modulo_grid": _share_of_marks,
    "syllogism": _quantifiers,
}
