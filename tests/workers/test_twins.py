"""Frequent answers are drawn less often: options come out even, and each flaw follows from the seed."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from reasoning_env.verifiers import look
from reasoning_env.verifiers.lazy import choice
from reasoning_env.workers.library import Library


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("library"))
        yield Library(None)


def _served(library: Library, task: str, level: float | None, count: int) -> Counter[str]:
    return Counter(str(library.generate(task, 7_919 * seed, {}, level).answer) for seed in range(count))


def _more_letters(one: str, other: str) -> int:
    return abs(len({*one}) - len({*other}))


@pytest.mark.parametrize(("task", "level"), [("isomorphic_strings", None), ("syllogism", 0.0), ("circuit_logic", 0.5)])
def test_two_options_come_out_even(library: Library, task: str, level: float | None) -> None:
    """At level 0 all but one in twenty syllogisms hold."""
    answers = _served(library, task, level, 100)
    assert len(answers) == 2
    assert max(answers.values()) < 0.65 * answers.total()


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
    served = [library.generate(task, 7_919 * seed, {}, level) for seed in range(60)]
    options = [choice(one.question, str(one.answer)) for one in served]
    counts = [count(one.question) for one in served]
    for limit in {*counts}:
        right = sum((option == options[0]) == (number < limit) for option, number in zip(options, counts, strict=True))
        assert 0.25 * len(served) < right < 0.75 * len(served)


def test_neither_of_two_numbers_counts_mostly(library: Library) -> None:
    """Of all questions the second counts in five of six."""
    served = [library.generate("aiw", 7_919 * seed, {}) for seed in range(60)]
    second = sum(int(str(one.answer)) == int(re.findall(r"\d+", one.question)[1]) + 1 for one in served)
    assert 0.3 * len(served) < second < 0.7 * len(served)


def test_least_common_multiple_is_no_fixed_part_of_the_product(library: Library) -> None:
    served = [json.loads(library.generate("lcm", 7_919 * seed, {}).metadata_json) for seed in range(60)]
    divisors = Counter(math.prod(one["numbers"]) // one["result"] for one in served)
    assert max(divisors.values()) < 0.35 * divisors.total()


def test_who_is_called_a_knave_is_not_mostly_one(library: Library) -> None:
    served = [library.generate("knights_knaves", 7_919 * seed, {}) for seed in range(60)]
    right = sum([*look("knights_knaves", one.question)] == json.loads(one.metadata_json)["solution"] for one in served)
    assert 0 < right < 0.4 * len(served)


@pytest.mark.parametrize(("task", "level"), [("gcd", 1.0), ("shortest_path", 1.0), ("rotten_oranges", 1.0)])
def test_no_free_answer_is_frequent(library: Library, task: str, level: float) -> None:
    answers = _served(library, task, level, 60)
    assert max(answers.values()) < 0.35 * answers.total()


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
    assert len({library.generate("gcd", seed, {}).seed for seed in range(40)} & {*range(40)}) < 40
