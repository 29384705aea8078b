from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasoning_env.seeds import (
    INSTANCE_SEEDS,
    INSTANCES,
    MEMBER_SEEDS,
    eval_seed,
    follow_seed,
    hash_fraction,
    hash_int,
    train_seed,
)

RUN_SEEDS = st.integers(0, 2**63 - 1)
POSITIONS = st.integers(0, 2**40)
ATTEMPTS = st.integers(0, 20_000)
MEMBERS_OF_A_COMPOSITE = 106


def range_of(seed: int) -> int:
    """Number of the range of INSTANCE_SEEDS seeds that holds a seed."""
    return seed // INSTANCE_SEEDS


def first_draws(count: int, run_seed: int = 42, instance: int = 0) -> list[int]:
    return [train_seed(run_seed, instance, position, 0) for position in range(count)]


@given(RUN_SEEDS, st.integers(0, 10_000), POSITIONS, ATTEMPTS)
def test_instances_lie_apart(run_seed: int, instance: int, position: int, attempt: int) -> None:
    seed = train_seed(run_seed, instance, position, attempt)
    assert range_of(seed) == range_of(seed + MEMBERS_OF_A_COMPOSITE) == instance % INSTANCES
    assert MEMBER_SEEDS >= MEMBERS_OF_A_COMPOSITE


@given(st.integers(0, 2**32 - 1), st.integers(1, 300))
def test_derived_seed_keeps_its_range(seed: int, number: int) -> None:
    following = follow_seed(seed, number)
    assert range_of(following) == range_of(following + MEMBERS_OF_A_COMPOSITE) == range_of(seed)


def test_first_derived_seed() -> None:
    assert follow_seed(77, 0) == 77


@given(RUN_SEEDS, st.text(max_size=10), st.integers(0, 100_000))
def test_evaluation_seeds_lie_apart(run_seed: int, task: str, sample: int) -> None:
    seed = eval_seed(run_seed, task, sample)
    assert INSTANCES * INSTANCE_SEEDS == 2**31 <= seed < 2**32 - MEMBERS_OF_A_COMPOSITE


def test_seeds_seldom_repeat() -> None:
    """Of 10,000 hashes of 25 bits, 1.5 repeat on average."""
    assert len(set(first_draws(10_000))) > 9_990


def test_neighbours_have_distant_seeds() -> None:
    close = [first for first, second in pairwise(first_draws(2000)) if abs(first - second) < 1000]
    assert len(close) < 10


@pytest.mark.parametrize("other", [{"instance": INSTANCES}, {"run_seed": 43}])
def test_streams_differ(other: dict[str, int]) -> None:
    assert not set(first_draws(100)) & set(first_draws(100, **other))


def test_attempts_differ() -> None:
    assert len({train_seed(42, 0, 7, attempt) for attempt in range(100)}) == 100


def test_seeds_are_the_same_for_ever() -> None:
    """A change here gives every user another test set and other training problems."""
    assert train_seed(42, 0, 0, 0) == 27_932_344
    assert train_seed(42, 3, 7, 2) == 101_136_571
    assert follow_seed(train_seed(42, 0, 0, 0), 1) == 22_876_271
    assert eval_seed(123, "chain_sum", 4) == 4_019_990_564
    assert follow_seed(4_019_990_564, 2) == 4_020_136_011


def test_hash_keeps_parts_apart() -> None:
    assert len({hash_int("ab", "c"), hash_int("a", "bc"), hash_int("abc"), hash_int("abc", "")}) == 4


def test_fractions_are_spread_evenly() -> None:
    fractions = [hash_fraction("level", number) for number in range(4000)]
    counts = [sum(tenth / 10 <= fraction < (tenth + 1) / 10 for fraction in fractions) for tenth in range(10)]
    assert sum(counts) == 4000
    assert all(320 < count < 480 for count in counts)
