from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reasoning_env.seeds import (
    INSTANCE_SEEDS,
    INSTANCES,
    MEMBER_SEEDS,
    eval_seed,
    follow_seed,
    train_seed,
)

RUN_SEEDS = st.integers(0, 2**63 - 1)
POSITIONS = st.integers(0, 2**40)
ATTEMPTS = st.integers(0, 20_000)
MEMBERS_OF_A_COMPOSITE = 106


def range_of(seed: int) -> int:
    """Return the number of the range of INSTANCE_SEEDS seeds that contains a seed."""
    return seed // INSTANCE_SEEDS


@given(RUN_SEEDS, st.integers(0, 10_000), POSITIONS, ATTEMPTS)
def test_environment_instances_use_disjoint_seeds(run_seed: int, instance: int, position: int, attempt: int) -> None:
    seed = train_seed(run_seed, instance, position, attempt)
    assert range_of(seed) == range_of(seed + MEMBERS_OF_A_COMPOSITE) == instance % INSTANCES
    assert MEMBER_SEEDS >= MEMBERS_OF_A_COMPOSITE


@given(st.integers(0, 2**32 - 1), st.integers(1, 300))
def test_derived_seed_stays_in_the_range_of_its_split(seed: int, number: int) -> None:
    following = follow_seed(seed, number)
    assert range_of(following) == range_of(following + MEMBERS_OF_A_COMPOSITE) == range_of(seed)


@given(RUN_SEEDS, st.text(max_size=10), st.integers(0, 100_000))
def test_evaluation_and_training_seeds_are_disjoint(run_seed: int, task: str, sample: int) -> None:
    seed = eval_seed(run_seed, task, sample)
    assert INSTANCES * INSTANCE_SEEDS == 2**31 <= seed < 2**32 - MEMBERS_OF_A_COMPOSITE


def test_derived_seeds_equal_the_recorded_seeds() -> None:
    """If seeds change, every user gets different training problems and a different evaluation set."""
    assert train_seed(42, 0, 0, 0) == 27_932_344
    assert train_seed(42, 3, 7, 2) == 101_136_571
    assert follow_seed(train_seed(42, 0, 0, 0), 1) == 22_876_271
    assert eval_seed(123, "chain_sum", 4) == 4_019_990_564
    assert follow_seed(4_019_990_564, 2) == 4_020_136_011
