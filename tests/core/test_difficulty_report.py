from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from reasoning_env.errors import GenerationError, WorkerError
from reasoning_env.records import Problem, ProblemSpec
from reasoning_env.reports.difficulty import (
    ITEMS,
    LEVELS,
    MAX_FAILURES,
    WELL_PROBED,
    LevelProbe,
    TaskLevels,
    describe_changes,
    format_report,
    measure_tasks,
    probe_level,
)


class FakeGenerator:
    """Makes problems whose parameter `n` grows with the level; `fails` says which specs cannot be made."""

    def __init__(self, fails: Callable[[ProblemSpec], bool] = lambda spec: False, highest: float = 1.0) -> None:
        self.specs: list[ProblemSpec] = []
        self._fails = fails
        self._highest = highest

    async def generate(self, spec: ProblemSpec, deadline_s: float) -> Problem:
        await asyncio.sleep(0)
        self.specs.append(spec)
        if self._fails(spec):
            raise GenerationError(f"{spec.task}: took over {deadline_s:g} s")
        assert spec.level is not None
        level = min(spec.level, self._highest)
        seconds = 1.0 if spec.index == 0 else 0.002
        return Problem(spec, "?", "1", "{}", b"", seconds, params={"n": int(level * 8)}, level=level)


def _levels(task: str, first: Mapping[str, Any], last: Mapping[str, Any], **changed: Any) -> TaskLevels:
    """A task with `first` as the parameters of its lower levels and `last` as those of the upper half."""
    probes = [LevelProbe(level, level, first if level < 0.5 else last, (0.001,), ()) for level in LEVELS]
    return TaskLevels(task, tuple(changed.get("probes", probes)))


# ------------------------------------------------------------------ probing


@pytest.mark.parametrize("level", LEVELS)
async def test_a_level_is_probed_with_problems_of_different_seeds(level: float) -> None:
    generator = FakeGenerator()
    probe = await probe_level(generator, "gcd", level, seed=1)
    assert len(generator.specs) == len(probe.seconds) == (ITEMS if level in WELL_PROBED else 1)
    assert len({spec.seed for spec in generator.specs}) == len(generator.specs)
    assert {(spec.task, spec.level) for spec in generator.specs} == {("gcd", level)}
    assert probe.works
    assert not probe.clamped


async def test_the_seed_decides_which_problems_are_drawn() -> None:
    generators = [FakeGenerator(), FakeGenerator(), FakeGenerator()]
    for generator, seed in zip(generators, (1, 1, 2), strict=True):
        await probe_level(generator, "gcd", 0.5, seed=seed)
    assert generators[0].specs == generators[1].specs
    assert not {spec.seed for spec in generators[0].specs} & {spec.seed for spec in generators[2].specs}


async def test_time_of_the_first_problem_which_builds_the_dataset_does_not_count() -> None:
    assert (await probe_level(FakeGenerator(), "gcd", 0.5, seed=1)).mean_ms == pytest.approx(2.0)


async def test_an_only_problem_gives_the_time() -> None:
    assert (await probe_level(FakeGenerator(), "gcd", 1 / 16, seed=1)).mean_ms == 1000.0


@pytest.mark.parametrize("level", [0.5, 1 / 16])
async def test_a_level_is_given_up_after_a_few_failures(level: float) -> None:
    generator = FakeGenerator(fails=lambda spec: True)
    probe = await probe_level(generator, "gcd", level, seed=1)
    assert len(generator.specs) == MAX_FAILURES
    assert probe.failures == ("gcd: took over 10 s",) * MAX_FAILURES
    assert not probe.works
    assert (probe.used, probe.params, probe.mean_ms) == (None, None, None)


@pytest.mark.parametrize("level", [0.5, 1 / 16])
async def test_one_failure_is_bad_luck(level: float) -> None:
    probe = await probe_level(FakeGenerator(fails=lambda spec: spec.index == 0), "gcd", level, seed=1)
    assert probe.works
    assert len(probe.failures) == 1
    assert len(probe.seconds) == (ITEMS if level in WELL_PROBED else 1)


async def test_equal_parameters_count_once_and_clamped_levels_are_told() -> None:
    (task,) = await measure_tasks([FakeGenerator(highest=0.75)], ["gcd"], seed=1)
    assert [probe.level for probe in task.probes] == list(LEVELS)
    assert task.distinct == 7  # int(level * 8) for levels up to 0.75
    assert [(probe.level, probe.used) for probe in task.clamped] == [(k / 16, 0.75) for k in (13, 14, 15, 16)]


