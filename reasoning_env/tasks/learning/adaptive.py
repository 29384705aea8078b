"""Draws that follow observations: tasks by static weights or signal chance, levels by curriculum.

A group teaches only if its scores are not all equal. `SignalTracker` estimates, for each task, how likely that is in
the next group, from two sources with exponential forgetting. The pass rate p of its recent rollouts has a beta
posterior, under which a group of n has unequal scores with probability

    E[1 - p^n - (1 - p)^n] = 1 - B(a + n, b) / B(a, b) - B(a, b + n) / B(a, b)

(the ends of the beta-binomial distribution). That presumes right or wrong answers and problems of one difficulty, so it
counts only as much as a few groups against the share of the groups that were seen to have a signal.

`SteeredSampler` draws each task in proportion to its share: every draw adds the shares to the tasks' credits, takes the
task with the largest sum of credit and a hashed number in [0, 1), and charges it 1. So no task ever lags far behind its
share, and the floor holds in any longer stretch of draws, not only in the mean (deficit round robin, with weights that
change; Shreedhar and Varghese 1996, IEEE/ACM ToN 4(3)). The hashed numbers keep the order from repeating itself
(multiply-shift; Dietzfelbinger et al. 1997, Journal of Algorithms 25(1)).

Draws happen ahead of demand, before what is observed later, so a draw is a function of the state that it was made in;
the stream of problems keeps what was drawn and is not done. There is no random generator with a state.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ...errors import ConfigError, GenerationError
from ...records import Group, ProblemSpec, TaskReport
from ..parameters import SpecRules
from ..sampling import UniformSampler
from ..seeds import HASH_RANGE, hash_int
from .curriculum import Curriculum

MEMORY_GROUPS = 12.0
"""How many recent groups of a task its estimates rest on."""
RATE_GROUPS = 4.0
"""How many observed groups the chance computed from the pass rate is worth."""
SHARPNESS = 2.0
"""Free shares grow with this power of the chance of a signal."""
FLOOR = 0.3
"""The part of the draws that is spread evenly; more than the quarter promised to each task, because credits lag."""
MIN_CHANCE = 1e-3
"""The least that a chance of a signal counts, so that there are shares even where no task has any chance."""


@dataclass(frozen=True)
class _Record:
    """Discounted counts of rollouts and groups, and the chance of a signal that they give."""

    right: float
    wrong: float
    with_signal: float
    without_signal: float
    chance: float


class SignalTracker:
    """Estimates each task's pass rate and its chance of a signal in a group of `group_size` rollouts.

    An unobserved task counts as likely to give a signal, so that all are tried. `state` is what `state()` returned.
    """

    def __init__(self, group_size: int, state: Mapping[str, Any] | None = None) -> None:
        self._group_size = group_size
        self._new = _Record(0.0, 0.0, 0.0, 0.0, self._chance_from_rate(0.0, 0.0))
        self._records = {task: _Record(**record) for task, record in (state or {}).items()}

    def observe(self, task: str, successes: float, size: int, *, signal: bool) -> None:
        """Learn from a group; `successes`, in [0, size], need not be whole; `signal` tells if scores differ."""
        old = self._records.get(task, self._new)
        kept = 1.0 - 1.0 / MEMORY_GROUPS
        right = kept * old.right + successes
        wrong = kept * old.wrong + size - successes
        with_signal = kept * old.with_signal + signal
        without_signal = kept * old.without_signal + (not signal)
        groups = RATE_GROUPS + with_signal + without_signal
        chance = (RATE_GROUPS * self._chance_from_rate(right, wrong) + with_signal) / groups
        self._records[task] = _Record(right, wrong, with_signal, without_signal, chance)

    def signal_chance(self, task: str) -> float:
        return self._records.get(task, self._new).chance

    def pass_rate(self, task: str) -> float:
        """Return the mean of the posterior under a uniform prior: a half where nothing was observed."""
        record = self._records.get(task, self._new)
        return (record.right + 1.0) / (record.right + record.wrong + 2.0)

    def state(self) -> dict[str, Any]:
        return {task: asdict(record) for task, record in self._records.items()}

    def _chance_from_rate(self, right: float, wrong: float) -> float:
        all_right = all_wrong = 1.0
        for number in range(self._group_size):
            all_right *= (right + 1.0 + number) / (right + wrong + 2.0 + number)
            all_wrong *= (wrong + 1.0 + number) / (right + wrong + 2.0 + number)
        return max(0.0, 1.0 - all_right - all_wrong)


class SteeredSampler(UniformSampler):
    """A sampler whose tasks, levels or both depend on what `observe` was told.

    `tasks`, `available` and `rules` are as in UniformSampler. `weights` fixes the tasks' shares (see `static_weights`);
    None lets them follow the chance of a signal. With a `curriculum`, the tasks in `adjustable` get its level. `state`
    is what `state()` returned; a curriculum is made with its part.
    """

    def __init__(
        self,
        tasks: Sequence[str],
        available: Sequence[str],
        rules: SpecRules,
        *,
        group_size: int,
        weights: Mapping[str, float] | None = None,
        curriculum: Curriculum | None = None,
        adjustable: Collection[str] = (),
        state: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(tasks, available, rules)
        saved = state or {}
        self._weights = weights
        self._curriculum = curriculum
        self._adjustable = frozenset(adjustable)
        # A task's number times a draw's gives each pair a number, for one hash a draw instead of one a task.
        self._dice = {task: hash_int("dice", task) | 1 for task in self._tasks}
        self._tracker = SignalTracker(group_size, saved.get("signals"))
        self._credits = dict.fromkeys(self._tasks, 0.0) | saved.get("credits", {})

    def draw(self, index: int, attempt: int) -> ProblemSpec:
        """Return a new draw for a position; raises GenerationError when no task is left."""
        task = self._choose(index, attempt)
        return self._spec(task, index, attempt, self._draw_level(task, index, attempt))

    def observe(self, group: Group, under_way: int) -> None:
        """Learn from a scored group: how right it was, without length penalty, and whether its scores differ.

        Groups may come late and in any order.
        """
        verdicts = [rollout.verdict for rollout in group.rollouts if rollout.verdict is not None]
        successes, size, problem = sum(verdict.score for verdict in verdicts), len(verdicts), group.problem
        self._tracker.observe(problem.task, successes, size, signal=group.has_signal)
        if self._curriculum is not None and problem.level is not None:
            self._curriculum.observe(problem.task, problem.level, successes, size, under_way)

    def report(self) -> dict[str, TaskReport]:
        """Return what is known of each task; a quarantined task has no share."""
        shares = self._shares()
        return {
            task: TaskReport(
                shares.get(task, 0.0),
                self._tracker.pass_rate(task),
                self._tracker.signal_chance(task),
                self._level(task),
            )
            for task in self._tasks
        }

    def state(self) -> dict[str, Any]:
        """Return what a later sampler needs to go on from here, as JSON."""
        return {
            "credits": dict(self._credits),
            "signals": self._tracker.state(),
            "curriculum": None if self._curriculum is None else self._curriculum.state(),
        }

    def _level(self, task: str) -> float | None:
        if self._curriculum is None or task not in self._adjustable:
            return None
        return self._curriculum.level(task)

    def _draw_level(self, task: str, index: int, attempt: int) -> float | None:
        if self._curriculum is None or task not in self._adjustable:
            return None
        low, high = self._curriculum.band(task)
        return low + (high - low) * hash_int("level", *self._stream, index, attempt) / HASH_RANGE

    def _choose(self, index: int, number: int) -> str:
        shares = self._shares()
        if not shares:
            raise GenerationError(
                "every selected task is quarantined or has the weight 0; see the warnings above for the reasons"
            )
        for task, share in shares.items():
            self._credits[task] += share
        roll = hash_int("steered", *self._stream, index, number)
        chosen = max(shares, key=lambda task: self._credits[task] + self._dice[task] * roll % HASH_RANGE / HASH_RANGE)
        self._credits[chosen] -= 1.0
        return chosen

    def _shares(self) -> dict[str, float]:
        """Return the shares of the tasks that may be drawn, which sum to 1."""
        open_tasks = [task for task in self._tasks if task not in self._quarantined]
        if self._weights is not None:
            return _normalise({task: self._weights[task] for task in open_tasks if self._weights[task] > 0.0})
        chances = {task: max(MIN_CHANCE, self._tracker.signal_chance(task)) for task in open_tasks}
        free = _normalise({task: chance**SHARPNESS for task, chance in chances.items()})
        return {task: FLOOR / len(open_tasks) + (1.0 - FLOOR) * share for task, share in free.items()}


def static_weights(tasks: Iterable[str], wanted: Mapping[str, float]) -> dict[str, float]:
    """Return the weight of each task, 1 where none is wanted; 0 leaves a task out.

    `wanted` names some of the tasks. Raises ConfigError for a weight that is negative or not finite, and for all 0.
    """
    weights = dict.fromkeys(tasks, 1.0)
    for task, weight in wanted.items():
        if not 0.0 <= weight < float("inf"):
            raise ConfigError(f"task_weights: the weight of {task!r} must be a number from 0 upwards; got {weight!r}")
        weights[task] = float(weight)
    if not any(weights.values()):
        raise ConfigError("task_weights: every selected task has the weight 0; give at least one a positive weight")
    return weights


def _normalise(values: Mapping[str, float]) -> dict[str, float]:
    total = math.fsum(values.values())  # exact, where `sum` depends on the version of Python
    return {name: value / total for name, value in values.items()}
