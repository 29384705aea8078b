"""Simulated learners: how likely one answer is right, by the level of the problem and by time.

Their true chance is known, so that a controller can be judged by it and not by the noise of its groups. Rollouts of one
problem are alike, as a policy's are: the chance of each problem is drawn from a beta distribution around the learner's,
with the correlation that the learner has (0 gives independent rollouts).
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

TARGET = 0.7
JUMP = 0.5
NEVER = 1.0


Curve = Callable[[float, float], float]
"""The true chance of one answer, at a level in [0, 1] and a time in [0, 1] of the run."""


@dataclass(frozen=True)
class Learner:
    """A learner whose chance follows `curve`, and from JUMP on `then`, where there is one.

    Before `reachable_from` no level brings it to the target. `levels`, where there are any, are the only ones that the
    task has: a level that is asked for becomes the nearest of them.
    """

    name: str
    curve: Curve
    then: Curve | None = None
    reachable_from: float = 0.0
    levels: tuple[float, ...] = ()
    correlation: float = 0.0

    @property
    def reachable(self) -> bool:
        """Whether some level brings it to the target, at least from some time on."""
        return self.reachable_from < NEVER

    def chance(self, level: float, time: float) -> float:
        """Return the true chance of one answer."""
        return (self.then if self.then and time >= JUMP else self.curve)(level, time)

    def served(self, level: float) -> float:
        """Return the level that the task really gives for one that is asked for."""
        return min(self.levels, key=lambda one: abs(one - level)) if self.levels else level

    def successes(self, level: float, time: float, size: int, random_state: random.Random) -> int:
        """Return how many of a group's rollouts are right."""
        chance = self.chance(level, time)
        if self.correlation and 0.0 < chance < 1.0:
            weight = 1.0 / self.correlation - 1.0
            chance = random_state.betavariate(weight * chance, weight * (1.0 - chance))
        return sum(random_state.random() < chance for _ in range(size))


def sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x)) if x > -500 else 0.0


def logit(share: float) -> float:
    return math.log(share / (1.0 - share))


def logistic(best: float, slope: float, until: float | None = None) -> Curve:
    """Return a logistic curve, at the target at level `best`, which may move to `until` over the run."""
    end = best if until is None else until
    return lambda level, time: sigmoid(logit(TARGET) + slope * (best + (end - best) * time - level))


def _cliff(level: float, _: float) -> float:
    return 0.95 if level < 0.6 else max(0.05, 0.95 - 6.0 * (level - 0.6))


def _waves(level: float, time: float) -> float:
    return sigmoid(logit(TARGET) + 6.0 * (0.5 + 0.25 * math.sin(4.0 * math.pi * time) - level))


LEARNERS = (
    Learner("weak", logistic(0.1, 6.0)),
    Learner("able", logistic(0.6, 6.0)),
    Learner("strong", logistic(0.9, 6.0)),
    Learner("steep", logistic(0.55, 20.0)),
    Learner("steep_weak", logistic(0.1, 15.0)),
    Learner("flat", logistic(0.8, 2.5)),
    Learner("starts_there", logistic(0.32, 6.0)),
    Learner("linear", lambda level, _: 1.0 - 0.45 * level),
    Learner("convex", lambda level, _: 1.0 - level * level),
    Learner("cliff", _cliff),
    Learner("guesser", lambda level, _: 0.25 + 0.75 * sigmoid(8.0 * (0.6 - level))),
    Learner("lapses", lambda level, _: 0.9 * sigmoid(8.0 * (0.7 - level))),
    Learner("few_levels", logistic(0.52, 6.0), levels=(0.0, 0.25, 0.5, 0.75, 1.0)),
    Learner("clamped", logistic(0.5, 6.0), levels=tuple(number / 50 for number in range(31))),
    Learner("correlated", logistic(0.6, 6.0), correlation=0.3),
    Learner("correlated_weak", logistic(0.1, 6.0), correlation=0.3),
    Learner("learning", logistic(0.1, 6.0, until=0.9)),
    Learner("learning_slowly", logistic(0.5, 6.0, until=0.7)),
    Learner("forgetting", logistic(0.9, 6.0, until=0.2)),
    Learner("waves", _waves),
    Learner("jump_up", logistic(0.2, 6.0), logistic(0.8, 6.0)),
    Learner("jump_down", logistic(0.8, 6.0), logistic(0.2, 6.0)),
    Learner("jump_steep", logistic(0.45, 10.0), logistic(0.65, 10.0)),
    Learner("back_from_easy", logistic(1.8, 6.0), logistic(0.5, 6.0), reachable_from=JUMP),
    Learner("back_from_hard", logistic(-0.6, 6.0), logistic(0.5, 6.0), reachable_from=JUMP),
    Learner("back_from_right", lambda *_: 1.0, logistic(0.5, 6.0), reachable_from=JUMP),
    Learner("back_from_wrong", lambda *_: 0.0, logistic(0.5, 6.0), reachable_from=JUMP),
    Learner("always_right", lambda *_: 1.0, reachable_from=NEVER),
    Learner("too_easy", lambda *_: 0.97, reachable_from=NEVER),
    Learner("easy_at_most", logistic(1.4, 6.0), reachable_from=NEVER),
    Learner("always_wrong", lambda *_: 0.0, reachable_from=NEVER),
    Learner("too_hard", lambda *_: 0.02, reachable_from=NEVER),
    Learner("hard_at_least", logistic(-0.4, 6.0), reachable_from=NEVER),
    Learner("plateau", lambda *_: 0.5, reachable_from=NEVER),
)
"""Of those that no level ever brings to the target, the first three belong at level 1, the others at level 0."""


def mixed_bank(count: int, default_level: float, random_state: random.Random) -> tuple[Learner, ...]:
    """Return learners as a bank of tasks has them at the library's default difficulty, in no order.

    A third of them is almost always wrong there (chance 0.002 to 0.03), a fifth almost always right (0.97 to 0.998),
    the others lie evenly between 0.05 and 0.95. Their chance falls with the level along a logistic curve whose slope
    lies between 4 and 12; a tenth reacts hardly at all (slope 0.5). Rollouts of a problem correlate by 0.1.
    """
    learners = []
    for number in range(count):
        if number < count // 3:
            at_default = random_state.uniform(0.002, 0.03)
        elif number < count // 3 + count // 5:
            at_default = 1.0 - random_state.uniform(0.002, 0.03)
        else:
            at_default = random_state.uniform(0.05, 0.95)
        slope = 0.5 if number % 10 == 9 else random_state.uniform(4.0, 12.0)
        best = default_level + (logit(at_default) - logit(TARGET)) / slope
        learners.append(Learner(f"task_{number:03d}", logistic(best, slope), correlation=0.1))
    random_state.shuffle(learners)
    return tuple(learners)