async def test_levels_that_fail_count_as_no_parameters() -> None:
    generator = FakeGenerator(fails=lambda spec: spec.level is not None and spec.level > 0.5)
    (task,) = await measure_tasks([generator], ["gcd"], seed=1)
    assert task.distinct == 5
    assert [probe.level for probe in task.failed] == [k / 16 for k in range(9, 17)]


async def test_every_task_is_measured_on_one_maker_and_told_in_order() -> None:
    generators = [FakeGenerator(), FakeGenerator()]
    names = [f"task{number}" for number in range(7)]
    assert [task.task for task in await measure_tasks(generators, names, seed=1)] == names
    tasks_of = [{spec.task for spec in generator.specs} for generator in generators]
    assert all(tasks_of)
    assert not tasks_of[0] & tasks_of[1]


async def test_lost_workers_end_the_measurement() -> None:
    class Lost(FakeGenerator):
        async def generate(self, spec: ProblemSpec, deadline_s: float) -> Problem:
            raise WorkerError("no workers any more")

    with pytest.raises(WorkerError, match="no workers any more"):
        await measure_tasks([Lost(), FakeGenerator()], ["gcd", "lcm"], seed=1)


# ------------------------------------------------------------------ the report


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
def test_only_parameters_that_differ_are_told(first: dict[str, Any], last: dict[str, Any], changes: list[str]) -> None:
    assert describe_changes(_levels("gcd", first, last)) == changes


def test_a_long_value_is_cut() -> None:
    (change,) = describe_changes(_levels("gcd", {"words": ["a"]}, {"words": ["word"] * 50}))
    assert len(change) < 100
    assert change.endswith("…")


def test_a_correction_of_ours_is_marked_and_explained() -> None:
    task = _levels("rubiks_cube", {"cube_size": 3, "steps": 4}, {"cube_size": 6, "steps": 8})
    assert describe_changes(task) == ["cube_size* 3 -> 6", "steps 4 -> 8"]
    lines = format_report([task], {})
    assert "  rubiks_cube: cube_size: the config refuses 7" in lines


def test_a_row_holds_counts_times_and_parameters() -> None:
    lines = format_report([_levels("gcd", {"n": 1}, {"n": 9})], {})
    assert lines[0].split()[:4] == ["TASK", "LEVELS", "CLAMPED", "FAILED"]
    assert lines[1].split() == ["gcd", "2", "-", "-", "1.0", "1.0", "1.0", "n", "1", "->", "9"]
    assert lines[-1] == "1 tasks with levels, 0 without; every level works"


def test_clamped_levels_are_listed_with_what_takes_their_place() -> None:
    probes = [LevelProbe(level, min(level, 0.875), {"n": 1}, (0.001,), ()) for level in LEVELS]
    lines = format_report([_levels("gcd", {}, {}, probes=probes)], {})
    assert lines[1].split()[:4] == ["gcd", "1", "2", "-"]
    assert "  gcd: 0.9375 -> 0.875, 1 -> 0.875" in lines


def test_failures_are_told_apart_from_bad_luck() -> None:
    probes = [LevelProbe(level, level, {"n": 1}, (0.001,), ()) for level in LEVELS[:-1]]
    probes[3] = LevelProbe(3 / 16, 3 / 16, {"n": 1}, (0.001,), ("gcd, seed 5: took over 10 s",))
    probes.append(LevelProbe(1.0, None, None, (), ("gcd, seed 8: no such puzzle",) * MAX_FAILURES))
    lines = format_report([_levels("gcd", {}, {}, probes=probes)], {})
    assert lines[1].split() == ["gcd", "1", "-", "1", "1.0", "1.0", "-", "-"]
    broken = lines.index("levels that do not work:")
    stray = lines.index("single problems that failed, which training draws again:")
    assert lines[broken + 1] == "  gcd at 1: gcd, seed 8: no such puzzle"
    assert lines[stray + 1] == "  gcd at 0.1875: gcd, seed 5: took over 10 s"
    assert lines[-1].endswith("levels fail in: gcd")


def test_tasks_without_levels_are_listed_with_the_reason() -> None:
    lines = format_report([], {"acre": "the library has no curriculum for it"})
    assert lines[lines.index("not adjustable:") + 1] == "  acre: the library has no curriculum for it"
    assert lines[-1] == "0 tasks with levels, 1 without"
