"""Seeds for problems, derived by hashing and laid out so that streams cannot meet.

The library takes seeds below 2**32, and in most tasks item k+1 of seed s is item k of seed s+1, so neighbouring seeds
are not independent draws. A training seed is laid out as

    1 bit split | 6 bits instance | 25 bits hash

so that training and evaluation share no seed, and neither do up to 64 instances; instances beyond that share the seeds
of others, in another order. An evaluation seed is the split bit and a hash of 31 bits.
"""

from __future__ import annotations

import hashlib

from ..records import Split

INSTANCES = 64
INSTANCE_SEEDS = 1 << 25
"""Seeds of each instance."""
MEMBER_SEEDS = 256
"""Seeds kept free at the end of each range: a composite of all tasks uses up to 105 beyond its own for its members."""


def hash_int(*parts: object) -> int:
    """Return an integer in [0, 2**64) that depends on the parts' text alone, the same on every machine."""
    text = "\x1f".join(str(part) for part in parts).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


def hash_fraction(*parts: object) -> float:
    """Return a number in [0, 1) that depends on the parts' text alone."""
    return (hash_int(*parts) >> 11) / (1 << 53)


def train_seed(run_seed: int, instance: int, index: int, attempt: int) -> int:
    """Return the seed of a training position's draw, in [0, 2**31)."""
    code = hash_int(Split.TRAIN.value, run_seed, instance, index, attempt) % (INSTANCE_SEEDS - MEMBER_SEEDS)
    return instance % INSTANCES * INSTANCE_SEEDS + code


def follow_seed(seed: int, number: int) -> int:
    """Return the seed to try after `number` others: `seed` first, then others of its split and instance."""
    if number == 0:
        return seed
    # In the upper half of the range, because evaluation sets were always made so, and are compared with older ones.
    half = INSTANCE_SEEDS // 2
    first = seed - seed % INSTANCE_SEEDS
    return first + half + hash_int("follow", seed, number) % (half - MEMBER_SEEDS)


def eval_seed(run_seed: int, task: str, sample: int) -> int:
    """Return the seed of an evaluation sample, in [2**31, 2**32)."""
    split_bit = 1 << 31
    return split_bit + hash_int(Split.EVAL.value, run_seed, task, sample) % (split_bit - MEMBER_SEEDS)
