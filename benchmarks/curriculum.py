"""How soon and how closely difficulty follows simulated learners, beside the usual rule of fixed steps.

`python -m benchmarks.curriculum` serves each learner of `benchmarks.learners` 300 groups, for several group sizes,
delays (how many later groups are served before one is observed) and seeds, and verifier workers the served levels by
the true chance of success, which only the simulation knows.

The usual rule starts at level 0.3 and looks at the mean of the last 5 groups: more than 0.05 off the target it moves
the level by 0.05, above 0.9 or below 0.3 by 0.1. It comes in two readings: `steps` moves after every group, and
`pauses` waits for 5 new groups after each look, which is slower to move and does not count a group twice.

- groups: how many are served before one from which on the chance is within 0.1 of the target in this and in at least
  four fifths of the next 20 groups; the whole stretch where that never happens. A jump of the learner begins a new
  stretch, and the stretches' mean counts; where the target cannot be reached before the jump only the one after counts.
- error: the mean distance of the chance from the target in the second half of each stretch, settled or not.
- learners_at_most_half: for how many learners ours is at most half of the rule's, over its sizes and delays.
- bound: for learners that no level brings to the target, the groups before the level stays (in the same sense) within
  0.1 of the end of the range that is nearest to it, and the mean distance from there in the second half.

Ratios are sums over learners, ours by the rule's. A learner that starts within 0.1 of the target is in the table and in
no ratio. Prints the table, then one line of JSON.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from benchmarks.learners import REACHABLE, RETURNING, TARGET, UNREACHABLE, Learner
from reasoning_env.tasks.learning.curriculum import Curriculum

GROUPS = 300
SIZES = (4, 8, 16)
NEAR = 0.1
STAYS_GROUPS = 20
STAYS_SHARE = 0.8
START = 0.3
WINDOW = 5
RETURNING_NAMES = frozenset(learner.name for learner in RETURNING)
UNREACHABLE_NAMES = frozenset(learner.name for learner in UNREACHABLE)


class Controller(Protocol):
    def level(self) -> float: ...

    def observe(self, level: float, successes: int, size: int, under_way: int) -> None: ...


class StepRule:
    """The usual rule; `pauses` makes it wait for a whole window of new groups after each look."""

    def __init__(self, *, pauses: bool) -> None:
        self._level = START
        self._recent: deque[float] = deque(maxlen=WINDOW)
        self._pauses = pauses

    def level(self) -> float:
        return self._level

    def observe(self, level: float, successes: int, size: int, under_way: int) -> None:
        self._recent.append(successes / size)
        if self._pauses and len(self._recent) < WINDOW:
            return
        mean = sum(self._recent) / len(self._recent)
        if self._pauses:
            self._recent.clear()
        step = 0.1 if mean > 0.9 or mean < 0.3 else 0.05 if abs(mean - TARGET) > 0.05 else 0.0
        self._level = min(1.0, max(0.0, self._level + (step if mean > TARGET else -step)))


class Fitted:
    """The project's curriculum, for a single task."""

    def __init__(self) -> None:
        self._curriculum = Curriculum(TARGET, start=START)

    def level(self) -> float:
        return self._curriculum.level("task")

    def observe(self, level: float, successes: int, size: int, under_way: int) -> None:
        self._curriculum.observe("task", level, successes, size, under_way)


