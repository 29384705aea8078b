"""Groups with a signal, by how tasks and levels are drawn, beside uniform draws at one difficulty.

`python -m benchmarks.sampling` draws from a bank of 100 simulated tasks (`benchmarks._learners.mixed_bank` states what
is assumed of them: at default difficulty a third is almost always wrong, a fifth almost always right). The library's
default difficulty counts as level 0.4; one task in 25 has no levels, as in the library. 192 groups are drawn ahead of
the one that is scored (128 ready problems and 64 groups in flight), and those in flight end in any order.

- uniform: every task alike, at default difficulty
- tasks: tasks by their chance of a signal, at default difficulty
- levels: every task alike, levels by the curriculum
- both: tasks by their chance of a signal, levels by the curriculum

Each has the share of groups with unequal scores in the whole run and in its second half, and how the rarest task fared:
`least_share` is the smallest part of its uniform share that it had in any window of 20 turns (a turn is as many draws
as there are tasks), `longest_gap` the most turns in a row without it. `effective_tasks` is how many tasks drawn alike
would be as varied (the inverse of the chance that two draws fall on the same task). `constant` is of learners that stay
as they are, `learning` of some that get better: over the run, each one's best level rises by 0.4.

Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from reasoning_env.records import Group, Problem, ProblemSpec, Reason, Rollout, Verdict
from reasoning_env.tasks.learning.adaptive import SteeredSampler
from reasoning_env.tasks.learning.curriculum import Curriculum
from reasoning_env.tasks.parameters import SpecRules
from reasoning_env.tasks.sampling import UniformSampler

from ._learners import TARGET, Curve, Learner, mixed_bank

TASKS = 100
DEFAULT_LEVEL = 0.4
WITHOUT_LEVELS_EVERY = 25
READY = 128
IN_FLIGHT = 64
WINDOW_TURNS = 20
RISE = 0.4
MODES = ("uniform", "tasks", "levels", "both")
SUMMARIES: Mapping[str, Callable[[Sequence[float]], float]] = {"least_share": min, "longest_gap": max}
"""What the figures of several seeds become; others become their mean."""


def build(mode: str, names: Sequence[str], size: int, seed: int) -> UniformSampler:
    if mode == "uniform":
        return UniformSampler(names, names, SpecRules(seed))
    levels = mode in ("levels", "both")
    return SteeredSampler(
        names,
        names,
        SpecRules(seed),
        group_size=size,
        weights=dict.fromkeys(names, 1.0) if mode == "levels" else None,
        curriculum=Curriculum(TARGET) if levels else None,
        adjustable=[name for number, name in enumerate(sorted(names)) if number % WITHOUT_LEVELS_EVERY],
    )


def improving(learner: Learner) -> Learner:
    """Return the same learner, whose curve moves to higher levels in the course of the run."""
    curve: Curve = learner.curve
    return replace(learner, curve=lambda level, moment: curve(level - RISE * moment, moment))


def scored(spec: ProblemSpec, successes: int, size: int) -> Group:
    problem = Problem(spec, "", None, "{}", b"", level=spec.level)
    scores = [float(number < successes) for number in range(size)]
    return Group(
        problem, (), tuple(Rollout("", (), (), None, "stop", Verdict(one, Reason.SCORED), one) for one in scores)
    )


def serve(mode: str, bank: Sequence[Learner], groups: int, size: int, seed: int) -> dict[str, float]:
    """Return what one way of drawing gave; see the module's text."""
    names = [learner.name for learner in bank]
    learners = {learner.name: learner for learner in bank}
    sampler = build(mode, names, size, seed)
    random_state = random.Random(f"{size}/{seed}")
    ahead: list[ProblemSpec] = []
    drawn: list[str] = []
    signals: list[bool] = []
    for number in range(groups + READY + IN_FLIGHT):
        ahead.append(sampler.draw(number, 0))
        drawn.append(ahead[-1].task)
        if number < READY + IN_FLIGHT:
            continue
        spec = ahead.pop(random_state.randrange(IN_FLIGHT))
        level = spec.level
        moment = len(signals) / groups
        served = DEFAULT_LEVEL if level is None else level
        successes = learners[spec.task].successes(served, moment, size, random_state)
        signals.append(0 < successes < size)
        under_way = 1 + sum(other.task == spec.task for other in ahead)
        sampler.observe(scored(spec, successes, size), under_way)
    later = signals[groups // 2 :]
    return {
        "signal_share": sum(signals) / groups,
        "later_signal_share": sum(later) / len(later),
        "least_share": least_share(drawn, names, WINDOW_TURNS * len(names)),
        "longest_gap": longest_gap(drawn, names) / len(names),
        "effective_tasks": len(drawn) ** 2 / sum(number**2 for number in Counter(drawn).values()),
    }


def least_share(drawn: Sequence[str], names: Sequence[str], window: int) -> float:
    """Return the fewest draws of a task in any window, over the number that uniform draws give."""
    counts = dict.fromkeys(names, 0)
    for name in drawn[:window]:
        counts[name] += 1
    least = min(counts.values())
    for gone, came in zip(drawn, drawn[window:], strict=False):
        counts[gone] -= 1
        counts[came] += 1
        least = min(least, counts[gone])
    return least * len(names) / window


def longest_gap(drawn: Sequence[str], names: Sequence[str]) -> int:
    """Return the most draws in a row without a certain task."""
    last = dict.fromkeys(names, -1)
    longest = 0
    for number, name in enumerate(drawn):
        longest = max(longest, number - last[name] - 1)
        last[name] = number
    return max(longest, *(len(drawn) - number - 1 for number in last.values()))


def measure(groups: int, size: int, seeds: int, *, learning: bool) -> dict[str, dict[str, float]]:
    """Return each mode's figures, as means over the seeds (least share and longest gap: the worst)."""
    found: dict[str, list[dict[str, float]]] = {mode: [] for mode in MODES}
    for seed in range(seeds):
        bank = mixed_bank(TASKS, DEFAULT_LEVEL, random.Random(f"bank/{seed}"))
        if learning:
            bank = tuple(map(improving, bank))
        for mode in MODES:
            found[mode].append(serve(mode, bank, groups, size, seed))
    return {mode: summarise(results) for mode, results in found.items()}


def summarise(results: Sequence[Mapping[str, float]]) -> dict[str, float]:
    columns = {name: [row[name] for row in results] for name in results[0]}
    return {name: round(SUMMARIES.get(name, fmean)(column), 3) for name, column in columns.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=8000, help="groups of each run")
    parser.add_argument("--size", type=int, default=8, help="rollouts in a group")
    parser.add_argument("--seeds", type=int, default=2, help="banks, each with runs of its own")
    options = parser.parse_args()
    started = time.perf_counter()
    load = (options.groups, options.size, options.seeds)
    result = {
        "benchmark": "sampling",
        "tasks": TASKS,
        "groups": options.groups,
        "size": options.size,
        "seeds": options.seeds,
        "drawn_ahead": READY + IN_FLIGHT,
        "constant": measure(*load, learning=False),
        "learning": measure(*load, learning=True),
        "took_s": round(time.perf_counter() - started, 1),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
