from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasoning_env.errors import GenerationError
from reasoning_env.records import Split
from reasoning_env.tasks.parameters import SpecRules
from reasoning_env.tasks.sampling import UniformSampler, composite_params, evaluation_spec

TASKS = ("chain_sum", "maze", "sudoku", "word_ladder")
CHI_SQUARE_999 = {3: 16.27, 24: 51.18}
"""The value that chi-square exceeds once in 1000 times, by degrees of freedom."""


def make_sampler(tasks: tuple[str, ...] = TASKS, run_seed: int = 42, instance: int = 0) -> UniformSampler:
    params = {task: {"size": {"low": 0, "high": 10**9}} for task in tasks}
    return UniformSampler(tasks, TASKS, SpecRules(run_seed, instance, params, random_levels=True))


@given(st.integers(0, 2**63 - 1), st.integers(0, 100), st.integers(0, 2**30), st.integers(0, 10))
def test_draw_with_parameters_and_level_is_a_function_of_seed_instance_position_and_attempt(
    run_seed: int, instance: int, index: int, attempt: int
) -> None:
    drawn = make_sampler(run_seed=run_seed, instance=instance).draw(index, attempt)
    other = make_sampler(run_seed=run_seed, instance=instance)
    other.draw(index + 1, attempt)
    assert other.draw(index, attempt) == drawn
    assert (drawn.index, drawn.attempt, drawn.split) == (index, attempt, Split.TRAIN)
    assert drawn.task in TASKS
    assert drawn.level is not None and type(drawn.params["size"]) is int


def test_tasks_are_the_same_in_every_process_for_ever() -> None:
    """Like the seeds, which follow from the same hash: a change gives every user other training problems."""
    drawn = [make_sampler(instance=3).draw(index, 0).task for index in range(6)]
    assert drawn == ["sudoku", "chain_sum", "chain_sum", "sudoku", "word_ladder", "maze"]


@pytest.mark.parametrize("count", [4, 25])
def test_every_task_is_drawn_with_the_same_chance(count: int) -> None:
    tasks = tuple(f"task_{number}" for number in range(count))
    sampler = make_sampler(tasks, run_seed=7)
    drawn = Counter(sampler.draw(index, 0).task for index in range(5000))
    expected = 5000 / count
    assert sum((drawn[task] - expected) ** 2 / expected for task in tasks) < CHI_SQUARE_999[count - 1]


def test_another_attempt_chooses_the_task_anew_and_a_redraw_keeps_all_but_the_seed() -> None:
    sampler = make_sampler()
    assert {sampler.draw(0, attempt).task for attempt in range(50)} == set(TASKS)
    drawn = [sampler.draw(7, 0)]
    for attempt in range(1, 30):
        drawn.append(sampler.redraw(drawn[-1]))
        assert drawn[-1] == replace(drawn[0], seed=drawn[-1].seed, attempt=attempt)
    assert len({spec.seed for spec in drawn}) == len(drawn)


def test_quarantined_task_is_drawn_no_more_and_the_attempt_tells() -> None:
    sampler = make_sampler()
    before = [sampler.draw(index, 0) for index in range(100)]
    sampler.quarantine("maze")
    after = [sampler.draw(index, 0) for index in range(100)]
    assert {spec.task for spec in after} == set(TASKS) - {"maze"}
    for old, new in zip(before, after, strict=True):
        assert new == old if old.task != "maze" else new.attempt > 0
    for task in TASKS:
        sampler.quarantine(task)
    with pytest.raises(GenerationError):
        sampler.draw(0, 0)


@pytest.mark.parametrize(
    ("tasks", "members"),
    [
        (("chain_sum", "composite", "maze"), ["chain_sum", "maze"]),
        (("composite",), ["chain_sum", "maze", "sudoku"]),
        (("chain_sum", "maze"), None),
    ],
)
def test_composite_is_made_of_the_other_tasks_or_alone_of_all(
    tasks: tuple[str, ...], members: list[str] | None
) -> None:
    available = ("sudoku", "composite", "maze", "chain_sum")
    expected = {} if members is None else {"composite": {"datasets": [{"name": name} for name in members]}}
    assert composite_params(tasks, available) == expected
    spec = UniformSampler(tasks, available, SpecRules(1)).draw(0, 0)
    assert spec.params == expected.get(spec.task, {})


@given(st.sampled_from(TASKS), st.integers(0, 1000), st.integers(0, 2), st.integers(0, 2**63 - 1))
def test_evaluation_spec_is_of_the_evaluation_split_and_its_seed_knows_no_params(
    task: str, sample: int, attempt: int, run_seed: int
) -> None:
    spec = evaluation_spec(task, sample, attempt, run_seed=run_seed)
    assert (spec.task, spec.index, spec.attempt, spec.split, spec.params) == (task, sample, attempt, Split.EVAL, {})
    assert spec.seed >= 2**31
    assert evaluation_spec(task, sample, attempt, run_seed=run_seed, params={"a": 1}).seed == spec.seed


def test_evaluation_samples_and_redraws_differ() -> None:
    seeds = {
        evaluation_spec(task, sample, attempt, run_seed=123).seed
        for task in TASKS
        for sample in range(20)
        for attempt in range(3)
    }
    assert len(seeds) == len(TASKS) * 20 * 3
