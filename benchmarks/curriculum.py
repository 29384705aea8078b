"""How soon and closely difficulty follows simulated learners, beside the usual rule of fixed steps.

`python -m benchmarks.curriculum` serves each learner of `benchmarks._learners` 300 groups, for several group sizes,
delays (how many later groups are served before one is observed) and seeds, and judges the served levels by the true
chance of success, which only the simulation knows. Ours serves the middle of its band here, and nothing else of it.

The usual rule starts at level 0.3 and looks at the mean of the last 5 groups: more than 0.05 off the target it moves
the level by 0.05, above 0.9 or below 0.3 by 0.1. It comes in two readings: `steps` moves after every group, and
`pauses` waits for 5 new groups after each look, which is slower to move and does not count a group twice.

- groups: how many are served before one from which on the chance is within 0.1 of the target in this and in at least
  four fifths of the next 20 groups; the whole stretch where that never happens. A jump of the learner begins a new
  stretch, and the stretches' mean counts; where the target cannot be reached before the jump only the one after counts.
- error: the mean distance of the chance from the target in the second half of each stretch, settled or not.
- settled: the share of stretches in which it came and stayed that close.

A learner that no level brings to the target is measured by the distance of its level from that end of the range that
is nearest to the target. Each learner's figures are in `learners`. The ratios are sums over learners, ours by the
rule's: of those with a reachable target, but for those that start within 0.1 of it, and of the others (`bound`).

Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass

from reasoning_env.tasks.learning.curriculum import Curriculum

from ._learners import JUMP, LEARNERS, TARGET, Learner

GROUPS = 300
SIZES = (4, 8, 16)
NEAR = 0.1
STAYS_GROUPS = 20
STAYS_SHARE = 0.8
START = 0.3
SMALL = 1e-6
"""In place of an error of 0, which nothing can be divided by."""
WINDOW = 5


class StepRule:
    """The usual rule, asked as our curriculum is; with `pauses` it awaits a new window after each look."""

    def __init__(self, *, pauses: bool) -> None:
        self._level = START
        self._recent: deque[float] = deque(maxlen=WINDOW)
        self._pauses = pauses

    def level(self, task: str) -> float:
        return self._level

    def observe(self, task: str, level: float, successes: int, size: int, under_way: int) -> None:
        self._recent.append(successes / size)
        if self._pauses and len(self._recent) < WINDOW:
            return
        mean = sum(self._recent) / len(self._recent)
        if self._pauses:
            self._recent.clear()
        step = 0.1 if mean > 0.9 or mean < 0.3 else 0.05 if abs(mean - TARGET) > 0.05 else 0.0
        self._level = min(1.0, max(0.0, self._level + (step if mean > TARGET else -step)))


Controller = Curriculum | StepRule
TASK = "task"
"""The only one."""
CONTROLLERS: Mapping[str, Callable[[], Controller]] = {
    "ours": lambda: Curriculum(TARGET, start=START),
    "steps": lambda: StepRule(pauses=False),
    "pauses": lambda: StepRule(pauses=True),
}
RULES = ("steps", "pauses")


@dataclass(frozen=True)
class Case:
    """A learner under one condition."""

    learner: Learner
    size: int
    delay: int


@dataclass(frozen=True)
class Figures:
    """Means over seeds: groups before it settles, error in the second half, whether it settled at all."""

    groups: float
    error: float
    settled: float


def serve(controller: Controller, case: Case, seed: int) -> list[float]:
    """Return the levels that were served."""
    random_state = random.Random(f"{case.learner.name}/{case.size}/{case.delay}/{seed}")
    levels: list[float] = []
    unseen: deque[tuple[float, int]] = deque()
    for number in range(GROUPS):
        level = case.learner.served(controller.level(TASK))
        levels.append(level)
        unseen.append((level, case.learner.successes(level, number / GROUPS, case.size, random_state)))
        if len(unseen) > case.delay:
            level, successes = unseen.popleft()
            controller.observe(TASK, level, successes, case.size, len(unseen))
    return levels


def distance(learner: Learner, level: float, time: float) -> float:
    """Return how far a level is from what the learner should be given."""
    if learner.reachable:
        return abs(learner.chance(level, time) - TARGET)
    return abs(level - (1.0 if learner.chance(0.5, 0.0) > TARGET else 0.0))


def stretches(learner: Learner) -> list[range]:
    """Return the stretches of a run that are judged: from the start or a jump, to the next or the end."""
    edges = [0.0, 1.0] if learner.then is None else [0.0, JUMP, 1.0]
    judged_from = learner.reachable_from if learner.reachable else 0.0
    pairs = itertools.pairwise(edges)
    return [range(round(start * GROUPS), round(end * GROUPS)) for start, end in pairs if start >= judged_from]


def settle(errors: Sequence[float], stretch: range) -> int | None:
    """Return the groups of a stretch before the errors are small and stay so."""
    for first in stretch[: -STAYS_GROUPS + 1]:
        window = errors[first : first + STAYS_GROUPS]
        if window[0] <= NEAR and sum(error <= NEAR for error in window) >= STAYS_SHARE * STAYS_GROUPS:
            return first - stretch.start
    return None


def judge(errors: Sequence[float], parts: Sequence[range]) -> Figures:
    waits = [settle(errors, part) for part in parts]
    later = [errors[number] for part in parts for number in part[len(part) // 2 :]]
    groups = [len(part) if wait is None else wait for part, wait in zip(parts, waits, strict=True)]
    settled = sum(wait is not None for wait in waits) / len(parts)
    return Figures(sum(groups) / len(parts), sum(later) / len(later), settled)


def measure(controller: Callable[[], Controller], case: Case, seeds: int) -> Figures:
    results = []
    for seed in range(seeds):
        levels = serve(controller(), case, seed)
        errors = [distance(case.learner, level, number / GROUPS) for number, level in enumerate(levels)]
        results.append(judge(errors, stretches(case.learner)))
    return mean(results)


def mean(results: Iterable[Figures]) -> Figures:
    columns = list(zip(*map(astuple, results), strict=True))
    return Figures(*(sum(column) / len(column) for column in columns))


def starts_within(learner: Learner) -> bool:
    """Tell whether the learner is near the target at the starting level, in every stretch."""
    times = (stretch.start / GROUPS for stretch in stretches(learner))
    return all(distance(learner, learner.served(START), time) <= NEAR for time in times)


Results = Mapping[str, Mapping[Case, Figures]]


def ratios(results: Results, cases: Iterable[Case]) -> dict[str, dict[str, float]]:
    """Return ours by each rule's, and how often both settled."""
    cases = list(cases)
    means = {name: mean(found[case] for case in cases) for name, found in results.items()}
    ours = means["ours"]
    return {
        rule: {
            "groups": round(ours.groups / means[rule].groups, 3),
            "error": round(ours.error / max(means[rule].error, SMALL), 3),
            "settled_ours": round(ours.settled, 3),
            "settled_rule": round(means[rule].settled, 3),
        }
        for rule in RULES
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="runs of each case")
    parser.add_argument("--delays", type=int, nargs="+", default=[0, 16], help="groups served before one is observed")
    options = parser.parse_args()
    started = time.perf_counter()
    cases = [Case(learner, size, delay) for learner in LEARNERS for size in SIZES for delay in options.delays]
    results = {
        name: {case: measure(controller, case, options.seeds) for case in cases}
        for name, controller in CONTROLLERS.items()
    }
    judged = [case for case in cases if case.learner.reachable and not starts_within(case.learner)]
    learners = {
        learner.name: {
            name: [
                round(figure, 3) for figure in astuple(mean(found[case] for case in cases if case.learner is learner))
            ]
            for name, found in results.items()
        }
        for learner in LEARNERS
    }
    result = {
        "benchmark": "curriculum",
        "target": TARGET,
        "groups": GROUPS,
        "seeds": options.seeds,
        "all": ratios(results, judged),
        "by_delay": {d: ratios(results, (case for case in judged if case.delay == d)) for d in options.delays},
        "by_size": {size: ratios(results, (case for case in judged if case.size == size)) for size in SIZES},
        "bound": ratios(results, (case for case in cases if not case.learner.reachable)),
        "learners": learners,
        "took_s": round(time.perf_counter() - started, 1),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
