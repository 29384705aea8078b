"""Seeds of problems, derived by hashing and laid out so that two streams share no seed.

The library takes seeds below 2**32. In most tasks, item k+1 of seed s is item k of seed s+1, so neighbouring seeds are
not independent draws. The layout of a training seed is

    1 bit split | 6 bits instance | 25 bits hash

Training and evaluation share no seed, nor do up to 64 instances. Further instances share the seeds of others, in
another order. An evaluation seed is the split bit and a hash of 31 bits.
"""

from __future__ import annotations

import hashlib

INSTANCES = 64
INSTANCE_SEEDS = 1 << 25
"""Number of seeds of an instance."""
MEMBER_SEEDS = 256
"""Seeds kept free at the end of a range: a composite of all tasks uses up to 105 seeds after its own for members."""


def hash_int(*parts: object) -> int:
    """Return an integer in [0, 2**64), a hash of the parts' text, equal on every machine."""
    text = "\x1f".join(str(part) for part in parts).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


def hash_fraction(*parts: object) -> float:
    """Return a number in [0, 1), a hash of the parts' text."""
    return (hash_int(*parts) >> 11) / (1 << 53)


def train_seed(run_seed: int, instance: int, index: int, attempt: int) -> int:
    """Return the seed of an attempt at a training position, in [0, 2**31)."""
    code = hash_int("train", run_seed, instance, index, attempt) % (INSTANCE_SEEDS - MEMBER_SEEDS)
    return instance % INSTANCES * INSTANCE_SEEDS + code


def follow_seed(seed: int, number: int) -> int:
    """Return the seed of draw `number`: `seed` for 0, then seeds derived from it, of the same split and instance."""
    if number == 0:
        return seed
    # In the upper half of the range, as for older evaluation sets, with which new sets are compared.
    half = INSTANCE_SEEDS // 2
    first = seed - seed % INSTANCE_SEEDS
    return first + half + hash_int("follow", seed, number) % (half - MEMBER_SEEDS)


def eval_seed(run_seed: int, task: str, sample: int) -> int:
    """Return the seed of an evaluation sample, in [2**31, 2**32)."""
    split_bit = 1 << 31
    return split_bit + hash_int("eval", run_seed, task, sample) % (split_bit - MEMBER_SEEDS)


def file_seed(run_seed: int, task: str, level: float | str | None, draw: int) -> int:
    """Return the seed of a draw for a file of problems, in [0, 2**31): training seeds of all instances."""
    return hash_int("file", run_seed, task, level, draw) % ((1 << 31) - MEMBER_SEEDS)
