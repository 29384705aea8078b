"""Outcomes of completions and groups, and statistics of scores: sums, intervals, pass@k, and a paired test."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist, fmean, stdev
from typing import NamedTuple

from ..records import Ending, Group, Reason, Rollout, Verdict

RIGHT = "right"
PARTIAL = "partial"
WRONG = "wrong"
TRUNCATED = "truncated"
FORMAT_FAILURES = (
    Reason.NO_ANSWER.value,
    Reason.UNCLOSED_THINKING.value,
    Reason.UNCLOSED_ANSWER.value,
    Reason.SEVERAL_ANSWERS.value,
    Reason.EMPTY_ANSWER.value,
)
"""Reasons for a score of 0 without an answer that could be scored."""
OUTCOMES = (
    RIGHT,
    PARTIAL,
    WRONG,
    TRUNCATED,
    *FORMAT_FAILURES,
    *(reason.value for reason in Reason if reason is not Reason.SCORED and reason.value not in FORMAT_FAILURES),
)
"""All outcomes of a completion: its correctness if it was scored, else the reason for its score of 0."""


@dataclass(slots=True)
class Tally:
    """Number, sum and highest of some values, all at least 0."""

    count: int = 0
    total: float = 0.0
    highest: float = 0.0

    def add(self, *values: float) -> None:
        self.count += len(values)
        self.total += sum(values)
        self.highest = max((self.highest, *values))

    def merge(self, other: Tally) -> None:
        self.count += other.count
        self.total += other.total
        self.highest = max(self.highest, other.highest)

    @property
    def mean(self) -> float | None:
        """Mean of the values; None without values."""
        return self.total / self.count if self.count else None


def outcome(score: float, reason: str | None, finish_reason: str | None) -> str:
    """Return the outcome of a completion with this score, reason and finish reason.

    A reason of None counts as `scored`. A missing or unclosed answer, and unclosed thinking, are `truncated` if a limit
    of tokens ended the completion.
    """
    if reason is None or reason == Reason.SCORED.value:
        if score >= Verdict.CORRECT_SCORE:
            return RIGHT
        if score > 0:
            return PARTIAL
        return WRONG
    unfinished = reason in (Reason.NO_ANSWER.value, Reason.UNCLOSED_THINKING.value, Reason.UNCLOSED_ANSWER.value)
    return TRUNCATED if unfinished and Ending.of(finish_reason) is Ending.CUT else reason


def outcome_of(rollout: Rollout) -> str:
    """Return the outcome of a rollout with a verdict."""
    assert rollout.verdict is not None, "only scored rollouts have an outcome"
    return outcome(rollout.verdict.score, rollout.verdict.reason.value, rollout.finish_reason)


MANY_TRUNCATED = 0.10
"""Share of completions without an answer for want of tokens, from which the limit is likely to be too low."""
MANY_UNANSWERED = 0.50
"""Share of completions without an answer, from which the model, its template or its server is likely to be at fault."""


def outcome_remarks(shares: Mapping[str, float], limit: str) -> dict[str, str]:
    """Return what shares of outcomes say about the set-up: a sentence by outcome; `limit` names the limit of tokens."""
    remarks = {}
    if (truncated := shares.get(TRUNCATED, 0.0)) >= MANY_TRUNCATED:
        remarks[TRUNCATED] = f"{truncated:.0%} of completions were cut off without an answer: raise the limit, {limit}"
    if (unanswered := shares.get(Reason.NO_ANSWER.value, 0.0)) >= MANY_UNANSWERED:
        remarks[Reason.NO_ANSWER.value] = (
            f"{unanswered:.0%} of completions have no answer tags. Likely causes: the model does not follow the format "
            "(docs/models.md, small models); its chat template is another's; a reasoning parser of the server holds "
            "the answer back"
        )
    return remarks


class GroupOutcome(StrEnum):
    """How the scores of a group compare."""

    WITH_SIGNAL = "with_signal"
    ALL_RIGHT = "all_right"
    ALL_WRONG = "all_wrong"
    ALL_EQUAL = "all_equal"
    """Equal partial scores: no signal either."""


def outcome_of_group(group: Group) -> GroupOutcome:
    """Tell whether a group carries a signal and, if not, why. A group of one always does."""
    if len(group.rollouts) == 1 or group.has_signal:
        return GroupOutcome.WITH_SIGNAL
    if all(rollout.verdict is not None and rollout.verdict.correct for rollout in group.rollouts):
        return GroupOutcome.ALL_RIGHT
    return GroupOutcome.ALL_EQUAL if any(group.scores) else GroupOutcome.ALL_WRONG


class Interval(NamedTuple):
    """A 95 % confidence interval."""

    low: float
    high: float


def bootstrap_interval(
    values: Sequence[float], *, bounds: tuple[float, float] = (0.0, 1.0), many: int = 1000
) -> Interval:
    """Return the 95 % percentile-bootstrap interval of the mean of one or more independent values in `bounds`.

    The same values give the same interval, in any order. Equal values would resample to an interval without width. They
    get an exact bound instead: the largest share of other values that a sample of this size misses with a chance of
    2.5 % is placed at an end of `bounds`. From `many` values on, the interval is the normal distribution's:
    equal to the bootstrap's, and fast.
    """
    count = len(values)
    tail = 0.025  # on each side
    if min(values) == max(values):
        unseen = 1.0 - tail ** (1.0 / count)
        return Interval(*(values[0] + unseen * (bound - values[0]) for bound in bounds))
    if count >= many:
        half = NormalDist().inv_cdf(1.0 - tail) * stdev(values) / math.sqrt(count)
        return Interval(max(bounds[0], fmean(values) - half), min(bounds[1], fmean(values) + half))
    import numpy as np  # the import takes 0.1 s of processor time, which only intervals need

    sample = np.sort(np.asarray(values, dtype=float))
    means = sample[np.random.default_rng(0).integers(count, size=(2000, count))].mean(axis=1)
    low, high = np.quantile(means, [tail, 1.0 - tail])
    return Interval(float(low), float(high))


def interval_of_means(means: Sequence[float], intervals: Sequence[Sequence[float]]) -> Interval:
    """Return the 95 % interval of the mean of some means in [0, 1], given the interval of each mean.

    The interval is a bootstrap over the means. A few means may be nearly equal by chance, so the interval is never
    narrower than the means' own intervals imply.
    """
    if len(means) == 1:
        return Interval(*intervals[0])
    low = high = mean = sum(means) / len(means)
    if min(means) < max(means) or mean in (0.0, 1.0):  # other equal means are equal by chance
        low, high = bootstrap_interval(means)
    below = math.hypot(*(value - ends[0] for value, ends in zip(means, intervals, strict=True))) / len(means)
    above = math.hypot(*(ends[1] - value for value, ends in zip(means, intervals, strict=True))) / len(means)
    return Interval(max(0.0, min(low, mean - below)), min(1.0, max(high, mean + above)))


def pass_at_k(n: int, correct: int, k: int) -> float:
    """Return unbiased pass@k from `correct` right completions of `n` (Chen et al. 2021).

    Raises ValueError unless 1 <= k <= n and 0 <= correct <= n.
    """
    if not (1 <= k <= n and 0 <= correct <= n):
        raise ValueError(f"pass@{k} cannot be told from {correct} right of {n}")
    return 1.0 - math.comb(n - correct, k) / math.comb(n, k)


class PairedTest(NamedTuple):
    """The 95 % interval of a weighted mean change, and the two-sided p of the change: p <= 0.05 where 0 is outside."""

    low: float
    high: float
    p: float


def paired_test(changes: Sequence[float], weights: Sequence[float]) -> PairedTest:
    """Return the paired permutation test of one or more changes in [-1, 1], with weights that sum up to 1.

    If nothing has changed in truth, each change may as well have the other sign. So many signs are drawn, all of them
    for few changes: p is twice the share with which the mean is as large as it came. The interval holds the values that
    the same test, with each value subtracted from the changes, does not reject. Its ends are quantiles of the means of
    random subsets of the changes (Hartigan 1969, "Using subsample values as typical values"). Fewer than six changes
    that are not equal reject nothing: their interval is [-1, 1]. Equal changes get the bounds of `bootstrap_interval`.

    The same changes give the same result, in any order.
    """
    count = len(changes)
    if min(changes) == max(changes):
        change = changes[0]
        return PairedTest(
            *bootstrap_interval(changes, bounds=(-1.0, 1.0)), min(1.0, 2.0 * (1.0 + abs(change)) ** -count)
        )
    import numpy as np

    pairs = np.array(sorted(zip(changes, weights, strict=True)))
    columns = np.stack([pairs[:, 0] * pairs[:, 1], pairs[:, 1]], axis=1)
    if count <= _ALL_SUBSETS_OF:
        subsets = np.arange(1, 2**count)[:, None] >> np.arange(count) & 1
        sums = subsets @ columns
    else:
        generator = np.random.default_rng(0)
        at_once = max(1, 2**20 // count)  # some megabytes at a time
        sizes = [min(at_once, _SUBSETS - done) for done in range(0, _SUBSETS, at_once)]
        sums = np.concatenate([generator.integers(2, size=(size, count), dtype=bool) @ columns for size in sizes])
        sums = sums[sums[:, 1] > 0.0]
    # Rounded, so that changes which cancel out are 0. The empty subset is below and above every value.
    means = np.sort(np.round(sums[:, 0] / sums[:, 1], 12))
    number = len(means) + 1
    rejected = int(0.025 * number)  # on each side
    low = -1.0 if rejected == 0 else float(means[rejected - 1])
    high = 1.0 if rejected == 0 else float(means[-rejected])
    tail = min(1 + int((means <= 0.0).sum()), 1 + int((means >= 0.0).sum()))
    return PairedTest(low, high, min(1.0, 2.0 * tail / number))


_ALL_SUBSETS_OF = 12
"""Changes of which all subsets are taken: 4,096, as many as are drawn of more changes."""
_SUBSETS = 4095
"""Subsets that are drawn: p has a standard error of 0.005 at 0.05."""
