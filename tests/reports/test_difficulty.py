from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

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
from tests.fake_workers import FakeWorkers, fails_where
from tests.records import problem_of


def slow_at_first(spec: ProblemSpec) -> Problem:
    return problem_of(spec, generation_s=0.002 if spec.index else 1.0, params={"n": 1}, level=spec.level)


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
@pytest.mark.parametrize("failing", [0, 1, MAX_FAILURES])
async def test_a_level_is_measured_with_problems_of_different_seeds_and_given_up_after_a_few_failures(
    level: float, failing: int
) -> None:
    workers = FakeWorkers(fails_where(lambda spec: spec.index < failing, slow_at_first))
    measured = await measure_level(workers, "gcd", level, seed=1)
    works = failing < MAX_FAILURES
    made = (ITEMS if level in WELL_MEASURED else 1) if works else 0
    assert (measured.works, len(measured.seconds), len(measured.failures)) == (works, made, failing)
    assert len({spec.seed for spec in workers.specs}) == len(workers.specs) == made + failing
    assert {(spec.task, spec.level) for spec in workers.specs} == {("gcd", level)}
    assert (measured.used, measured.params) == ((level, {"n": 1}) if works else (None, None))
    assert (measured.mean_ms is None) is not works
    assert not measured.clamped


async def test_the_seed_decides_which_problems_are_drawn() -> None:
    first, again, other = FakeWorkers(), FakeWorkers(), FakeWorkers()
    for workers, seed in ((first, 1), (again, 1), (other, 2)):
        await measure_level(workers, "gcd", 0.5, seed=seed)
    assert first.specs == again.specs
    assert not {spec.seed for spec in first.specs} & {spec.seed for spec in other.specs}


@pytest.mark.parametrize(("level", "mean_ms"), [(0.5, 2.0), (1 / 16, 1000.0)])
async def test_the_first_problem_which_builds_the_dataset_counts_only_alone(level: float, mean_ms: float) -> None:
    assert (await measure_level(FakeWorkers(slow_at_first), "gcd", level, seed=1)).mean_ms == pytest.approx(mean_ms)


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
        ({"max_terms": 6, "size": 3}, {"max_terms": 9, "size": 3}, ["max_terms 6 -> 9"]),
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
