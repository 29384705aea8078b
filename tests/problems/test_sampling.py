from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasoning_env.errors import GenerationError
from reasoning_env.problems.estimator import SignalEstimator
from reasoning_env.problems.sampling import TaskSampler, pick
from reasoning_env.records import ProblemSpec, Split

TASKS = ("chain_sum", "maze", "sudoku", "word_ladder")
EVEN = dict.fromkeys(TASKS, 1.0)
SIZE = 8


def make_sampler(weights: Mapping[str, float] = EVEN, **options: Any) -> TaskSampler:
    return TaskSampler(weights, **{"run_seed": 42, "random_levels": True, **options})


def make_learning_sampler(
    weights: Mapping[str, float] = EVEN,
    adjustable: tuple[str, ...] = TASKS[:3],
    *,
    group_size: int = SIZE,
    adaptive: bool = True,
    state: Any = None,
    **options: Any,
) -> TaskSampler:
    """Return a sampler with adaptive sampling, and with a curriculum for the adjustable tasks."""
    estimator = SignalEstimator(adjustable=adjustable, group_size=group_size, target=0.7, state=state)
    return make_sampler(weights, random_levels=False, estimator=estimator, adaptive=adaptive, **options)


def serve(
    sampler: TaskSampler, positions: range, right: Callable[[ProblemSpec], int], ahead: int = 0
) -> list[ProblemSpec]:
    """Sample positions, and observe each after `ahead` further positions were sampled."""
    drawn: list[ProblemSpec] = []
    for place, index in enumerate(positions):
        drawn.append(sampler.draw(index, 0))
        if place >= ahead:
            spec = drawn[place - ahead]
            scores = [1.0] * right(spec) + [0.0] * (SIZE - right(spec))
            sampler.observe(spec.task, spec.level, scores)
    return drawn


def luck(spec: ProblemSpec) -> int:
    """Return scores that depend only on the spec."""
    return random.Random(spec.seed).randint(0, SIZE)


# ---------------------------------------------------------------------------- sampling without estimates


@given(st.integers(0, 2**63 - 1), st.integers(0, 100), st.integers(0, 2**30), st.integers(0, 10))
def test_task_and_seed_sampled_for_a_problem_index_are_reproducible(
    run_seed: int, instance: int, index: int, attempt: int
) -> None:
    drawn = make_sampler(run_seed=run_seed, instance=instance).draw(index, attempt)
    other = make_sampler(run_seed=run_seed, instance=instance)
    other.draw(index + 1, attempt)
    assert other.draw(index, attempt) == drawn
    assert (drawn.index, drawn.attempt, drawn.split) == (index, attempt, Split.TRAIN)


@pytest.mark.parametrize(
    ("options", "index", "attempt"),
    [({"run_seed": 43}, 5, 0), ({"instance": 1}, 5, 0), ({}, 6, 0), ({}, 5, 1)],
    ids=["another seed", "another instance", "another position", "another attempt"],
)
def test_each_input_of_the_sampler_changes_the_sampled_seed_and_level(
    options: dict[str, int], index: int, attempt: int
) -> None:
    first, other = make_sampler().draw(5, 0), make_sampler(**options).draw(index, attempt)
    assert other.seed != first.seed
    assert other.level != first.level


def test_sampler_draws_the_tasks_recorded_in_this_test() -> None:
    """If the sampling changes, every user gets different training problems."""
    drawn = [make_sampler(instance=3).draw(index, 0).task for index in range(6)]
    assert drawn == ["word_ladder", "chain_sum", "chain_sum", "chain_sum", "chain_sum", "chain_sum"]


def test_sampled_tasks_follow_task_weights() -> None:
    weights = {"chain_sum": 1.0, "maze": 3.0, "sudoku": 0.0, "word_ladder": 0.5}
    sampler = make_sampler(weights)
    drawn = Counter(sampler.draw(index, 0).task for index in range(4500))
    assert drawn["sudoku"] == 0
    assert all(drawn[task] == pytest.approx(1000 * weight, abs=120) for task, weight in weights.items())


def test_random_levels_are_uniformly_distributed() -> None:
    levels = [make_sampler().draw(index, 0).level or 0.0 for index in range(2000)]
    counts = Counter(int(4 * level) for level in levels)
    assert all(420 < counts[quarter] < 580 for quarter in range(4))


@pytest.mark.parametrize("level", [None, 0.0, 0.3])
def test_fixed_level_applies_to_all_sampled_problems(level: float | None) -> None:
    sampler = make_sampler(random_levels=False, level=level)
    assert {sampler.draw(index, 0).level for index in range(20)} == {level}


def test_sampled_problem_has_the_params_of_its_task() -> None:
    sampler = make_sampler({"maze": 1.0}, params={"maze": {"min_dist": 2}, "sudoku": {"min_empty": 3}})
    assert sampler.draw(0, 0).params == {"min_dist": 2}


def test_repeated_draws_for_one_problem_index_give_different_tasks() -> None:
    assert {make_sampler().draw(0, attempt).task for attempt in range(50)} == set(TASKS)


def test_redrawn_problem_spec_differs_only_in_seed_and_attempt() -> None:
    sampler = make_sampler()
    drawn = [sampler.draw(7, 0)]
    for attempt in range(1, 30):
        drawn.append(sampler.redraw(drawn[-1]))
        assert drawn[-1] == replace(drawn[0].with_request(seed=drawn[-1].seed), attempt=attempt)
    assert len({spec.seed for spec in drawn}) == len(drawn)


