"""Seeds for problems, derived by hashing and laid out so that streams cannot meet.

The library takes seeds below 2**32, and in most tasks item k+1 of seed s is item k of seed s+1, so neighbouring seeds
are not independent draws. A training seed is laid out as

    1 bit split | 6 bits instance | 25 bits position code

so that train and eval share no seed, and neither do up to 64 instances (the instance number counts modulo 64; beyond
that streams are still permuted differently). First draws of positions 0 to 2**24 - 1 of one stream map one to one onto
codes, by a keyed Feistel permutation, so that they never repeat; redraws live in the other half of the codes. The
topmost codes stay free, because a composite task counts up from its own seed for its members. An evaluation seed is the
split bit and a hash.
"""

from __future__ import annotations

import hashlib

from ..records import Split

INSTANCES = 64
CODE_BITS = 25
HALF_BITS = 12
POSITIONS = 1 << (2 * HALF_BITS)
RESERVED = 256
"""Codes kept free below every boundary; a composite of all tasks reaches up to 105 seeds beyond its own."""
EVAL_BIT = 1 << 31
ROUNDS = 4
HASH_RANGE = 1 << 64


def hash_int(*parts: object) -> int:
    """Return an integer in [0, HASH_RANGE) of the parts' text alone, the same on every machine."""
    text = "\x1f".join(str(part) for part in parts).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


def train_seed(run_seed: int, instance: int, index: int, attempt: int) -> int:
    """Return the seed of a training position's draw, in [0, 2**31)."""
    if attempt == 0:
        code = _permute(index % POSITIONS, f"{run_seed}/{instance}/{index // POSITIONS}")
    else:
        code = POSITIONS + hash_int("redraw", run_seed, instance, index, attempt) % (POSITIONS - RESERVED)
    return (instance % INSTANCES) << CODE_BITS | code


def follow_seed(seed: int, number: int) -> int:
    """Return the seed to try after `number` others: `seed` first, then redraws of its split and instance."""
    if number == 0:
        return seed
    return seed >> CODE_BITS << CODE_BITS | POSITIONS + hash_int("follow", seed, number) % (POSITIONS - RESERVED)


def eval_seed(run_seed: int, task: str, sample: int) -> int:
    """Return the seed of an evaluation sample, in [2**31, 2**32)."""
    return EVAL_BIT + hash_int(Split.EVAL.value, run_seed, task, sample) % (EVAL_BIT - RESERVED)


def _permute(value: int, key: str) -> int:
    """Permute the numbers below 2**24 by a balanced Feistel network: a bijection for every key."""
    mask = (1 << HALF_BITS) - 1
    left, right = value >> HALF_BITS, value & mask
    for round_number in range(ROUNDS):
        left, right = right, left ^ (hash_int(key, round_number, right) & mask)
    return left << HALF_BITS | right
