"""Estimate which tasks and levels give groups with a signal, for the curriculum and for adaptive sampling.

A group has a *signal* if its scores differ. An *arm* is a task at one level of difficulty; a task without a curriculum
has a single arm. For each arm, the estimator counts the groups and the groups with a signal, and adds up the groups'
mean scores. Each new group of a task makes the older counts of the task decay, so that estimates follow a changing
learner. From the counts, the estimator computes for each arm

- a *pass rate*: the posterior mean of logistic curves over the level, given the counts of all arms of the task (Bayes'
  rule on a grid). A few groups suffice for estimates at every level.
- a *signal chance*: the share of groups with a signal, averaged with the chance that the pass rate predicts.
- a *novelty*: 1 / (1 + k) if each question of the arm was served k times on average.
- a *weight*: the arm's share of the task's draws. The weight increases with the novelty, and decreases with the
  distance between pass rate and target.

Groups may be observed late and in any order. See docs/tasks.md.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import cached_property

from ..records import LEVEL_STEPS
from .state import ArmState

LEVELS: tuple[float | None, ...] = tuple(step / LEVEL_STEPS for step in range(LEVEL_STEPS + 1))
"""The levels that the estimator chooses from. Workers have parameters for exactly these levels."""
NO_LEVELS: tuple[float | None, ...] = (None,)
"""Replaces LEVELS for a task without a curriculum, which has no level to choose."""
START_LEVEL = 0.3
"""The level at which, a priori, the pass rate most likely equals the target."""


@dataclass
class ArmCounts:
    """Decaying counts of an arm: groups, sum of their mean scores, groups with a signal. `served` does not decay."""

    groups: float = 0.0
    right: float = 0.0
    signals: float = 0.0
    served: int = 0


@dataclass(frozen=True)
class Curve:
    """One hypothesis about a learner: a pass rate for each arm, and the log of the hypothesis's prior probability."""

    INDEPENDENT_ROLLOUTS = 4.0
    """A group counts as this many independent rollouts, because rollouts of one problem are correlated."""

    rates: Sequence[float]
    log_prior: float

    def log_weight(self, counts: Mapping[int, ArmCounts]) -> float:
        """Return the logarithm of this curve's unnormalised posterior probability, given a task's counts."""
        return self.log_prior + self.INDEPENDENT_ROLLOUTS * math.fsum(
            seen.right * self._log_right[arm] + (seen.groups - seen.right) * self._log_wrong[arm]
            for arm, seen in counts.items()
        )

    @cached_property
    def _log_right(self) -> Sequence[float]:
        return list(map(math.log, self.rates))

    @cached_property
    def _log_wrong(self) -> Sequence[float]:
        return [math.log1p(-rate) for rate in self.rates]


@dataclass(frozen=True)
class Estimate:
    """The estimates of a task. Each field has one value for each level. The numbers in `weights` sum to 1."""

    levels: Sequence[float | None]
    pass_rates: Sequence[float]
    signal_chances: Sequence[float]
    novelties: Sequence[float]
    weights: Sequence[float]

    @property
    def level(self) -> float | None:
        """The mean level of the next draws; None if the task has no levels."""
        levels = [level for level in self.levels if level is not None]
        return self._mean(levels) if levels else None

    def below(self, ceiling: float) -> Estimate:
        """Return a copy with only the levels below `ceiling`. A task without levels is unchanged."""
        arms = [arm for arm, level in enumerate(self.levels) if level is None or level < ceiling]
        return Estimate(
            levels=[self.levels[arm] for arm in arms],
            pass_rates=[self.pass_rates[arm] for arm in arms],
            signal_chances=[self.signal_chances[arm] for arm in arms],
            novelties=[self.novelties[arm] for arm in arms],
            weights=_shares([self.weights[arm] for arm in arms]),
        )

    @cached_property
    def pass_rate(self) -> float:
        return self._mean(self.pass_rates)

    @cached_property
    def signal_chance(self) -> float:
        return self._mean(self.signal_chances)

    @cached_property
    def value(self) -> float:
        """How useful one more group is: signal chance times novelty, as a weighted mean over the levels."""
        return self._mean([chance * novel for chance, novel in zip(self.signal_chances, self.novelties, strict=True)])

    def _mean(self, values: Sequence[float]) -> float:
        return math.fsum(weight * value for weight, value in zip(self.weights, values, strict=True))


