"""Frequent answers are drawn less often: options come out even, and each flaw follows from the seed."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from reasoning_env.verifiers import surface_key
from reasoning_env.verifiers.shortcuts import choice
from reasoning_env.workers.library import Generated, Library


def _served(library: Library, task: str, level: float | None = None, count: int = 60) -> list[Generated]:
    return [library.generate(task, 7_919 * seed, {}, level) for seed in range(count)]


def _answer(one: Generated) -> str:
    return str(one.answer)


def _is_the_second(one: Generated) -> bool:
    return int(str(one.answer)) == int(re.findall(r"\d+", one.question)[1]) + 1


def _divisor(one: Generated) -> int:
    made = json.loads(one.metadata_json)
    return math.prod(made["numbers"]) // int(made["result"])


def _more_letters(one: str, other: str) -> int:
    return abs(len({*one}) - len({*other}))


@pytest.mark.parametrize(
    ("task", "level", "count", "property_of", "most"),
    [
        ("isomorphic_strings", None, 100, _answer, 0.65),
        ("syllogism", 0.0, 100, _answer, 0.65),  # where all but one in twenty hold
        ("circuit_logic", 0.5, 100, _answer, 0.65),
        ("gcd", 1.0, 60, _answer, 0.35),
        ("shortest_path", 0.5, 60, _answer, 0.35),
        ("rotten_oranges", 0.75, 60, _answer, 0.35),
        ("aiw", None, 60, _is_the_second, 0.7),  # of all questions in five of six
        ("lcm", None, 60, _divisor, 0.35),
    ],
)
def test_what_could_be_guessed_is_not_frequent(
    library: Library,
    task: str,
    level: float | None,
    count: int,
    property_of: Callable[[Generated], object],
    most: float,
) -> None:
    seen = Counter(map(property_of, _served(library, task, level, count)))
    assert len(seen) > 1
    assert max(seen.values()) < most * count


@pytest.mark.parametrize(
    ("task", "level", "count"),
    [
        ("course_schedule", None, lambda question: len(question.split()) / int(question.split()[5])),
        ("isomorphic_strings", None, lambda question: _more_letters(*question.split()[-2:])),
        ("modulo_grid", None, lambda question: question.count("\N{WHITE HEAVY CHECK MARK}")),
        ("syllogism", None, lambda question: question.count("All ") + 4 * question.count("\nAll ")),
        ("syllogism", 0.0, lambda question: question.count("\nAll ")),
    ],
)
def test_no_count_tells_two_options_apart(
    library: Library, task: str, level: float | None, count: Callable[[str], float]
) -> None:
    served = _served(library, task, level)
    options = [choice(one.question, str(one.answer)) for one in served]
    counts = [count(one.question) for one in served]
    for limit in {*counts}:
        right = sum((option == options[0]) == (number < limit) for option, number in zip(options, counts, strict=True))
        assert 0.25 * len(served) < right < 0.75 * len(served)


def test_who_is_called_a_knave_is_not_mostly_one(library: Library) -> None:
    served = _served(library, "knights_knaves")
    right = sum(
        [*surface_key("knights_knaves", one.question)] == json.loads(one.metadata_json)["solution"] for one in served
    )
    assert 0 < right < 0.4 * len(served)


def test_what_is_served_follows_from_the_seed_whatever_was_made_before(library: Library) -> None:
    forth = [library.generate("gcd", seed, {}) for seed in range(40)]
    back = [library.generate("gcd", seed, {}) for seed in reversed(range(40))]
    assert forth == back[::-1]
    assert 5 < sum(one.seed in range(40) for one in forth) < 35


def test_problem_that_is_served_is_made_by_its_own_seed(library: Library) -> None:
    for task in ("gcd", "syllogism", "string_insertion"):
        served = [library.generate(task, seed, {}) for seed in range(10)]
        assert any(one.flawed for one in served)
        assert [library.generate(task, one.seed, {}, as_is=True) for one in served] == [
            replace(one, flawed=0) for one in served
        ]


def test_problem_as_is_is_the_seed_s_own_whatever_is_wrong_with_it(library: Library) -> None:
    made = [library.generate("gcd", seed, {}, as_is=True) for seed in range(40)]
    assert [one.seed for one in made] == [*range(40)]
