from __future__ import annotations

import itertools
import math
import random

import pytest

from reasoning_env.statistics import (
    Interval,
    bootstrap_interval,
    clustered_interval,
    interval_of_means,
    pass_at_k,
    sign_test,
    wilson_interval,
)


def test_interval_covers_the_mean_of_its_population_about_as_often_as_it_says() -> None:
    generator = random.Random(5)
    covered = 0
    for number in range(200):
        interval = bootstrap_interval([float(generator.random() < 0.3) for _ in range(60)], seed=number)
        covered += interval.low <= 0.3 <= interval.high
    assert 180 <= covered <= 199


def test_interval_is_the_same_every_time_and_for_samples_larger_than_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [0.0, 0.25, 1.0] * 20
    first = bootstrap_interval(values)
    assert first == bootstrap_interval(values)
    assert first.low < 1.25 / 3 < first.high
    monkeypatch.setattr("reasoning_env.statistics.DRAWS_AT_ONCE", 10)
    assert bootstrap_interval(values) == first


@pytest.mark.parametrize(
    ("values", "bounds", "expected"),
    [
        # 0.025 ** (1 / 5) and ** (1 / 100): the exact bounds of 5 of 5 and of 0 of 100.
        ([1.0] * 5, (0.0, 1.0), Interval(0.4782, 1.0)),
        ([0.0] * 100, (0.0, 1.0), Interval(0.0, 0.0362)),
        ([0.0] * 5, (-1.0, 1.0), Interval(-0.5218, 0.5218)),
    ],
)
def test_equal_values_do_not_give_an_interval_without_width(
    values: list[float], bounds: tuple[float, float], expected: Interval
) -> None:
    interval = bootstrap_interval(values, bounds=bounds)
    assert interval == pytest.approx(expected, abs=1e-4)


def test_means_that_are_equal_by_chance_have_the_interval_that_their_own_allow() -> None:
    equal, apart = (interval_of_means(means, [(0.4, 0.8)] * 2) for means in ([0.6, 0.6], [0.59, 0.61]))
    assert equal == pytest.approx(apart, abs=0.01)
    assert interval_of_means([1.0] * 2, [(0.7, 1.0)] * 2) == pytest.approx((0.1581, 1.0), abs=1e-4)


@pytest.mark.parametrize(
    ("mean", "count", "expected"), [(0.0, 10, (0.0, 0.2775)), (0.5, 4, (0.15, 0.85)), (1.0, 1, (0.2065, 1.0))]
)
def test_wilson_interval_is_known_from_the_mean_alone(mean: float, count: int, expected: tuple[float, float]) -> None:
    assert wilson_interval(mean, count) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    ("means", "independent"),
    [([0.0, 1.0] * 10, 20), ([0.5] * 20, 160), ([0.5] * 8, 8), ([1.0] * 20, 20)],
    ids=["as unequal as can be", "all alike", "too few to tell", "all right"],
)
def test_values_of_groups_count_for_as_many_independent_ones_as_the_groups_means_tell(
    means: list[float], independent: int
) -> None:
    mean, squares = sum(means) / len(means), sum(value**2 for value in means)
    interval = clustered_interval(mean, squares, groups=len(means), count=8 * len(means))
    assert interval == pytest.approx(wilson_interval(mean, independent))


@pytest.mark.parametrize(("n", "correct"), [(1, 0), (1, 1), (5, 2), (6, 6), (7, 0)])
def test_pass_at_k_is_the_share_of_choices_with_a_right_one(n: int, correct: int) -> None:
    completions = [number < correct for number in range(n)]
    for k in range(1, n + 1):
        choices = list(itertools.combinations(completions, k))
        assert pass_at_k(n, correct, k) == pytest.approx(sum(map(any, choices)) / len(choices))


@pytest.mark.parametrize(("n", "correct", "k"), [(2, 1, 3), (2, 1, 0), (2, 3, 1), (2, -1, 1)])
def test_pass_at_k_that_cannot_be_told_is_refused(n: int, correct: int, k: int) -> None:
    with pytest.raises(ValueError, match=f"@{k} .*{correct} .*{n}$"):
        pass_at_k(n, correct, k)


@pytest.mark.parametrize(("wins", "losses"), [(0, 0), (1, 0), (3, 3), (9, 1), (2, 8), (15, 5)])
def test_sign_test_counts_the_tosses_that_are_as_uneven(wins: int, losses: int) -> None:
    tosses, uneven = wins + losses, abs(wins - losses)
    as_uneven = sum(math.comb(tosses, heads) for heads in range(tosses + 1) if abs(2 * heads - tosses) >= uneven)
    assert sign_test(wins, losses) == pytest.approx(as_uneven / 2**tosses)
