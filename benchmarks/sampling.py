"""Measure the share of groups with a signal (unequal scores) for ways of sampling, with simulated learners.

`python -m benchmarks.sampling` samples from a bank of 100 simulated tasks (`make_bank` states its assumptions). The
library's default difficulty counts as level 0.4. One task in 25 has no levels, as in the library. 192 groups are
sampled ahead of the scored group: 128 ready problems and 64 groups in flight, which end in any order.

- uniform: uniform over tasks, at default difficulty
- tasks: adaptive sampling, at default difficulty
- levels: uniform over tasks, with the curriculum
- both: adaptive sampling with the curriculum
- blind: like `both`, without the numbers of different questions

Figures for each way:

- the share of groups with unequal scores, in the whole run and in its second half
- `pass_rate`: the mean probability of a right answer, in the second half
- `least_share`: the draws of the rarest task divided by its even share, in the second half
- `effective_tasks`: the inverse of the probability that two draws have the same task, in the second half
- `new_signal_share`: the share of groups with unequal scores and a new question, in the whole run; the simulated tasks
  have as few different questions as the library's

Learners of `constant` do not change. The best level of each learner of `learning` rises by 0.4 over the run.

With `--rates 0,0.25,0.62`, the bank has a task for each pass rate at level 0. `rows` then also samples from such a
bank: only problems of which one evaluation had between .2 and .8 of its samples right. `asked` is the number of
evaluated problems for each row.

With `--like arithmetic,coin_flip`, the bank has a task for each of these tasks and for each task of these categories,
with their numbers of questions.

Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from reasoning_env.problems.estimator import LEVELS, NO_LEVELS, SignalEstimator
from reasoning_env.problems.sampling import TaskSampler
from reasoning_env.records import ProblemSpec
from reasoning_env.tasks import COMPOSITE, question_count
from reasoning_env.tasks import TASKS as DECLARED

TASKS = 100
TARGET = 0.7
DEFAULT_LEVEL = 0.4
WITHOUT_LEVELS_EVERY = 25
READY = 128
IN_FLIGHT = 64
RISE = 0.4
CORRELATION = 0.1
SLOPE = 8.0
"""Slope of the learners of `--rates`, the middle of the slopes in other banks."""
ROW_RATES = (0.2, 0.8)
MODES = ("uniform", "tasks", "levels", "both", "blind")


@dataclass(frozen=True)
class Learner:
    """A simulated policy on one task. Its pass rate is TARGET at `best_level`, and lower above.

    The task has as many different questions as the library's task `like`. Rollouts of one problem correlate by
    CORRELATION: the pass rate of each problem is sampled from a beta distribution around the learner's pass rate.
    """

    task: str
    best_level: float
    slope: float
    like: str

    def chance(self, level: float, risen: float) -> float:
        """Return the probability of a right answer after the best level has risen by `risen`."""
        return _sigmoid(math.log(TARGET / (1.0 - TARGET)) + self.slope * (self.best_level + risen - level))

    def successes(self, level: float, risen: float, size: int, random_state: random.Random) -> int:
        """Return the number of right rollouts of a group."""
        chance = self.problem_chance(level, risen, random_state)
        return sum(random_state.random() < chance for _ in range(size))

    def problem_chance(self, level: float, risen: float, random_state: random.Random) -> float:
        """Return the probability of a right answer to one problem."""
        chance, weight = self.chance(level, risen), 1.0 / CORRELATION - 1.0
        return random_state.betavariate(weight * chance, weight * (1.0 - chance)) if 0.0 < chance < 1.0 else chance


def make_bank(likenesses: Sequence[str], random_state: random.Random) -> tuple[Learner, ...]:
    """Return a learner for each task of the library in `likenesses`, in random order.

    At the library's default difficulty, a third of the learners is almost always wrong (pass rate 0.002 to 0.03), a
    fifth is almost always right (0.97 to 0.998), and the others are evenly between 0.05 and 0.95. The pass rate falls
    with the level along a logistic curve with a slope between 4 and 12; for a tenth, the slope is 0.5.
    """
    learners = []
    count = len(likenesses)
    for number in range(count):
        if number < count // 3:
            at_default = random_state.uniform(0.002, 0.03)
        elif number < count // 3 + count // 5:
            at_default = 1.0 - random_state.uniform(0.002, 0.03)
        else:
            at_default = random_state.uniform(0.05, 0.95)
        slope = 0.5 if number % 10 == 9 else random_state.uniform(4.0, 12.0)
        best_level = DEFAULT_LEVEL + (_logit(at_default) - _logit(TARGET)) / slope
        learners.append(Learner(f"task_{number:03d}", best_level, slope, likenesses[number]))
    random_state.shuffle(learners)
    return tuple(learners)


def bank_of_rates(rates: Sequence[float]) -> tuple[Learner, ...]:
    """Return learners that have these pass rates at level 0."""
    return tuple(
        Learner(f"task_{number:03d}", (_logit(min(max(rate, 0.002), 0.998)) - _logit(TARGET)) / SLOPE, SLOPE, "")
        for number, rate in enumerate(rates)
    )


def draw_rows(bank: Sequence[Learner], groups: int, size: int, seed: int) -> dict[str, float]:
    """Return the share of groups with a signal among problems chosen by one evaluation at level 0."""
    random_state = random.Random(f"rows/{seed}")
    signals: list[bool] = []
    asked = 0
    while len(signals) < groups:
        asked += 1
        chance = random_state.choice(bank).problem_chance(0.0, 0.0, random_state)
        right = sum(random_state.random() < chance for _ in range(size))
        if ROW_RATES[0] <= right / size <= ROW_RATES[1]:
            right = sum(random_state.random() < chance for _ in range(size))
            signals.append(0 < right < size)
    return {"signal_share": fmean(signals), "asked": asked / groups}


def make_sampler(mode: str, learners: Mapping[str, Learner], size: int, seed: int) -> TaskSampler:
    """Return the sampler of a mode."""
    tasks = sorted(learners)
    adjustable = [task for number, task in enumerate(tasks) if number % WITHOUT_LEVELS_EVERY]
    arms = [(task, level) for task in tasks for level in (*LEVELS, *NO_LEVELS)]
    known = {} if mode == "blind" else {(task, level): questions_of(learners[task], level) for task, level in arms}
    estimator = SignalEstimator(
        adjustable=adjustable if mode in ("levels", "both", "blind") else (),
        group_size=size,
        target=TARGET,
        questions=known,
    )
    adaptive = mode in ("tasks", "both", "blind")
    return TaskSampler(dict.fromkeys(tasks, 1.0), run_seed=seed, estimator=estimator, adaptive=adaptive)


def questions_of(learner: Learner, level: float | None) -> float:
    return question_count(learner.like, level) if learner.like else math.inf


def serve(
    mode: str,
    bank: Sequence[Learner],
    groups: int,
    size: int,
    seed: int,
    rise: float,
    default_level: float = DEFAULT_LEVEL,
) -> dict[str, float]:
    """Return the figures of one mode; see the module's docstring."""
    learners = {learner.task: learner for learner in bank}
    sampler = make_sampler(mode, learners, size, seed)
    random_state = random.Random(f"{size}/{seed}")
    ahead: list[ProblemSpec] = []
    drawn: Counter[str] = Counter()
    asked: set[tuple[str, float | None, float]] = set()
    signals: list[bool] = []
    new_signals = 0
    chances: list[float] = []
    for index in range(groups + READY + IN_FLIGHT):
        ahead.append(sampler.draw(index, 0))
        drawn[ahead[-1].task] += 1
        if index < READY + IN_FLIGHT:
            continue
        spec = ahead.pop(random_state.randrange(IN_FLIGHT))
        learner, level = learners[spec.task], default_level if spec.level is None else spec.level
        risen = rise * len(signals) / groups
        right = learner.successes(level, risen, size, random_state)
        signals.append(0 < right < size)
        count = questions_of(learner, spec.level)
        question = (spec.task, spec.level, index if math.isinf(count) else random_state.randrange(int(count)))
        new_signals += signals[-1] and question not in asked
        asked.add(question)
        chances.append(learner.chance(level, risen))
        sampler.observe(spec.task, spec.level, [1.0] * right + [0.0] * (size - right))
    return {
        "signal_share": fmean(signals),
        "new_signal_share": new_signals / len(signals),
        "later_signal_share": fmean(signals[groups // 2 :]),
        "pass_rate": fmean(chances[groups // 2 :]),
        "least_share": min(drawn[task] for task in learners) * len(learners) / drawn.total(),
        "effective_tasks": drawn.total() ** 2 / sum(number**2 for number in drawn.values()),
    }


def measure(likenesses: Sequence[str], groups: int, size: int, seeds: int, rise: float) -> dict[str, dict[str, float]]:
    """Return each mode's figures, as means over the seeds."""
    results: dict[str, dict[str, float]] = {}
    for mode in MODES:
        runs = [
            serve(mode, make_bank(likenesses, random.Random(f"bank/{seed}")), groups, size, seed, rise)
            for seed in range(seeds)
        ]
        results[mode] = _means(runs)
    return results


def measure_rates(rates: Sequence[float], groups: int, size: int, seeds: int) -> dict[str, dict[str, float]]:
    """Return the figures of each mode, and of rows, for a bank with these pass rates at level 0."""
    bank = bank_of_rates(rates)
    found = {
        mode: _means([serve(mode, bank, groups, size, seed, 0.0, default_level=0.0) for seed in range(seeds)])
        for mode in ("uniform", "tasks", "levels", "both")
    }
    return found | {"rows": _means([draw_rows(bank, groups, size, seed) for seed in range(seeds)])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=8000, help="groups of each run")
    parser.add_argument("--size", type=int, default=8, help="rollouts in a group")
    parser.add_argument("--seeds", type=int, default=2, help="number of banks, each with separate runs")
    parser.add_argument("--like", default="", metavar="NAMES", help="a bank like these tasks and categories")
    parser.add_argument("--rates", metavar="NUMBERS", help="pass rates at level 0, one for each task of the bank")
    options = parser.parse_args()
    if options.rates is not None:
        rates = [float(rate) for rate in options.rates.split(",")]
        print(json.dumps(measure_rates(rates, options.groups, options.size, options.seeds)))
        return
    started = time.perf_counter()
    all_tasks = sorted(DECLARED.keys() - {COMPOSITE})
    drawn = random.Random("likenesses").sample(all_tasks, TASKS)
    likes = options.like.split(",")
    named = [task.name for task in DECLARED.values() if task.name in likes or task.category in likes]
    likenesses = named or drawn
    load = (likenesses, options.groups, options.size, options.seeds)
    result = {
        "benchmark": "sampling",
        "tasks": len(likenesses),
        "groups": options.groups,
        "size": options.size,
        "seeds": options.seeds,
        "drawn_ahead": READY + IN_FLIGHT,
        "constant": measure(*load, 0.0),
        "learning": measure(*load, RISE),
        "took_s": round(time.perf_counter() - started, 1),
    }
    print(json.dumps(result))


def _means(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: round(fmean(run[name] for run in runs), 3) for name in runs[0]}


def _sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x))


def _logit(share: float) -> float:
    return math.log(share / (1.0 - share))


if __name__ == "__main__":
    main()
