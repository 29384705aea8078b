from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from reasoning_env.errors import GenerationError
from reasoning_env.records import Problem, ProblemSpec
from reasoning_env.reports.difficulty import (
    ITEMS,
    LEVELS,
    MAX_FAILURES,
    WELL_MEASURED,
    MeasuredLevel,
    TaskLevels,
    describe_changes,
    measure_level,
)


class FakeGenerator:
    """Makes problems of parameters `{"n": 1}`, the first one slowly; `fails` says which specs cannot be made."""

    def __init__(self, fails: Callable[[ProblemSpec], bool] = lambda spec: False) -> None:
        self.specs: list[ProblemSpec] = []
        self._fails = fails

    async def generate(self, spec: ProblemSpec, deadline_s: float) -> Problem:
        await asyncio.sleep(0)
        self.specs.append(spec)
        if self._fails(spec):
            raise GenerationError("no such puzzle")
        seconds = 1.0 if spec.index == 0 else 0.002
        return Problem(spec, "?", "1", "{}", b"", seconds, params={"n": 1}, level=spec.level)


def _levels(*params: Mapping[str, Any], task: str = "gcd") -> TaskLevels:
    """A task whose parameters at levels from 0 to 1 are these; it fails where they are empty."""
    last = len(params) - 1
    return TaskLevels(
        task,
        tuple(
            MeasuredLevel(number / last, number / last, found, (0.001,), () if found else ("no luck",) * MAX_FAILURES)
            for number, found in enumerate(params)
        ),
    )


# ------------------------------------------------------------------ one level


@pytest.mark.parametrize("level", LEVELS)
async def test_a_level_is_measured_with_problems_of_different_seeds(level: float) -> None:
    generator = FakeGenerator()
    measured = await measure_level(generator, "gcd", level, seed=1)
    assert len(generator.specs) == len(measured.seconds) == (ITEMS if level in WELL_MEASURED else 1)
    assert len({spec.seed for spec in generator.specs}) == len(generator.specs)
    assert {(spec.task, spec.level) for spec in generator.specs} == {("gcd", level)}
    assert measured.works
    assert not measured.clamped


async def test_the_seed_decides_which_problems_are_drawn() -> None:
    generators = [FakeGenerator(), FakeGenerator(), FakeGenerator()]
    for generator, seed in zip(generators, (1, 1, 2), strict=True):
        await measure_level(generator, "gcd", 0.5, seed=seed)
    assert generators[0].specs == generators[1].specs
    assert not {spec.seed for spec in generators[0].specs} & {spec.seed for spec in generators[2].specs}


@pytest.mark.parametrize(("level", "mean_ms"), [(0.5, 2.0), (1 / 16, 1000.0)])
async def test_the_first_problem_which_builds_the_dataset_counts_only_alone(level: float, mean_ms: float) -> None:
    assert (await measure_level(FakeGenerator(), "gcd", level, seed=1)).mean_ms == pytest.approx(mean_ms)


@pytest.mark.parametrize("level", [0.5, 1 / 16])
async def test_a_level_is_given_up_after_a_few_failures(level: float) -> None:
    generator = FakeGenerator(fails=lambda spec: True)
    measured = await measure_level(generator, "gcd", level, seed=1)
    assert len(generator.specs) == MAX_FAILURES
    assert measured.failures == ("no such puzzle",) * MAX_FAILURES
    assert not measured.works
    assert (measured.used, measured.params, measured.mean_ms) == (None, None, None)


@pytest.mark.parametrize("level", [0.5, 1 / 16])
async def test_one_failure_is_bad_luck(level: float) -> None:
    measured = await measure_level(FakeGenerator(fails=lambda spec: spec.index == 0), "gcd", level, seed=1)
    assert measured.works
    assert len(measured.failures) == 1
    assert len(measured.seconds) == (ITEMS if level in WELL_MEASURED else 1)


# ------------------------------------------------------------------ all levels of a task


def test_equal_parameters_count_once_and_levels_that_fail_not_at_all() -> None:
    task = _levels({"n": 1}, {"n": 1}, {"n": 2}, {})
    assert task.distinct == 2
    assert [level.level for level in task.failed] == [1.0]


def test_a_level_with_the_parameters_of_another_is_clamped() -> None:
    levels = [MeasuredLevel(level, min(level, 0.75), {"n": 1}, (0.001,)) for level in (0.5, 0.75, 1.0)]
    assert [level.level for level in TaskLevels("gcd", tuple(levels)).clamped] == [1.0]


@pytest.mark.parametrize(
    ("first", "last", "changes"),
    [
        ({"min_terms": 2, "max_terms": 6}, {"min_terms": 4, "max_terms": 10}, ["min/max_terms 2..6 -> 4..10"]),
        ({"min_terms": 2, "max_terms": 6}, {"min_terms": 2, "max_terms": 10}, ["min/max_terms 2..6 -> 2..10"]),
        ({"max_terms": 6, "min_terms": 2}, {"max_terms": 7, "min_terms": 2}, ["min/max_terms 2..6 -> 2..7"]),
        ({"max_terms": 6, "size": 3}, {"max_terms": 9, "size": 3}, ["max_terms 6 -> 9"]),
        ({"min_terms": 6}, {"min_terms": 9}, ["min_terms 6 -> 9"]),
        ({"ops": ["+"], "new": False}, {"ops": ["-"], "new": True}, ['ops ["+"] -> ["-"]', "new false -> true"]),
        ({"min_terms": 2, "max_terms": 6}, {"min_terms": 2, "max_terms": 6}, []),
    ],
)
def test_only_parameters_that_differ_are_listed(
    first: dict[str, Any], last: dict[str, Any], changes: Sequence[str]
) -> None:
    assert describe_changes(_levels(first, last)) == changes


def test_a_long_value_is_cut() -> None:
    (change,) = describe_changes(_levels({"words": ["a"]}, {"words": ["word"] * 50}))
    assert len(change) < 100
    assert change.endswith("…")


def test_parameters_with_levels_of_our_own_are_marked() -> None:
    task = _levels({"cube_size": 3, "steps": 4}, {"cube_size": 6, "steps": 8}, task="rubiks_cube")
    assert describe_changes(task) == ["cube_size* 3 -> 6", "steps 4 -> 8"]
