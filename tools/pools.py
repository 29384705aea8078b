"""Measure how many different questions a task has: `python -m tools.pools --tasks "gcd,tower_of_hanoi"`.

Generates FIRST served problems of each task at the library's defaults and at each of QUESTION_LEVELS. If no question
repeats, the task counts as having MANY_QUESTIONS or more: with 10,000 equally likely questions, 300 draws have no
repeat with a probability of 1 %. Otherwise the tool generates up to MORE problems, and estimates the number of
different questions.

The estimate is Chao's (1984): if `d` different questions occurred, `f1` of them once and `f2` twice, there are about
d + f1 (f1 - 1) / (2 (f2 + 1)). This is a lower bound if some questions are more likely than others.

Prints `question_counts` for the declarations in `reasoning_env/tasks/`. A task with MANY_QUESTIONS everywhere has no
line.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from math import floor, log10

from reasoning_env.errors import GenerationError
from reasoning_env.problems.evaluation_set import evaluation_spec
from reasoning_env.problems.references import hash_without_whitespace
from reasoning_env.program.running import map_with_progress, run_to_end
from reasoning_env.records import Problem
from reasoning_env.session import Session
from reasoning_env.settings import ReasoningSettings
from reasoning_env.tasks import COMPOSITE, MANY_QUESTIONS, QUESTION_LEVELS

from .running import run_tool

FIRST = 300
MORE = 1_000
DEADLINE_S = 60.0


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default="", metavar="NAME,NAME", help="patterns of tasks (default: all)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the problems (default: %(default)s)")
    options = parser.parse_args(argv)
    measure(options.tasks, options.seed)
    return 0


def measure(tasks: str, seed: int) -> None:
    """Measure the matching tasks, and print each row when it is complete."""
    settings = ReasoningSettings(tasks=tasks.split(",") if tasks else [], num_verifiers=1)

    async def draw_all() -> None:
        async with Session(settings) as session:

            async def measure_task(task: str) -> None:
                levels = (None, *QUESTION_LEVELS) if task in session.plan.adjustable else (None,)
                row = tuple([await _measure_level(session, task, level, seed) for level in levels])
                if any(row):
                    print(f'    "{task}": {row},', flush=True)

            names = [name for name in session.plan.tasks if name != COMPOSITE]
            await map_with_progress("tasks", names, measure_task, at_once=4)

    run_to_end(draw_all)


async def _measure_level(session: Session[Problem], task: str, level: float | None, seed: int) -> int | None:
    """Return the number of different questions; None for MANY_QUESTIONS or more."""
    counts: Counter[str] = Counter()
    for number in range(MORE):
        if number == FIRST and len(counts) == counts.total():
            return None
        spec = evaluation_spec(task, number, 0, run_seed=seed).with_request(level=level)
        try:
            problem = await session.pool.generate(spec, DEADLINE_S)
        except GenerationError as error:
            print(f"{task} at {level}: {error}", file=sys.stderr)
            continue
        counts[hash_without_whitespace(problem.question)] += 1
    questions = estimate(counts.values())
    return rounded(questions) if questions < MANY_QUESTIONS else None


def estimate(counts: Iterable[int]) -> float:
    """Estimate the number of different questions from the count of each question."""
    times = Counter(counts)
    return times.total() + times[1] * (times[1] - 1) / (2 * (times[2] + 1))


def rounded(number: float) -> int:
    """Round a number to two significant digits."""
    return round(round(number), -max(0, floor(log10(number)) - 1))


if __name__ == "__main__":
    run_tool(main)
