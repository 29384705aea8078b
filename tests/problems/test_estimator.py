"""Estimate pass rates by task and level, tested with simulated learners."""

from __future__ import annotations

import json
import math
import random
import statistics
from collections import deque
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reasoning_env.problems.estimator import SignalEstimator
from reasoning_env.records import LEVEL_STEPS

TARGET = 0.7
SIZE = 8
Chance = Callable[[float], float]


def make_estimator(**fields: object) -> SignalEstimator:
    options = {"adjustable": ["task"], "group_size": SIZE, "target": TARGET, **fields}
    return SignalEstimator(**options)  # type: ignore[arg-type]


def logistic(best: float, slope: float = 8.0, target: float = TARGET) -> Chance:
    """Return the pass rate of a learner whose pass rate is the target at level `best`."""
    return lambda level: 1.0 / (1.0 + math.exp(slope * (level - best)) * (1.0 - target) / target)


def scores_of(right: int, size: int = SIZE) -> list[float]:
    return [1.0] * right + [0.0] * (size - right)


def draw_level(estimator: SignalEstimator, chances: random.Random) -> float:
    estimate = estimator.estimate("task")
    [level] = chances.choices(estimate.levels, estimate.weights)
    assert level is not None
    return level


def serve(estimator: SignalEstimator, chance: Chance, groups: int, *, delay: int = 0) -> list[float]:
    """Observe a learner's groups, each one `delay` groups late; return the mean level before each group."""
    random_state = random.Random(0)
    means: list[float] = []
    unseen: deque[float] = deque()
    for _ in range(groups):
        means.append(estimator.estimate("task").level or 0.0)
        unseen.append(draw_level(estimator, random_state))
        if len(unseen) > delay:
            level = unseen.popleft()
            right = sum(random_state.random() < chance(level) for _ in range(SIZE))
            estimator.observe("task", level, scores_of(right))
    return means


def served_pass_rate(estimator: SignalEstimator, chance: Chance) -> float:
    """Return the true mean pass rate at the levels that the curriculum would sample."""
    estimate = estimator.estimate("task")
    return sum(weight * chance(level or 0.0) for level, weight in zip(estimate.levels, estimate.weights, strict=True))


# ---------------------------------------------------------------------------- levels


@pytest.mark.parametrize("target", [0.5, 0.7, 0.85])
@pytest.mark.parametrize("best", [0.2, 0.5, 0.8])
def test_curriculum_pass_rate_converges_to_the_target(target: float, best: float) -> None:
    estimator, chance = make_estimator(target=target), logistic(best, target=target)
    serve(estimator, chance, 100)
    assert served_pass_rate(estimator, chance) == pytest.approx(target, abs=0.13)


def test_estimated_pass_rates_fall_as_the_level_rises() -> None:
    estimator = make_estimator()
    serve(estimator, logistic(0.5), 50)
    rates = estimator.estimate("task").pass_rates
    assert list(rates) == sorted(rates, reverse=True)


@pytest.mark.parametrize("best", [0.1, 0.9])
def test_curriculum_levels_do_not_oscillate(best: float) -> None:
    means = serve(make_estimator(), logistic(best), 300, delay=64)[150:]
    assert statistics.pstdev(means) < 0.05


def test_delayed_scores_do_not_bias_curriculum_levels() -> None:
    at_once, late = (make_estimator(), make_estimator())
    serve(at_once, logistic(0.6), 300)
    serve(late, logistic(0.6), 300, delay=64)
    assert late.estimate("task").level == pytest.approx(at_once.estimate("task").level, abs=0.1)


def test_model_that_solves_nothing_gets_the_lowest_levels() -> None:
    estimator = make_estimator()
    serve(estimator, lambda _: 0.0, 100)
    assert (estimator.estimate("task").level or 0.0) < 0.1


def test_model_that_solves_everything_gets_the_highest_levels() -> None:
    estimator = make_estimator()
    serve(estimator, lambda _: 1.0, 100)
    assert (estimator.estimate("task").level or 0.0) > 0.8


def test_curriculum_levels_follow_sudden_progress() -> None:
    estimator = make_estimator()
    serve(estimator, logistic(0.2), 100)
    serve(estimator, logistic(0.8), 60)
    assert estimator.estimate("task").level == pytest.approx(0.75, abs=0.12)


def test_curriculum_levels_are_spread_around_the_best_level() -> None:
    """Groups at levels near the best level also have unequal scores, so the learner learns from them."""
    estimator = make_estimator()
    serve(estimator, logistic(0.5), 100)
    weights = sorted(estimator.estimate("task").weights, reverse=True)
    assert weights[0] < 0.4 and sum(weights[:8]) > 0.8


def test_scores_at_two_close_levels_change_the_same_estimate() -> None:
    first, second = make_estimator(), make_estimator()
    first.observe("task", 0.26, scores_of(3))
    second.observe("task", 0.25, scores_of(3))
    assert first.state() == second.state()


