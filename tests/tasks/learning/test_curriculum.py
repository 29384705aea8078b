from __future__ import annotations

import itertools
import json
import math
import random
import statistics
from collections import deque
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasoning_env.tasks.learning.curriculum import Curriculum

TARGET = 0.7
NEAR = 0.1
Chance = Callable[[float], float]


def logistic(best: float, slope: float = 6.0, target: float = TARGET) -> Chance:
    """The chance of success of a learner that is at the target at level `best`."""
    return lambda level: 1.0 / (1.0 + math.exp(slope * (level - best)) * (1.0 - target) / target)


def serve(
    curriculum: Curriculum,
    chance: Chance,
    groups: int,
    *,
    size: int = 8,
    delay: int = 0,
    served: Callable[[float], float] = lambda level: level,
    seed: int = 0,
) -> list[float]:
    """The levels that were served, with groups observed `delay` groups late."""
    random_state = random.Random(seed)
    levels: list[float] = []
    unseen: deque[tuple[float, int]] = deque()
    for _ in range(groups):
        levels.append(served(curriculum.level("task")))
        unseen.append((levels[-1], sum(random_state.random() < chance(levels[-1]) for _ in range(size))))
        if len(unseen) > delay:
            level, successes = unseen.popleft()
            curriculum.observe("task", level, successes, size, under_way=len(unseen))
    return levels


def errors_of(levels: list[float], chance: Chance) -> list[float]:
    return [abs(chance(level) - TARGET) for level in levels]


@pytest.mark.parametrize("start", [0.0, 0.3, 1.0])
def test_level_before_any_group_is_the_start(start: float) -> None:
    assert Curriculum(TARGET, start=start).level("task") == start


@pytest.mark.parametrize("target", [0.5, 0.7, 0.9])
@pytest.mark.parametrize("best", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("slope", [3.0, 8.0, 20.0])
def test_level_of_the_target_is_found_where_groups_have_no_noise(target: float, best: float, slope: float) -> None:
    chance = logistic(best, slope, target)
    curriculum = Curriculum(target)
    for _ in range(100):
        level = curriculum.level("task")
        curriculum.observe("task", level, 8 * chance(level), 8)
    assert chance(curriculum.level("task")) == pytest.approx(target, abs=0.02)


@pytest.mark.parametrize(("best", "slope"), [(0.5, 6.0), (0.1, 6.0), (0.9, 6.0), (0.5, 20.0), (0.5, 2.0)])
def test_band_reaches_from_where_most_is_right_to_where_little_is(best: float, slope: float) -> None:
    chance = logistic(best, slope)
    curriculum = Curriculum(TARGET)
    shares = itertools.cycle([0.0, 0.25, 0.5, 0.75, 1.0])
    for _ in range(400):
        low, high = curriculum.band("task")
        level = low + next(shares) * (high - low)
        curriculum.observe("task", level, 8 * chance(level), 8)
    low, high = curriculum.band("task")
    assert low == 0.0 or 0.9 < chance(low) < 0.99
    assert high == 1.0 or 0.15 < chance(high) < 0.35


@pytest.mark.parametrize("best", [0.1, 0.55, 0.8])
@pytest.mark.parametrize("slope", [6.0, 20.0])
def test_late_feedback_does_not_make_the_level_swing(best: float, slope: float) -> None:
    levels = serve(Curriculum(TARGET), logistic(best, slope), 900, delay=64)[450:]
    assert statistics.mean(levels) == pytest.approx(best, abs=0.03)
    assert statistics.pstdev(levels) < 0.035


def test_order_of_observations_matters_little() -> None:
    random_state = random.Random(0)
    levels = [random_state.random() for _ in range(40)]
    groups = [(level, sum(random_state.random() < logistic(0.6)(level) for _ in range(16))) for level in levels]
    found = []
    for _ in range(5):
        curriculum = Curriculum(TARGET, memory_groups=40)
        for level, successes in groups:
            curriculum.observe("task", level, successes, 16)
        found.append(curriculum.level("task"))
        random_state.shuffle(groups)
    assert max(found) - min(found) < 0.12
    assert statistics.mean(found) == pytest.approx(0.6, abs=0.06)


def test_level_that_the_task_gave_counts_and_not_the_one_asked_for() -> None:
    """Served at 0.2 at most, a learner that is at the target at 0.1 is found there; at 0.5, nothing says so."""
    served = serve(Curriculum(TARGET), logistic(0.1), 200, size=64, served=lambda level: min(level, 0.2))
    assert statistics.mean(served[100:]) == pytest.approx(0.1, abs=0.03)
    assert set(serve(Curriculum(TARGET), logistic(0.5), 100, served=lambda level: min(level, 0.2))[10:]) == {0.2}


def test_few_levels_end_at_the_nearest_one() -> None:
    levels = serve(Curriculum(TARGET), logistic(0.52), 100, served=lambda level: round(level * 4) / 4)
    assert levels[40:].count(0.5) >= 55


OUT_OF_REACH: dict[str, tuple[Chance, float]] = {
    "always right": (lambda _: 1.0, 1.0),
    "too easy": (lambda _: 0.97, 1.0),
    "easy at most": (logistic(1.4), 1.0),
    "always wrong": (lambda _: 0.0, 0.0),
    "too hard": (lambda _: 0.02, 0.0),
    "hard at least": (logistic(-0.4), 0.0),
    "plateau": (lambda _: 0.5, 0.0),
    "reversed": (logistic(0.2, -6.0), 1.0),
}


@pytest.mark.parametrize("case", OUT_OF_REACH)
def test_target_out_of_reach_ends_at_the_bound(case: str) -> None:
    chance, bound = OUT_OF_REACH[case]
    assert set(serve(Curriculum(TARGET), chance, 100)[60:]) == {bound}


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_level_returns_soon_however_long_it_was_at_a_bound(share: float) -> None:
    curriculum = Curriculum(TARGET)
    serve(curriculum, lambda _: share, 3000)
    errors = errors_of(serve(curriculum, logistic(0.5), 60), logistic(0.5))
    assert statistics.mean(errors[15:]) < 0.07


@pytest.mark.parametrize(("before", "after"), [(0.2, 0.8), (0.8, 0.2)])
@pytest.mark.parametrize("memory_groups", [20.0, 100.0])
def test_jump_of_the_learner_is_followed_within_a_dozen_groups_whatever_the_memory(
    before: float, after: float, memory_groups: float
) -> None:
    errors = []
    for seed in range(20):
        curriculum = Curriculum(TARGET, memory_groups=memory_groups)
        serve(curriculum, logistic(before), 200, seed=seed)
        errors += errors_of(serve(curriculum, logistic(after), 24, seed=seed), logistic(after))[12:]
    assert statistics.mean(errors) < NEAR


groups = st.tuples(st.floats(0, 1), st.floats(0, 1), st.integers(1, 256), st.integers(0, 300))


@given(st.lists(groups, max_size=60), st.floats(0.05, 0.95), st.floats(2, 1000))
def test_any_observations_leave_a_level_in_range(
    observed: list[tuple[float, float, int, int]], target: float, memory: float
) -> None:
    curriculum = Curriculum(target, memory_groups=memory)
    for level, share, size, under_way in observed:
        curriculum.observe("task", level, min(size, share * size), size, under_way)
        assert 0.0 <= curriculum.level("task") <= 1.0
    json.dumps(curriculum.state(), allow_nan=False)
