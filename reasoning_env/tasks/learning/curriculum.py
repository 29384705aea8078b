"""Each task's level in [0, 1] follows the learner, so that a target share of answers is right.

The model of a task is the two-parameter logistic curve of item response theory (Birnbaum 1968, in Lord and Novick,
Statistical Theories of Mental Test Scores):

    P(success | level d) = sigmoid(a - b (d - d0))

with d0 the level that training starts at. Ability a and slope b have a normal prior, under which the predicted share at
d0 is the target. Each group of n rollouts with k successes, served at level d, is one step of a filter:

1. Forget: the posterior's natural parameters are mixed with the prior's, weight 1 - 1/memory to 1/memory (stabilised
   forgetting; Kulhavy and Zarrop 1993, International Journal of Control 58(4)). What is not observed any more returns
   to the prior instead of growing without bound, so that nothing winds up at an unreachable target.
2. Watch: two one-sided sums of the standardised surprise (Page 1954, Biometrika 41) tell a jump of the learner from
   noise; when one passes its limit, most of what was learnt is forgotten at once.
3. Learn: the posterior's mode along the one direction that the group tells of, x = a - b (d - d0), found exactly, with
   the curvature there as new precision (the sequential Laplace update of Spiegelhalter and Lauritzen 1990, Networks
   20). Rollouts of one problem are alike, so that n of them count as n / (1 + (n - 1) r) independent ones, with r the
   correlation within a group (design effect; Kish 1965, Survey Sampling).

The level solves P = target, clamped to [0, 1]. Problems come from a band around it, in which P is within `BAND` logits
of the target. A single level would show neither the slope nor, where P hardly falls with the level, the harder problems
that the learner could learn from as well: a learner that needs to see each length of a word was kept from long ones.
Because an observation says which level it was made at, it may come
late, out of order, or from another level than the one asked for. The same observations in the same order give the same
levels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

PRIOR_ABILITY_SD = 2.5
PRIOR_SLOPE = 8.0
PRIOR_SLOPE_SD = 4.0
MIN_SLOPE = 1.5
"""The least slope of a task, also of one that hardly reacts to its level or gets easier with it: its level then ends at
a bound instead of jumping about."""
BAND = 2.0
"""With a target of 0.7, from where 0.94 of the answers are right to where 0.24 are."""
CORRELATION = 0.1
SURPRISE_SLACK = 0.5
"""Standard deviations of a group's surprise that count as noise."""
SURPRISE_LIMIT = 5.0
KEPT_AFTER_JUMP = 0.1
"""The share of what was learnt that outlasts a jump."""
HALVINGS = 50
"""Bisection steps, more than a float's precision can tell apart."""
LEVEL_DIGITS = 3
MEMORY_OVER_DELAY = 1.5
"""The memory is at least this many times the groups under way: a fit that has forgotten the level before the last when
it sees what the last one did knows no slope, and swings about the target."""


@dataclass(frozen=True)
class Fit:
    """What is believed of a task: means of ability and slope, and the three numbers of their precision.

    `ability` counts from the target's. `rise` and `fall` are the running sums of surprise, upwards and downwards. The
    defaults are the prior.
    """

    ability: float = 0.0
    slope: float = PRIOR_SLOPE
    ability_precision: float = PRIOR_ABILITY_SD**-2
    cross_precision: float = 0.0
    slope_precision: float = PRIOR_SLOPE_SD**-2
    rise: float = 0.0
    fall: float = 0.0


@dataclass(frozen=True)
class _Pair:
    ability: float
    slope: float


class Curriculum:
    """One fit for each task that was observed.

    `target` is the wanted share of successes, between 0 and 1, `start` the level before anything was observed, and
    `memory_groups` how many groups of a task the fit rests on: more are steadier, fewer follow a changing learner
    sooner. `state` is what `state()` returned in an earlier run.
    """

    def __init__(
        self,
        target: float,
        *,
        start: float = 0.3,
        memory_groups: float = 20.0,
        state: Mapping[str, Any] | None = None,
    ) -> None:
        self._start = start
        self._memory_groups = memory_groups
        self._target_logit = math.log(target / (1.0 - target))
        self._fits = {task: Fit(**fit) for task, fit in (state or {}).items()}

    def level(self, task: str) -> float:
        """Return the level in [0, 1] at which the target share of the task's answers should be right."""
        fit = self._fits.get(task, Fit())
        return round(min(1.0, max(0.0, self._start + fit.ability / fit.slope)), LEVEL_DIGITS)

    def band(self, task: str) -> tuple[float, float]:
        """Return the lowest and the highest level in [0, 1] at which problems of the task should be."""
        fit = self._fits.get(task, Fit())
        ends = (self._start + (fit.ability + side) / fit.slope for side in (-BAND, BAND))
        low, high = (round(min(1.0, max(0.0, end)), LEVEL_DIGITS) for end in ends)
        return low, high

    def observe(self, task: str, level: float, successes: float, size: int, under_way: int = 0) -> None:
        """Learn from a group of `size` rollouts that was served at `level`.

        `successes` is in [0, size] and need not be whole, so that scores between 0 and 1 can be summed. The level is
        the problem's own, which may differ from what `level()` gave. `under_way` is how many groups of the task were
        drawn and not observed yet.
        """
        effective = size / (1.0 + (size - 1) * CORRELATION)
        reach = level - self._start
        memory = max(self._memory_groups, MEMORY_OVER_DELAY * under_way)
        fit = _forget(self._fits.get(task, Fit()), 1.0 - 1.0 / memory)
        fit = _watch(fit, self._expected(fit, reach), reach, successes / size, effective)
        self._fits[task] = _learn(fit, self._expected(fit, reach), reach, successes / size * effective, effective)

    def state(self) -> dict[str, Any]:
        """Return what a later curriculum needs to go on from here, as JSON."""
        return {task: asdict(fit) for task, fit in self._fits.items()}

    def _expected(self, fit: Fit, reach: float) -> float:
        """Return x = a - b (d - d0), at a distance of `reach` from the start's level."""
        return self._target_logit + fit.ability - fit.slope * reach


