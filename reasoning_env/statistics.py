"""Statistics of scores: sums, intervals, unbiased pass@k and the sign test. Imports nothing of the package."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

CONFIDENCE = 0.95
Z = 1.959963984540054
"""The normal distribution's quantile for that confidence."""
RESAMPLES = 2000
FEW_GROUPS = 10
"""Their spread tells too little of how similar the values of a group are."""
LEAST_SPREAD = 1e-9
"""Above what rounding alone makes."""
DRAWS_AT_ONCE = 1_000_000
"""Bounds the memory of a bootstrap over many values."""


@dataclass
class Tally:
    """How many values there were, none of them below 0, their sum and the highest."""

    count: int = 0
    total: float = 0.0
    highest: float = 0.0

    def add(self, *values: float) -> None:
        self.count += len(values)
        self.total += sum(values)
        self.highest = max(self.highest, *values)

    def merge(self, other: Tally) -> None:
        self.count += other.count
        self.total += other.total
        self.highest = max(self.highest, other.highest)

    @property
    def mean(self) -> float | None:
        """The mean of the values; None where there are none."""
        return self.total / self.count if self.count else None


class Interval(NamedTuple):
    """The two ends of a 95 % confidence interval."""

    low: float
    high: float


def bootstrap_interval(values: Sequence[float], *, seed: int = 0, bounds: tuple[float, float] = (0.0, 1.0)) -> Interval:
    """Return the mean's 95 % percentile-bootstrap interval for 1 or more independent values in `bounds`.

    Values that are all equal would resample to an interval without width, which is false of a small sample. They get
    the exact bound instead: the share of other values that a sample of this size misses in 2.5 % of all cases, taken
    to lie at the ends of the bounds. Thousands of values take a tenth of a second, so keep that off an event loop.
    """
    count = len(values)
    if min(values) == max(values):
        unseen = 1.0 - ((1.0 - CONFIDENCE) / 2) ** (1.0 / count)
        return Interval(*(values[0] + unseen * (bound - values[0]) for bound in bounds))
    import numpy as np  # a tenth of a second of CPU, which commands that need no interval must not pay

    generator, sample = np.random.default_rng(seed), np.asarray(values, dtype=float)
    rows = max(1, DRAWS_AT_ONCE // count)
    means = np.concatenate(
        [
            sample[generator.integers(count, size=(min(rows, RESAMPLES - start), count))].mean(axis=1)
            for start in range(0, RESAMPLES, rows)
        ]
    )
    low, high = np.quantile(means, [(1.0 - CONFIDENCE) / 2, (1.0 + CONFIDENCE) / 2])
    return Interval(float(low), float(high))


def interval_of_means(means: Sequence[float], intervals: Sequence[Sequence[float]]) -> Interval:
    """Return the 95 % interval of the mean of means in [0, 1], each of which has an interval of its own.

    It is a bootstrap over them, never narrower than their own intervals allow: a few may be nearly equal by chance.
    """
    if len(means) == 1:
        return Interval(*intervals[0])
    low = high = mean = sum(means) / len(means)
    if min(means) < max(means) or mean in (0.0, 1.0):  # others that are equal are so by chance
        low, high = bootstrap_interval(means)
    below = math.hypot(*(value - ends[0] for value, ends in zip(means, intervals, strict=True))) / len(means)
    above = math.hypot(*(ends[1] - value for value, ends in zip(means, intervals, strict=True))) / len(means)
    return Interval(max(0.0, min(low, mean - below)), min(1.0, max(high, mean + above)))


def wilson_interval(mean: float, count: float) -> Interval:
    """Return the 95 % Wilson interval of the mean of `count` independent values in [0, 1].

    It suits values that are 0 or 1, and is too wide for others, whose variance is smaller; never without width.
    """
    centre = (mean + Z**2 / (2 * count)) / (1 + Z**2 / count)
    half = Z / (1 + Z**2 / count) * math.sqrt(max(0.0, mean * (1 - mean)) / count + Z**2 / (4 * count**2))
    return Interval(max(0.0, centre - half), min(1.0, centre + half))


def clustered_interval(mean: float, squares: float, *, groups: int, count: int) -> Interval:
    """Return the 95 % interval of a mean over `count` values in [0, 1] in groups of similar ones.

    `squares` is the sum of the squares of the groups' means. It is Wilson's interval for as many independent values as
    the spread of these means tells of, between one a group and all; of few groups, for one a group.
    """
    independent = float(groups)
    if groups >= FEW_GROUPS:
        spread = (squares - groups * mean**2) / (groups - 1)
        independent = min(count, max(groups, groups * mean * (1 - mean) / max(spread, LEAST_SPREAD)))
    return wilson_interval(mean, independent)


def pass_at_k(n: int, correct: int, k: int) -> float:
    """Return the unbiased chance that one of `k` is right, as `correct` of `n` were (Chen et al. 2021).

    Raises ValueError unless 1 <= k <= n and 0 <= correct <= n.
    """
    if not (1 <= k <= n and 0 <= correct <= n):
        raise ValueError(f"pass@{k} cannot be told from {correct} right of {n}")
    return 1.0 - math.comb(n - correct, k) / math.comb(n, k)


def sign_test(wins: int, losses: int) -> float:
    """Return the exact sign test's two-sided p: how often a fair coin is at least as far from even."""
    tosses = wins + losses
    ways = tail = 1
    for tails in range(min(wins, losses)):
        ways = ways * (tosses - tails) // (tails + 1)
        tail += ways
    return min(1.0, float(2 * tail / 2**tosses))