@pytest.mark.parametrize("make", [make_sampler, make_learning_sampler])
def test_quarantined_task_is_not_sampled(make: Callable[[], TaskSampler]) -> None:
    sampler = make()
    sampler.quarantine("maze")
    assert {sampler.draw(index, 0).task for index in range(100)} == set(TASKS) - {"maze"}


@pytest.mark.parametrize("make", [make_sampler, make_learning_sampler])
def test_sampling_raises_if_every_task_is_quarantined(make: Callable[[], TaskSampler]) -> None:
    sampler = make()
    for task in TASKS:
        sampler.quarantine(task)
    with pytest.raises(GenerationError, match="quarantined"):
        sampler.draw(0, 0)
    assert all(row.share == 0.0 for row in sampler.report().values())


# ---------------------------------------------------------------------------- sampling with estimates


@pytest.mark.parametrize("adaptive", [True, False])
def test_restored_sampler_continues_exactly_like_the_original(adaptive: bool) -> None:
    sampler = make_learning_sampler(adaptive=adaptive)
    serve(sampler, range(100), luck)
    resumed = make_learning_sampler(adaptive=adaptive, state=json.loads(json.dumps(sampler.state())))
    assert serve(resumed, range(100, 200), luck) == serve(sampler, range(100, 200), luck)
    assert resumed.state() == sampler.state()


def test_task_with_unequal_scores_in_its_groups_is_sampled_more_often() -> None:
    tasks = [f"task_{number}" for number in range(25)]
    sampler = make_learning_sampler(dict.fromkeys(tasks, 1.0), adjustable=())
    serve(sampler, range(2000), lambda spec: 4 if spec.task == "task_7" else 0, ahead=100)
    report = sampler.report()
    assert report["task_7"].share > 0.4
    assert sum(row.share for row in report.values()) == pytest.approx(1.0)


def test_task_with_equal_scores_in_every_group_is_still_drawn_at_a_minimum_rate() -> None:
    sampler = make_learning_sampler()
    drawn = serve(sampler, range(600), lambda spec: 4 if spec.task == "sudoku" else 0)
    assert min(row.share for row in sampler.report().values()) >= TaskSampler.EVEN_SHARE / len(TASKS)
    counts = Counter(spec.task for spec in drawn)
    assert min(counts[task] for task in TASKS) >= 0.8 * TaskSampler.EVEN_SHARE * 600 / len(TASKS)


def test_adaptive_sampling_draws_tasks_uniformly_if_the_group_size_is_1() -> None:
    sampler = make_learning_sampler(group_size=1)
    assert {row.share for row in sampler.report().values()} == {0.25}


def test_tasks_are_sampled_uniformly_if_task_sampling_is_not_adaptive() -> None:
    sampler = make_learning_sampler(adaptive=False)
    serve(sampler, range(200), lambda spec: 4 if spec.task == "sudoku" else 0)
    assert {row.share for row in sampler.report().values()} == {0.25}


def test_only_adjustable_tasks_get_levels_from_the_curriculum() -> None:
    sampler = make_learning_sampler({"chain_sum": 1.0, "maze": 1.0}, adjustable=("maze",))
    drawn = serve(sampler, range(100), lambda _: SIZE)
    assert {spec.level is None for spec in drawn if spec.task == "maze"} == {False}
    assert {spec.level for spec in drawn if spec.task == "chain_sum"} == {None}
    assert sampler.report()["chain_sum"].level is None


def test_curriculum_learns_from_the_served_not_the_requested_level() -> None:
    """Level 1 was requested, but level 0.2 was served. The result must lower the estimate at 0.2."""
    asked, served = make_learning_sampler(), make_learning_sampler()
    spec = asked.draw(0, 0).with_request(task="maze", level=1.0)
    for sampler, level in ((asked, 1.0), (served, 0.2)):
        for _ in range(10):
            sampler.observe(spec.task, level, [0.0] * SIZE)
    levels = [sampler.report()["maze"].level or 0.0 for sampler in (asked, served)]
    assert levels[1] < levels[0]


# ---------------------------------------------------------------------------- parts


@given(
    st.dictionaries(st.text(max_size=3), st.floats(0.001, 1e6), min_size=1, max_size=20),
    st.floats(0.0, 1.0, exclude_max=True),
)
def test_weighted_choice_returns_an_item_for_every_random_number(weights: dict[str, float], number: float) -> None:
    assert pick(weights, number) in weights


def test_random_levels_stay_below_every_excluded_level_of_a_task() -> None:
    sampler = make_sampler()
    sampler.exclude_levels("maze", 0.5)
    sampler.exclude_levels("maze", 0.75)
    specs = [sampler.draw(index, 0) for index in range(200)]
    assert 0.4 < max(spec.level or 0.0 for spec in specs if spec.task == "maze") < 0.5 - 1 / 32
    assert max(spec.level or 0.0 for spec in specs if spec.task != "maze") > 0.9


def test_redrawn_problem_spec_avoids_excluded_levels() -> None:
    sampler = make_sampler({"a": 1.0})
    spec = next(spec for spec in (sampler.draw(index, 0) for index in range(50)) if (spec.level or 0.0) > 0.6)
    assert sampler.redraw(spec).level == spec.level
    sampler.exclude_levels("a", 0.5)
    assert (sampler.redraw(spec).level or 0.0) < 0.5
