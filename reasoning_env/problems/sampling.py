"""Draw problem specs: a task, its parameters, a level and a seed for each position of a stream.

A draw depends only on the run seed, the session's number (`instance`), the position, the attempt and the sampler's
present state: quarantined tasks, excluded levels and, with a curriculum or adaptive sampling, each task's `Estimate`.
Later observations do not change earlier draws.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TypeVar

from ..errors import GenerationError
from ..metrics.stats import TaskReport
from ..records import LEVEL_STEPS, ProblemRequest, ProblemSpec, Split, level_step
from ..seeds import hash_fraction, train_seed
from .estimator import Estimate, SignalEstimator

T = TypeVar("T")


class TaskSampler:
    """Draws the problem specs of one stream. Streams differ in `run_seed` or in `instance`, the session's number.

    Args:
        weights: Weight of each task in the draws.
        params: The library's parameters, by task.
        level: Level of all specs, in [0, 1]; None for the library's defaults.
        random_levels: Draw a level for each spec, uniformly from [0, 1].
        estimator: Its weights decide how often each level of a task is drawn.
        adaptive: Draw tasks more often if their groups are more likely to have a signal.
    """

    EVEN_SHARE = 0.25
    """Share of adaptive draws that is split evenly between the tasks, so that no task is drawn too rarely."""

    def __init__(
        self,
        weights: Mapping[str, float],
        *,
        run_seed: int,
        instance: int = 0,
        params: Mapping[str, Mapping[str, object]] | None = None,
        level: float | None = None,
        random_levels: bool = False,
        estimator: SignalEstimator | None = None,
        adaptive: bool = False,
    ) -> None:
        self._tasks = tuple(weights)
        self._weights = {task: weight for task, weight in weights.items() if weight > 0.0}
        self._weight_shares = _normalize(self._weights)
        self._stream = (run_seed, instance)
        self._params = params or {}
        self._fixed_level = level
        self._random_levels = random_levels
        self._estimator = estimator
        self._adaptive = adaptive
        self.ceilings: dict[str, float] = {}
        """The lowest excluded level of each task. All higher levels are excluded too."""

    def draw(self, index: int, attempt: int) -> ProblemSpec:
        """Draw the spec of problem number `index` of the stream. Raises GenerationError if no task is left."""
        if not self._weights:
            raise GenerationError("every selected task is quarantined; see the warnings above for the reasons")
        task = pick(self._shares(), hash_fraction("task", *self._stream, index, attempt))
        seed = train_seed(*self._stream, index, attempt)
        level = self._draw_level(task, hash_fraction("level", *self._stream, index, attempt))
        request = ProblemRequest(task, seed, self._params.get(task, {}), level)
        return ProblemSpec(request, Split.TRAIN, index, attempt)

    def redraw(self, spec: ProblemSpec) -> ProblemSpec:
        """Return a new spec for the position of `spec`: a new seed, and a new level if the old level is excluded."""
        attempt = spec.attempt + 1
        level = spec.level
        if level is not None and nearest_level(level) >= self.ceilings.get(spec.task, math.inf):
            level = self._draw_level(spec.task, hash_fraction("level", *self._stream, spec.index, attempt))
        seed = train_seed(*self._stream, spec.index, attempt)
        request = replace(spec.request, seed=seed, level=level, exact_seed=False)
        return replace(spec, request=request, attempt=attempt)

    def quarantine(self, task: str) -> None:
        """Stop drawing a task."""
        self._weights.pop(task, None)
        self._weight_shares = _normalize(self._weights)

    def exclude_levels(self, task: str, level: float) -> bool:
        """Stop drawing a task at this level and above. Return False if the level is fixed or already excluded."""
        if self._fixed_level is not None or level >= self.ceilings.get(task, math.inf):
            return False
        self.ceilings[task] = level
        return True

    def observe(self, task: str, level: float | None, scores: Sequence[float]) -> None:
        """Update the estimates with the scores of a group. Groups may be observed late and in any order."""
        if self._estimator is not None:
            self._estimator.observe(task, level, scores)

    def report(self) -> dict[str, TaskReport]:
        """Return each task's share of the draws, and its estimates; {} if there is no estimator."""
        if self._estimator is None:
            return {}
        shares = self._shares()
        estimates = {task: self._estimate(task) for task in self._tasks}
        return {
            task: TaskReport(shares.get(task, 0.0), estimate.pass_rate, estimate.signal_chance, estimate.level)
            for task, estimate in estimates.items()
        }

    def state(self) -> dict[str, object]:
        """Return the estimator's state as JSON."""
        return {} if self._estimator is None else self._estimator.state()

    def _shares(self) -> Mapping[str, float]:
        """Return each remaining task's share of the draws. The shares sum to 1."""
        if self._estimator is None or not self._adaptive:
            return self._weight_shares
        # Square the values: apart from the even part, a task with half of another's value gets a quarter of its draws.
        above = _normalize({task: self._estimate(task).value ** 2 for task in self._weights})
        return {task: self.EVEN_SHARE / len(above) + (1.0 - self.EVEN_SHARE) * share for task, share in above.items()}

    def _draw_level(self, task: str, number: float) -> float | None:
        if self._random_levels:
            # A level within half a step of an excluded level would be rounded to the excluded level.
            return number * (self.ceilings[task] - 0.5 / LEVEL_STEPS) if task in self.ceilings else number
        if self._estimator is None:
            return self._fixed_level
        estimate = self._estimate(task)
        level = pick(dict(zip(estimate.levels, estimate.weights, strict=True)), number)
        return self._fixed_level if level is None else level

    def _estimate(self, task: str) -> Estimate:
        """Return a task's `Estimate` without the excluded levels."""
        assert self._estimator is not None
        estimate = self._estimator.estimate(task)
        return estimate.below(self.ceilings[task]) if task in self.ceilings else estimate


def pick(weights: Mapping[T, float], number: float) -> T:
    """Pick a key with a probability proportional to its weight. `number`, uniform in [0, 1), decides."""
    limits = list(accumulate(weights.values()))
    # Rounding may make the product equal to the last limit.
    return list(weights)[min(bisect(limits, number * limits[-1]), len(limits) - 1)]


def nearest_level(level: float) -> float:
    """Round a level to the nearest level for which workers have parameters."""
    return level_step(level) / LEVEL_STEPS


def _normalize(weights: Mapping[str, float]) -> dict[str, float]:
    """Return each weight divided by the sum; equal shares if all weights are 0."""
    total = math.fsum(weights.values())
    return {task: weight / total if total else 1.0 / len(weights) for task, weight in weights.items()}