def _forget(fit: Fit, kept: float) -> Fit:
    """Mix precision, and precision times mean, with those of the prior."""
    prior, slope = Fit(), fit.slope - PRIOR_SLOPE
    mixed = replace(
        fit,
        ability_precision=kept * fit.ability_precision + (1.0 - kept) * prior.ability_precision,
        cross_precision=kept * fit.cross_precision,
        slope_precision=kept * fit.slope_precision + (1.0 - kept) * prior.slope_precision,
    )
    mean = _solve(
        mixed,
        kept * (fit.ability_precision * fit.ability + fit.cross_precision * slope),
        kept * (fit.cross_precision * fit.ability + fit.slope_precision * slope),
    )
    return replace(mixed, ability=mean.ability, slope=max(MIN_SLOPE, PRIOR_SLOPE + mean.slope))


def _watch(fit: Fit, expected: float, reach: float, share: float, size: float) -> Fit:
    """Add the group's surprise to the running sums; where they tell of a jump, start almost anew."""
    unit = _sigmoid(expected) * (1.0 - _sigmoid(expected))
    # The last term is half a rollout's: it keeps a share that was all but certain from being an infinite surprise.
    variance = unit / size + unit * unit * _variance(_covariances(fit, reach), reach) + (0.5 / size) ** 2
    surprise = (share - _sigmoid(expected)) / math.sqrt(variance)
    rise = max(0.0, fit.rise + surprise - SURPRISE_SLACK)
    fall = max(0.0, fit.fall - surprise - SURPRISE_SLACK)
    if max(rise, fall) > SURPRISE_LIMIT:
        return replace(_forget(fit, KEPT_AFTER_JUMP), rise=0.0, fall=0.0)
    return replace(fit, rise=rise, fall=fall)


def _learn(fit: Fit, expected: float, reach: float, successes: float, size: float) -> Fit:
    """Make the Laplace update for `successes` of `size` at a distance of `reach` from the start's level."""
    covariances = _covariances(fit, reach)
    variance = _variance(covariances, reach)
    # The likelihood's slope lies between successes - size and successes, and so does the mode between these two.
    low, high = expected + variance * (successes - size), expected + variance * successes
    for _ in range(HALVINGS):
        mode = (low + high) / 2
        if successes - size * _sigmoid(mode) > (mode - expected) / variance:
            low = mode
        else:
            high = mode
    step = (mode - expected) / variance
    information = size * _sigmoid(mode) * (1.0 - _sigmoid(mode))
    return replace(
        fit,
        ability=fit.ability + covariances.ability * step,
        slope=max(MIN_SLOPE, fit.slope + covariances.slope * step),
        ability_precision=fit.ability_precision + information,
        cross_precision=fit.cross_precision - information * reach,
        slope_precision=fit.slope_precision + information * reach * reach,
    )


def _covariances(fit: Fit, reach: float) -> _Pair:
    """Return those of ability and slope with x."""
    return _solve(fit, 1.0, -reach)


def _variance(covariances: _Pair, reach: float) -> float:
    """Return that of x."""
    return covariances.ability - reach * covariances.slope


def _solve(fit: Fit, ability: float, slope: float) -> _Pair:
    """Return what the precision matrix maps onto the given pair."""
    determinant = fit.ability_precision * fit.slope_precision - fit.cross_precision**2
    return _Pair(
        (fit.slope_precision * ability - fit.cross_precision * slope) / determinant,
        (fit.ability_precision * slope - fit.cross_precision * ability) / determinant,
    )


def _sigmoid(x: float) -> float:
    if x >= 0:
        return 1.0 / (1.0 + math.exp(-x))
    return 1.0 - 1.0 / (1.0 + math.exp(x))
