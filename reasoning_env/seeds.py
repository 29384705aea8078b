"""Derive the seeds of problems from hashes. Training and evaluation share no seeds.

The library accepts seeds below 2**32. In most tasks, item k+1 of seed s is item k of seed s+1, so neighbouring seeds do
not give independent problems. A training seed consists of

    1 bit split | 6 bits instance | 25 bits hash

An evaluation seed is the split bit and 31 bits of hash. `instance` is the number of a session. Sessions 0 to 63 share
no seeds. Session 64 has the seeds of session 0 in a different order, and so on.
"""

from __future__ import annotations

import hashlib

INSTANCES = 64
INSTANCE_SEEDS = 1 << 25
"""Number of training seeds of a session."""
MEMBER_SEEDS = 256
"""Number of last seeds of a range that no problem has, because `composite` also uses up to 105 later seeds."""


def hash_int(*parts: object) -> int:
    """Return a hash of `str` of each part, as an integer in [0, 2**64). The hash is the same on every machine."""
    text = "\x1f".join(str(part) for part in parts).encode()  # the separator makes ("a", "bc") and ("ab", "c") differ
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


def hash_fraction(*parts: object) -> float:
    """Return a hash of `str` of each part, as a float in [0, 1)."""
    return (hash_int(*parts) >> 11) / (1 << 53)  # a float has 53 bits of precision


def train_seed(run_seed: int, instance: int, index: int, attempt: int) -> int:
    """Return the seed, in [0, 2**31), for an attempt to generate problem number `index` of the training stream."""
    code = hash_int("train", run_seed, instance, index, attempt) % (INSTANCE_SEEDS - MEMBER_SEEDS)
    return instance % INSTANCES * INSTANCE_SEEDS + code


def follow_seed(seed: int, number: int) -> int:
    """Return item `number` of a series of seeds that starts with `seed`.

    All seeds of the series have the same upper 7 bits (split and instance, in training).
    """
    if number == 0:
        return seed
    # Use the upper half of the range, as earlier versions do, so that their evaluation sets stay the same.
    half = INSTANCE_SEEDS // 2
    first = seed - seed % INSTANCE_SEEDS
    return first + half + hash_int("follow", seed, number) % (half - MEMBER_SEEDS)


def eval_seed(run_seed: int, task: str, sample: int) -> int:
    """Return the seed of an evaluation sample, in [2**31, 2**32)."""
    split_bit = 1 << 31
    return split_bit + hash_int("eval", run_seed, task, sample) % (split_bit - MEMBER_SEEDS)


def file_seed(run_seed: int, task: str, level: float | str | None, draw: int) -> int:
    """Return the seed of problem number `draw` in a file of problems, in [0, 2**31)."""
    return hash_int("file", run_seed, task, level, draw) % ((1 << 31) - MEMBER_SEEDS)