CONTROLLERS: Mapping[str, Callable[[], Controller]] = {
    "ours": Fitted,
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
    """Groups before it settles, the mean error afterwards, and whether it settled at all, each a mean over seeds."""

    groups: float
    error: float
    settled: float


def serve(controller: Controller, case: Case, seed: int) -> list[float]:
    """The levels that were served."""
    random_state = random.Random(f"{case.learner.name}/{case.size}/{case.delay}/{seed}")
    levels: list[float] = []
    unseen: deque[tuple[float, int]] = deque()
    for number in range(GROUPS):
        level = case.learner.served(controller.level())
        levels.append(level)
        unseen.append((level, case.learner.successes(level, number / GROUPS, case.size, random_state)))
        if len(unseen) > case.delay:
            level, successes = unseen.popleft()
            controller.observe(level, successes, case.size, len(unseen))
    return levels


def stretches(learner: Learner) -> list[range]:
    """The stretches of a run that are judged: from the start, or a jump, to the next jump or the end."""
    edges = [0, *(round(jump * GROUPS) for jump in learner.jumps), GROUPS]
    found = [range(first, last) for first, last in itertools.pairwise(edges)]
    return found[1:] if learner.name in RETURNING_NAMES else found


def settle(errors: Sequence[float], stretch: range) -> int | None:
    """The groups of a stretch before the errors are small and stay so."""
    for first in stretch[: -STAYS_GROUPS + 1]:
        window = errors[first : first + STAYS_GROUPS]
        if window[0] <= NEAR and sum(error <= NEAR for error in window) >= STAYS_SHARE * STAYS_GROUPS:
            return first - stretch.start
    return None


def verifier(errors: Sequence[float], parts: Sequence[range]) -> Figures:
    waits = [settle(errors, part) for part in parts]
    later = [errors[number] for part in parts for number in part[len(part) // 2 :]]
    groups = [len(part) if wait is None else wait for part, wait in zip(parts, waits, strict=True)]
    settled = sum(wait is not None for wait in waits) / len(parts)
    return Figures(sum(groups) / len(parts), sum(later) / len(later), settled)


def measure(controller: Callable[[], Controller], case: Case, seeds: int) -> Figures:
    results = []
    for seed in range(seeds):
        levels = serve(controller(), case, seed)
        learner = case.learner
        if learner.name in UNREACHABLE_NAMES:
            bound = 1.0 if learner.chance(0.5, 0.0) > TARGET else 0.0
            errors = [abs(level - bound) for level in levels]
        else:
            errors = [abs(learner.chance(level, n / GROUPS) - TARGET) for n, level in enumerate(levels)]
        results.append(verifier(errors, stretches(learner)))
    return mean(results)


def mean(results: Iterable[Figures]) -> Figures:
    rows = list(results)
    return Figures(
        sum(row.groups for row in rows) / len(rows),
        sum(row.error for row in rows) / len(rows),
        sum(row.settled for row in rows) / len(rows),
    )


Results = Mapping[str, Mapping[Case, Figures]]


def ratios(results: Results, cases: Sequence[Case], rule: str) -> dict[str, float]:
    """Ours by the rule's: sums of groups, sums of errors, and the same of groups where both settled in every run."""
    ours, theirs = ([results[name][case] for case in cases] for name in ("ours", rule))
    both = [pair for pair in zip(ours, theirs, strict=True) if pair[0].settled == pair[1].settled == 1.0]
    found = {
        "groups": sum(row.groups for row in ours) / sum(row.groups for row in theirs),
        "error": sum(row.error for row in ours) / sum(row.error for row in theirs),
        "settled_ours": mean(ours).settled,
        "settled_rule": mean(theirs).settled,
        "error_ours": mean(ours).error,
        "error_rule": mean(theirs).error,
    }
    for name in ("groups", "error"):
        learners = {case.learner for case in cases}
        found[f"learners_at_most_half_{name}"] = sum(_halves(results, cases, rule, one, name) for one in learners)
    found["learners"] = len(learners)
    if both:
        found["groups_where_both_settle"] = sum(one.groups for one, _ in both) / sum(other.groups for _, other in both)
    return {name: round(value, 3) for name, value in found.items()}


def in_steps(learner: Learner, steps: int) -> Learner:
    """The learner on a task whose levels are multiples of 1 / steps, where it has no levels of its own."""
    if learner.levels or not steps:
        return learner
    return replace(learner, levels=tuple(number / steps for number in range(steps + 1)))


def _halves(results: Results, cases: Sequence[Case], rule: str, learner: Learner, name: str) -> bool:
    ours, theirs = (
        sum(getattr(results[one][c], name) for c in cases if c.learner is learner) for one in ("ours", rule)
    )
    return bool(ours <= theirs / 2)


def starts_within(learner: Learner) -> bool:
    """Whether the learner is within reach of the target at the level that everything starts at, in every stretch."""
    times = (stretch.start / GROUPS for stretch in stretches(learner))
    return all(abs(learner.chance(learner.served(START), time) - TARGET) <= NEAR for time in times)


def print_table(results: Results, learners: Sequence[Learner]) -> None:
    print(f"{'learner':<18}" + "".join(f"{name + ' groups':>15}{'error':>8}{'settled':>9}" for name in CONTROLLERS))
    for learner in learners:
        rows = {
            name: mean(row for case, row in found.items() if case.learner is learner) for name, found in results.items()
        }
        note = "  starts within" if learner.name not in UNREACHABLE_NAMES and starts_within(learner) else ""
        cells = (f"{row.groups:>15.1f}{row.error:>8.3f}{row.settled:>9.2f}" for row in rows.values())
        print(f"{learner.name:<18}" + "".join(cells) + note)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="runs of each case")
    parser.add_argument("--delays", type=int, nargs="+", default=[0, 16], help="groups served before one is observed")
    parser.add_argument("--level-steps", type=int, default=0, help="steps that a task's levels come in; 0 for none")
    options = parser.parse_args()
    started = time.perf_counter()
    learners = [in_steps(learner, options.level_steps) for learner in (*REACHABLE, *RETURNING, *UNREACHABLE)]
    cases = [Case(learner, size, delay) for learner in learners for size in SIZES for delay in options.delays]
    results = {
        name: {case: measure(controller, case, options.seeds) for case in cases}
        for name, controller in CONTROLLERS.items()
    }
    print_table(results, learners)
    judged = [case for case in cases if case.learner.name not in UNREACHABLE_NAMES and not starts_within(case.learner)]
    bounded = [case for case in cases if case.learner.name in UNREACHABLE_NAMES]
    result = {
        "benchmark": "curriculum",
        "target": TARGET,
        "groups": GROUPS,
        "seeds": options.seeds,
        "level_steps": options.level_steps,
        "all": {rule: ratios(results, judged, rule) for rule in RULES},
        "by_delay": {
            str(delay): {
                rule: ratios(results, [case for case in judged if case.delay == delay], rule) for rule in RULES
            }
            for delay in options.delays
        },
        "by_size": {
            str(size): {rule: ratios(results, [case for case in judged if case.size == size], rule) for rule in RULES}
            for size in SIZES
        },
        "bound": {rule: ratios(results, bounded, rule) for rule in RULES},
        "took_s": round(time.perf_counter() - started, 1),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
