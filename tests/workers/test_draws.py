"""Select the problems that are served: few are rejected, no answer is frequent, and seeds are reproducible."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from statistics import fmean, stdev

import pytest

from reasoning_env.records import ProblemRequest
from reasoning_env.sources.contract import Generated
from reasoning_env.tasks import TASKS
from reasoning_env.tasks.declaration import Cause
from reasoning_env.workers.library import Library

SLOW = frozenset({"intermediate_integration", "polynomial_equations", "quantum_lock"})
"""Tasks that need ten seconds or more for a hundred problems."""
REJECTING = sorted(task for task, declared in TASKS.items() if declared.rejected)


def _served(library: Library, task: str, level: float | None = None, count: int = 60) -> list[Generated]:
    return [library.generate(ProblemRequest(task, 7_919 * seed, {}, level)) for seed in range(count)]


def _answer(one: Generated) -> str:
    return str(one.answer)


@pytest.mark.parametrize(
    ("task", "level"), [("gcd", 1.0), ("shortest_path", None), ("rotten_oranges", None), ("letter_counting", 0.0)]
)
def test_most_frequent_answer_is_right_for_under_45_percent_of_the_problems(
    library: Library, task: str, level: float | None
) -> None:
    assert max(Counter(map(_answer, _served(library, task, level, 120))).values()) < 0.45 * 120


def test_tsumego_problems_are_rejected_only_if_their_reference_answer_is_wrong(library: Library) -> None:
    seen: Counter[str] = Counter()
    for seed in range(60):
        seen.update(library.generate(ProblemRequest("tsumego", seed, {})).flawed)
    assert set(seen) == {Cause.WRONG}


def test_served_problem_depends_only_on_its_seed(library: Library) -> None:
    forth = [library.generate(ProblemRequest("circuit_logic", seed, {})) for seed in range(40)]
    back = [library.generate(ProblemRequest("circuit_logic", seed, {})) for seed in reversed(range(40))]
    assert forth == back[::-1]
    assert 5 < sum(one.seed in range(40) for one in forth) < 35


def test_served_problem_records_the_seed_that_made_it(library: Library) -> None:
    for task in ("circuit_logic", "syllogism", "largest_island"):
        served = [library.generate(ProblemRequest(task, seed, {})) for seed in range(10)]
        assert any(one.flawed for one in served)
        assert [library.generate(ProblemRequest(task, one.seed, {}, exact_seed=True)) for one in served] == [
            replace(one, flawed={}) for one in served
        ]


def test_problem_requested_by_its_exact_seed_is_never_replaced_by_another(library: Library) -> None:
    made = [library.generate(ProblemRequest("gcd", seed, {}, exact_seed=True)) for seed in range(40)]
    assert [one.seed for one in made] == [*range(40)]


@pytest.mark.parametrize(
    "task", [pytest.param(task, marks=pytest.mark.slow if task in SLOW else ()) for task in REJECTING]
)
def test_at_most_three_problems_are_rejected_on_average_per_served_problem(library: Library, task: str) -> None:
    levels = (None, 0.0, 0.5, 1.0) if library.tasks[task].has_levels else (None,)
    draws = [1 + sum(one.flawed.values()) for level in levels for one in _served(library, task, level, 10)]
    error = stdev(draws) / math.sqrt(len(draws))
    assert fmean(draws) <= 4 + 2 * error
