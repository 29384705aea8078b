"""Options come equally often, and no open answer more than a third of the time; both follow from the seed."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from statistics import fmean, stdev

import pytest

from reasoning_env.records import ProblemRequest
from reasoning_env.seeds import hash_int
from reasoning_env.sources.contract import Generated
from reasoning_env.tasks import TASKS
from reasoning_env.tasks.declaration import Cause
from reasoning_env.tasks.serving import PARTS, SALT
from reasoning_env.workers.library import Library

SLOW = frozenset({"intermediate_integration", "mini_sudoku", "polynomial_equations", "quantum_lock"})
"""A hundred problems take ten seconds or more."""

MANY_DRAWS = frozenset({"isomorphic_strings", "mini_sudoku", "propositional_logic", "ransom_note", "string_insertion"})
"""A served problem takes more than four draws, in the mean over defaults and levels; docs/rewards.md says why."""


def _served(library: Library, task: str, level: float | None = None, count: int = 60) -> list[Generated]:
    return [library.generate(ProblemRequest(task, 7_919 * seed, {}, level)) for seed in range(count)]


def _answer(one: Generated) -> str:
    return str(one.answer)


@pytest.mark.parametrize(
    ("task", "level"), [("isomorphic_strings", None), ("syllogism", 0.0), ("acre", None), ("mahjong_puzzle", 0.0)]
)
def test_options_come_equally_often(library: Library, task: str, level: float | None) -> None:
    seen = Counter(map(_answer, _served(library, task, level)))
    options = TASKS[task].even_options
    assert {answer.lower() for answer in seen} == {*options}
    assert max(seen.values()) < (1 / len(options) + 0.17) * 60


@pytest.mark.parametrize(
    ("task", "level"), [("gcd", 1.0), ("shortest_path", 0.5), ("rotten_oranges", 0.75), ("letter_counting", 0.0)]
)
def test_no_open_answer_is_frequent(library: Library, task: str, level: float) -> None:
    assert max(Counter(map(_answer, _served(library, task, level))).values()) < 0.45 * 60


def test_seed_picks_the_part_of_answers(library: Library) -> None:
    parts = Counter(hash_int("option", 7_919 * seed) % PARTS for seed in range(300))
    assert all(80 < count < 120 for count in parts.values())
    for seed in range(20):
        answer = library.generate(ProblemRequest("gcd", seed, {})).answer
        assert hash_int(SALT, answer) % PARTS == hash_int("option", seed) % PARTS


def test_rejected_by_cause(library: Library) -> None:
    seen: Counter[str] = Counter()
    for seed in range(60):
        seen.update(library.generate(ProblemRequest("ransom_note", seed, {})).flawed)
    assert set(seen) == {Cause.EASY, Cause.UNWANTED}


def test_served_problem_follows_from_the_seed(library: Library) -> None:
    forth = [library.generate(ProblemRequest("gcd", seed, {})) for seed in range(40)]
    back = [library.generate(ProblemRequest("gcd", seed, {})) for seed in reversed(range(40))]
    assert forth == back[::-1]
    assert 5 < sum(one.seed in range(40) for one in forth) < 35


def test_served_problem_has_its_own_seed(library: Library) -> None:
    for task in ("gcd", "syllogism", "string_insertion"):
        served = [library.generate(ProblemRequest(task, seed, {})) for seed in range(10)]
        assert any(one.flawed for one in served)
        assert [library.generate(ProblemRequest(task, one.seed, {}, as_is=True)) for one in served] == [
            replace(one, flawed={}) for one in served
        ]


def test_problem_as_is(library: Library) -> None:
    made = [library.generate(ProblemRequest("gcd", seed, {}, as_is=True)) for seed in range(40)]
    assert [one.seed for one in made] == [*range(40)]


@pytest.mark.parametrize(
    "task",
    sorted(
        task
        for task, row in TASKS.items()
        if row.rejected or row.even_options or row.frequent_answer or task in MANY_DRAWS
    ),
)
def test_draws_of_a_served_problem(library: Library, task: str) -> None:
    levels = (None, 1.0) if library.tasks[task].has_levels else (None,)
    count = 2 if task in SLOW else 12 if task in MANY_DRAWS else 6
    draws = [1 + sum(one.flawed.values()) for level in levels for one in _served(library, task, level, count)]
    error = stdev(draws) / math.sqrt(len(draws))
    if task in MANY_DRAWS:
        assert fmean(draws) > 4
    else:
        assert fmean(draws) <= 4 + 2 * error
