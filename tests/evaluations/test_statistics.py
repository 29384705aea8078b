from __future__ import annotations

import itertools
import random

import pytest

from reasoning_env.evaluations.comparison import paired_test
from reasoning_env.evaluations.summary import Interval, bootstrap_interval, interval_of_means, pass_at_k


@pytest.mark.parametrize("size", [60, 1000])
def test_bootstrap_intervals_contain_the_true_mean_in_about_95_percent_of_samples(size: int) -> None:
    generator = random.Random(5)
    covered = 0
    for _ in range(100):
        interval = bootstrap_interval([float(generator.random() < 0.3) for _ in range(size)])
        if interval.low <= 0.3 <= interval.high:
            covered += 1
    assert 90 <= covered <= 99


def test_bootstrap_interval_does_not_depend_on_the_order_of_values() -> None:
    values = [0.0, 0.25, 1.0] * 20
    assert bootstrap_interval(values) == bootstrap_interval(sorted(values, reverse=True))


def test_approximated_interval_of_many_values_is_close_to_the_bootstrap_interval() -> None:
    values = [0.0, 0.25, 1.0] * 400
    bootstrap = bootstrap_interval(values, many=2 * len(values))
    assert bootstrap_interval(values) == pytest.approx(bootstrap, abs=0.002)


@pytest.mark.parametrize(
    ("values", "bounds", "expected"),
    [
        # The exact bounds of 5 of 5 and of 0 of 100 are 0.025 ** (1 / 5) and 1 - 0.025 ** (1 / 100).
        ([1.0] * 5, (0.0, 1.0), Interval(0.4782, 1.0)),
        ([0.0] * 100, (0.0, 1.0), Interval(0.0, 0.0362)),
        ([0.0] * 5, (-1.0, 1.0), Interval(-0.5218, 0.5218)),
    ],
)
def test_confidence_interval_of_equal_values_has_the_exact_binomial_bounds(
    values: list[float], bounds: tuple[float, float], expected: Interval
) -> None:
    interval = bootstrap_interval(values, bounds=bounds)
    assert interval == pytest.approx(expected, abs=1e-4)


def test_equal_and_nearly_equal_task_means_give_similar_confidence_intervals() -> None:
    equal, apart = (interval_of_means(means, [(0.4, 0.8)] * 2) for means in ([0.6, 0.6], [0.59, 0.61]))
    assert equal == pytest.approx(apart, abs=0.01)
    assert interval_of_means([1.0] * 2, [(0.7, 1.0)] * 2) == pytest.approx((0.1581, 1.0), abs=1e-4)


@pytest.mark.parametrize(("n", "correct"), [(1, 0), (1, 1), (5, 2), (6, 6), (7, 0)])
def test_pass_at_k_is_unbiased(n: int, correct: int) -> None:
    completions = [number < correct for number in range(n)]
    for k in range(1, n + 1):
        choices = list(itertools.combinations(completions, k))
        assert pass_at_k(n, correct, k) == pytest.approx(sum(map(any, choices)) / len(choices))


@pytest.mark.parametrize(("n", "correct", "k"), [(2, 1, 3), (2, 1, 0), (2, 3, 1), (2, -1, 1)])
def test_pass_at_k_raises_if_an_argument_is_out_of_range(n: int, correct: int, k: int) -> None:
    with pytest.raises(ValueError, match=f"@{k} .*{correct} .*{n}$"):
        pass_at_k(n, correct, k)


def signs_tried(changes: list[float]) -> float:
    """Return the share of all sign choices whose mean is at least as far from 0 as the observed mean."""
    sums = [sum(choice) for choice in itertools.product(*((change, -change) for change in changes))]
    return sum(abs(each) >= abs(sum(changes)) - 1e-9 for each in sums) / len(sums)


@pytest.mark.parametrize("changes", [[1.0] * 8, [0.5, 0.0, -0.25], [0.3, 0.2, 0.9, -0.1, 0.4, 0.0, 0.7], [0.0] * 4])
def test_p_value_equals_the_result_of_an_exact_sign_flip_test(changes: list[float]) -> None:
    assert paired_test(changes, [1 / len(changes)] * len(changes)).p == pytest.approx(signs_tried(changes))


@pytest.mark.parametrize("size", [3, 6, 12, 40])
def test_p_value_is_at_most_0_05_if_and_only_if_the_interval_excludes_0(size: int) -> None:
    generator = random.Random(size)
    told = []
    for _ in range(100):
        changes = [generator.choice([-1.0, 0.0, 0.25, 0.5]) for _ in range(size)]
        low, high, p = paired_test(changes, [1 / size] * size)
        assert (p <= 0.05) == (not low <= 0.0 <= high)
        told.append(p <= 0.05)
    assert any(told) == (size > 3)


@pytest.mark.parametrize("size", [10, 60])
def test_random_score_changes_are_rarely_significant(size: int) -> None:
    generator = random.Random(7)
    samples = [[generator.choice([-0.5, 0.0, 0.5]) for _ in range(size)] for _ in range(150)]
    assert sum(paired_test(changes, [1 / size] * size).p <= 0.05 for changes in samples) <= 150 * 0.08


def test_paired_test_does_not_depend_on_the_order_of_problems() -> None:
    changes, weights = [1.0, 0.0, -0.5, 0.25] * 10, [0.01, 0.02, 0.03, 0.04] * 10
    assert paired_test(changes[::-1], weights[::-1]) == paired_test(changes, weights)
