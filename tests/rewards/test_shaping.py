from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasoning_env.rewards import apply_length_penalty

SCORES = st.floats(0.0, 1.0)


@pytest.mark.parametrize(
    ("length", "factor"),
    [(0, 1.0), (749, 1.0), (750, 1.0), (751, 0.996), (875, 0.5), (999, 0.004), (1000, 0.0), (1001, 0.0), (9999, 0.0)],
)
def test_factor_is_one_up_to_three_quarters_and_falls_to_zero_at_the_limit(length: int, factor: float) -> None:
    assert apply_length_penalty([1.0, 0.5], [length, length], 1000) == pytest.approx((factor, 0.5 * factor))


def test_each_rollout_pays_for_its_own_length() -> None:
    assert apply_length_penalty([1.0, 1.0, 0.8], [100, 875, 1000], 1000) == (1.0, 0.5, 0.0)


def test_one_rollout_below_a_half_spares_the_whole_group() -> None:
    assert apply_length_penalty([1.0, 0.499], [1000, 1000], 1000) == (1.0, 0.499)


def test_scores_of_exactly_a_half_are_penalised() -> None:
    assert apply_length_penalty([0.5, 0.5], [1000, 875], 1000) == (0.0, 0.25)


def test_group_of_nobody_stays_one() -> None:
    assert apply_length_penalty([], [], 1000) == ()


def test_lengths_that_do_not_match_the_scores_are_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        apply_length_penalty([1.0, 1.0], [100], 1000)


@given(st.lists(st.tuples(SCORES, st.integers(0, 5000)), max_size=8), st.integers(16, 4000))
def test_penalty_never_raises_a_score_nor_leaves_the_range(rollouts: list[tuple[float, int]], max_tokens: int) -> None:
    scores = [score for score, _ in rollouts]
    rewards = apply_length_penalty(scores, [length for _, length in rollouts], max_tokens)
    assert all(0.0 <= reward <= score for reward, score in zip(rewards, scores, strict=True))


@given(st.floats(0.5, 1.0), st.lists(st.integers(0, 5000), min_size=2), st.integers(16, 4000))
def test_longer_is_never_better(score: float, lengths: list[int], max_tokens: int) -> None:
    lengths.sort()
    rewards = apply_length_penalty([score] * len(lengths), lengths, max_tokens)
    assert list(rewards) == sorted(rewards, reverse=True)