class SignalEstimator:
    """Computes the `Estimate` of each task from the scores of observed groups.

    Args:
        adjustable: Tasks with an arm for each of LEVELS. Other tasks have a single arm.
        group_size: Number of rollouts in a group.
        target: Desired pass rate, in (0, 1). Levels whose pass rate is near the target get large weights.
        questions: Number of different questions, by task and level. A missing number counts as infinite.
        state: Result of `state()` in an earlier run.
    """

    MEMORY_GROUPS = 16.0
    """A task's `ArmCounts` decay so fast that the estimates depend mainly on this number of latest groups."""
    RATE_GROUPS = 2.0
    """The predicted signal chance weighs as much as this many observed groups."""
    FOCUS = 6.0
    """Strength of the preference for levels whose pass rate is near the target. At a target of 0.7, a pass rate of 0.94
    gives a fifth of the weight that a pass rate of 0.7 gives."""

    def __init__(
        self,
        *,
        adjustable: Collection[str],
        group_size: int,
        target: float,
        questions: Mapping[tuple[str, float | None], float] | None = None,
        state: Mapping[str, Sequence[ArmState]] | None = None,
    ) -> None:
        self._adjustable = frozenset(adjustable)
        self._group_size = group_size
        self._target = target
        self._questions = questions or {}
        self._curves = {levels: _curves(levels, target) for levels in (LEVELS, NO_LEVELS)}
        self._counts = {task: self._restore(task, rows) for task, rows in (state or {}).items()}
        self._estimates: dict[str, Estimate] = {}

    def observe(self, task: str, level: float | None, scores: Sequence[float]) -> None:
        """Add a group of the task at `level`. Each score is in [0, 1]."""
        arms = self._counts.setdefault(task, {})
        decay = 1.0 - 1.0 / self.MEMORY_GROUPS
        for counts in arms.values():
            counts.groups *= decay
            counts.right *= decay
            counts.signals *= decay
        nearest = round((level or 0.0) * (len(self._levels(task)) - 1))
        counts = arms.setdefault(nearest, ArmCounts())
        counts.groups += 1.0
        counts.served += 1
        counts.right += math.fsum(scores) / len(scores)
        if max(scores) > min(scores):
            counts.signals += 1.0
        self._estimates.pop(task, None)

    def estimate(self, task: str) -> Estimate:
        """Return the estimates for each level of a task."""
        if task not in self._estimates:
            self._estimates[task] = self._estimate(task)
        return self._estimates[task]

    def state(self) -> dict[str, object]:
        """Return the state as JSON: for each task, a list of `ArmState`."""
        return {
            task: [[self._levels(task)[arm], *astuple(counts)] for arm, counts in sorted(arms.items())]
            for task, arms in self._counts.items()
        }

    def _restore(self, task: str, rows: Sequence[ArmState]) -> dict[int, ArmCounts]:
        """Return an earlier run's counts by arm, without levels that this run does not use."""
        levels = self._levels(task)
        return {
            levels.index(level): ArmCounts(groups, right, signals, served)
            for level, groups, right, signals, served in rows
            if level in levels
        }

    def _levels(self, task: str) -> tuple[float | None, ...]:
        return LEVELS if task in self._adjustable else NO_LEVELS

    def _estimate(self, task: str) -> Estimate:
        levels = self._levels(task)
        counts = self._counts.get(task, {})
        curves = self._curves[levels]
        logs = [curve.log_weight(counts) for curve in curves]
        highest = max(logs)
        likely = _shares([math.exp(log - highest) for log in logs])
        # The rates are never 0 or 1, because no curve reaches 0 or 1.
        rates = [
            math.fsum(share * curve.rates[arm] for share, curve in zip(likely, curves, strict=True))
            for arm in range(len(levels))
        ]
        chances = [self._signal_chance(rate, counts.get(arm, ArmCounts())) for arm, rate in enumerate(rates)]
        # Never 0, because the learner may succeed at a single level only.
        novelties = [
            1.0 / (1.0 + counts.get(arm, ArmCounts()).served / self._questions.get((task, level), math.inf))
            for arm, level in enumerate(levels)
        ]
        near_target = [math.exp(-self.FOCUS * _divergence(self._target, rate)) for rate in rates]
        weights = _shares([near * novelty for near, novelty in zip(near_target, novelties, strict=True)])
        return Estimate(levels, rates, chances, novelties, weights)

    def _signal_chance(self, rate: float, seen: ArmCounts) -> float:
        """Return the observed share of groups with a signal, averaged with the share that `rate` predicts."""
        from_rate = 1.0 - rate**self._group_size - (1.0 - rate) ** self._group_size
        return (self.RATE_GROUPS * from_rate + seen.signals) / (self.RATE_GROUPS + seen.groups)


def _curves(levels: Sequence[float | None], target: float) -> list[Curve]:
    """Return logistic curves from level to pass rate. Each curve reaches `target` at a level from -0.5 to 1.5.

    If that level is outside of [0, 1], every level is too hard or too easy. Rates stay 0.001 away from 0 and 1, because
    no model is always right or always wrong.
    """
    at_target = math.log(target / (1.0 - target))
    curves = []
    for tenths in range(-5, 16):
        best_level = tenths / 10
        # The logarithm of a normal prior with a standard deviation of 0.5.
        log_prior = -2.0 * (best_level - START_LEVEL) ** 2
        for slope in (3.0, 8.0, 20.0):
            falls = [slope * ((START_LEVEL if level is None else level) - best_level) for level in levels]
            curves.append(Curve([0.001 + 0.998 / (1.0 + math.exp(fall - at_target)) for fall in falls], log_prior))
    return curves


def _divergence(target: float, rate: float) -> float:
    """Return the Kullback-Leibler divergence from `rate` to `target`: 0 if the two are equal, otherwise positive."""
    return target * math.log(target / rate) + (1.0 - target) * math.log((1.0 - target) / (1.0 - rate))


def _shares(values: Sequence[float]) -> list[float]:
    total = math.fsum(values)
    return [value / total for value in values]