# ---------------------------------------------------------------------------- the probability of unequal scores


@pytest.mark.parametrize("rate", [0.02, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("size", [4, 16])
def test_estimated_probability_of_unequal_scores_converges(rate: float, size: int) -> None:
    random_state = random.Random(0)
    estimator = make_estimator(adjustable=(), group_size=size)
    chances = []
    for _ in range(400):
        estimator.observe("task", None, scores_of(sum(random_state.random() < rate for _ in range(size)), size))
        chances.append(estimator.estimate("task").signal_chance)
    assert statistics.mean(chances) == pytest.approx(1 - rate**size - (1 - rate) ** size, abs=0.07)


def test_new_task_starts_with_a_high_estimated_chance_of_unequal_scores() -> None:
    assert make_estimator().estimate("task").signal_chance > 0.8


def test_unequal_partial_credit_is_treated_as_unequal_scores() -> None:
    estimator = make_estimator(adjustable=())
    for _ in range(20):
        estimator.observe("task", None, [0.01] * (SIZE - 1) + [0.02])
    assert estimator.estimate("task").signal_chance > 0.8


def test_estimated_chance_of_unequal_scores_falls_after_groups_with_equal_scores() -> None:
    estimator = make_estimator(adjustable=())
    for number in range(40):
        estimator.observe("task", None, scores_of(SIZE * (number % 2)))
    assert estimator.estimate("task").signal_chance < 0.2


def test_older_groups_have_less_weight_in_the_estimate() -> None:
    estimator = make_estimator(adjustable=())
    for _ in range(200):
        estimator.observe("task", None, scores_of(0))
    assert estimator.estimate("task").signal_chance < 0.1
    for _ in range(16):
        estimator.observe("task", None, scores_of(4))
    assert estimator.estimate("task").signal_chance > 0.5


def test_group_of_a_task_does_not_change_estimates_of_other_tasks() -> None:
    estimator = make_estimator()
    before = estimator.estimate("task")
    estimator.observe("other", None, scores_of(0))
    assert estimator.estimate("task") == before


# ---------------------------------------------------------------------------- state


@pytest.mark.parametrize("adjustable", [["task"], []])
def test_restored_state_ignores_levels_that_no_longer_exist(adjustable: list[str]) -> None:
    """A run that resumes with a different `complexity_mode` has different levels."""
    estimator = make_estimator(adjustable=["task"] if not adjustable else [])
    estimator.observe("task", 0.5, scores_of(3))
    restored = make_estimator(adjustable=adjustable, state=estimator.state())
    assert restored.estimate("task") == make_estimator(adjustable=adjustable).estimate("task")


@settings(max_examples=40)
@given(st.lists(st.tuples(st.floats(0.0, 1.0), st.lists(st.floats(0.0, 1.0), min_size=1, max_size=64)), max_size=30))
def test_estimator_state_can_be_stored_as_json(groups: list[tuple[float, list[float]]]) -> None:
    estimator = make_estimator()
    for level, scores in groups:
        estimator.observe("task", level, scores)
    estimate = estimator.estimate("task")
    assert sum(estimate.weights) == pytest.approx(1.0)
    assert all(0.0 < rate < 1.0 for rate in estimate.pass_rates)
    assert all(0.0 <= chance <= 1.0 for chance in estimate.signal_chances)
    json.dumps(estimator.state(), allow_nan=False)


def test_levels_excluded_by_an_upper_bound_get_no_sampling_weight() -> None:
    estimate = SignalEstimator(adjustable={"a"}, group_size=4, target=0.7).estimate("a").below(0.5)
    assert max(level or 0.0 for level in estimate.levels) == 0.5 - 1 / LEVEL_STEPS
    assert math.fsum(estimate.weights) == pytest.approx(1.0)


def test_level_with_few_questions_is_sampled_less() -> None:
    few = make_estimator(questions={("task", 0.5): 10})
    many = make_estimator()
    for estimator in (few, many):
        for _ in range(30):
            estimator.observe("task", 0.5, scores_of(5))
    lowered, whole = few.estimate("task"), many.estimate("task")
    arm = whole.levels.index(0.5)
    assert lowered.novelties[arm] == pytest.approx(1 / 4)
    odds = lowered.weights[arm] / lowered.weights[arm + 1]
    assert odds == pytest.approx(whole.weights[arm] / whole.weights[arm + 1] / 4)
    assert lowered.pass_rates == whole.pass_rates


def test_model_that_is_right_only_at_level_0_gets_no_harder_levels() -> None:
    """A learner that is only right at level 0 gets no harder levels."""
    estimator = make_estimator(questions={("task", 0.0): 68})
    serve(estimator, logistic(0.0, slope=20.0), 400)
    assert (estimator.estimate("task").level or 0.0) < 0.2
