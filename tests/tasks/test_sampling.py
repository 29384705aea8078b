from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import reasoning_env
from reasoning_env.errors import GenerationError
from reasoning_env.records import Split
from reasoning_env.tasks.sampling import UniformSampler, evaluation_spec, task_params

TASKS = ("chain_sum", "maze", "sudoku", "word_ladder")
CHI_SQUARE_999 = {3: 16.27, 24: 51.18}
"""The value that chi-square exceeds once in 1000 times, by degrees of freedom."""


def _sampler(tasks: tuple[str, ...] = TASKS, run_seed: int = 42, instance: int = 0) -> UniformSampler:
    return UniformSampler(tasks, TASKS, run_seed=run_seed, instance=instance)


@given(st.integers(0, 2**63 - 1), st.integers(0, 100), st.integers(0, 2**30), st.integers(0, 10))
def test_draw_is_a_function_of_seed_instance_position_and_attempt(
    run_seed: int, instance: int, index: int, attempt: int
) -> None:
    drawn = _sampler(run_seed=run_seed, instance=instance).draw(index, attempt)
    other = _sampler(run_seed=run_seed, instance=instance)
    other.draw(index + 1, attempt)
    assert other.draw(index, attempt) == drawn
    assert (drawn.index, drawn.attempt, drawn.split) == (index, attempt, Split.TRAIN)
    assert drawn.task in TASKS


SCRIPT = """
from reasoning_env.tasks.sampling import UniformSampler, evaluation_spec
tasks = ("chain_sum", "composite", "maze", "sudoku")
sampler = UniformSampler(tasks, tasks, run_seed=42, instance=3)
print([sampler.draw(index, attempt) for index in range(50) for attempt in range(3)])
print([evaluation_spec(task, sample, 0, run_seed=123) for task in tasks for sample in range(5)])
"""


def test_draws_are_the_same_in_every_process() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(reasoning_env.__file__).parents[1])},
            capture_output=True,
            check=True,
            timeout=100,
        ).stdout
        for seed in ("0", "1", "random")
    }
    assert len(outputs) == 1
    assert b"ProblemSpec" in outputs.pop()


@pytest.mark.parametrize("count", [4, 25])
def test_every_task_is_drawn_with_the_same_chance(count: int) -> None:
    tasks = tuple(f"task_{number}" for number in range(count))
    sampler = UniformSampler(tasks, tasks, run_seed=7)
    drawn = Counter(sampler.draw(index, 0).task for index in range(5000))
    expected = 5000 / count
    chi_square = sum((drawn[task] - expected) ** 2 / expected for task in tasks)
    assert chi_square < CHI_SQUARE_999[count - 1]


@pytest.mark.parametrize("other", [{"run_seed": 43}, {"instance": 1}])
def test_other_runs_and_instances_draw_in_another_order(other: dict[str, int]) -> None:
    first = [_sampler().draw(index, 0).task for index in range(50)]
    second = [_sampler(**other).draw(index, 0).task for index in range(50)]
    assert first != second


def test_redraws_choose_the_task_anew() -> None:
    sampler = _sampler()
    assert {sampler.draw(0, attempt).task for attempt in range(50)} == set(TASKS)


def test_redraw_stays_with_the_task_and_the_position() -> None:
    sampler = _sampler()
    spec = sampler.draw(7, 0)
    drawn = [spec]
    for attempt in range(1, 30):
        drawn.append(sampler.redraw(drawn[-1]))
        assert (drawn[-1].task, drawn[-1].index, drawn[-1].attempt) == (spec.task, 7, attempt)
    assert len({spec.seed for spec in drawn}) == len(drawn)


def test_quarantined_task_is_drawn_no_more_and_the_attempt_tells() -> None:
    before = [_sampler().draw(index, 0) for index in range(100)]
    sampler = _sampler()
    sampler.quarantine("maze")
    after = [sampler.draw(index, 0) for index in range(100)]
    assert {spec.task for spec in after} == set(TASKS) - {"maze"}
    for old, new in zip(before, after, strict=True):
        assert new == old if old.task != "maze" else new.attempt > 0


def test_quarantine_of_every_task_raises() -> None:
    sampler = _sampler(("maze", "sudoku"))
    sampler.quarantine("maze")
    sampler.quarantine("sudoku")
    with pytest.raises(GenerationError, match="every selected task is quarantined"):
        sampler.draw(0, 0)


def test_quarantine_of_a_task_that_was_not_selected_changes_nothing() -> None:
    sampler = _sampler(("maze",))
    sampler.quarantine("sudoku")
    assert sampler.draw(0, 0).task == "maze"


def test_composite_carries_its_members_and_others_carry_nothing() -> None:
    params = task_params(("chain_sum", "composite", "maze"), TASKS)
    assert params == {"composite": {"datasets": [{"name": "chain_sum"}, {"name": "maze"}]}}
    assert task_params(("chain_sum", "maze"), TASKS) == {}


def test_drawn_composite_carries_its_members() -> None:
    sampler = UniformSampler(("composite",), ("composite", "maze"), run_seed=1)
    assert sampler.draw(0, 0).params == {"datasets": [{"name": "maze"}]}


@given(st.sampled_from(TASKS), st.integers(0, 1000), st.integers(0, 2), st.integers(0, 2**63 - 1))
def test_evaluation_spec_is_of_the_evaluation_split(task: str, sample: int, attempt: int, run_seed: int) -> None:
    spec = evaluation_spec(task, sample, attempt, run_seed=run_seed)
    assert (spec.task, spec.index, spec.attempt, spec.split) == (task, sample, attempt, Split.EVAL)
    assert spec.seed >= 2**31


def test_evaluation_samples_and_redraws_differ() -> None:
    seeds = {
        evaluation_spec(task, sample, attempt, run_seed=123).seed
        for task in TASKS
        for sample in range(20)
        for attempt in range(3)
    }
    assert len(seeds) == len(TASKS) * 20 * 3


def test_evaluation_seed_does_not_depend_on_the_parameters() -> None:
    plain = evaluation_spec("composite", 0, 0, run_seed=123)
    composed = evaluation_spec("composite", 0, 0, run_seed=123, params={"datasets": [{"name": "maze"}]})
    assert plain.seed == composed.seed
    assert composed.params == {"datasets": [{"name": "maze"}]}
