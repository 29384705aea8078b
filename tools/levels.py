"""Measure what levels of difficulty change: `python -m tools.levels --count 200`.

Generates problems of each task at five levels. Prints a line for each task: the mean work at each level, and the
smallest share of different problems. The work is a proxy such as the moves of a solution
(`tools/level_work.py`). Then prints a line for each finding: work that does not grow, or problems that repeat.
The status is 1 if there is a finding.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from reasoning_env.errors import GenerationError
from reasoning_env.problems.evaluation_set import evaluation_spec
from reasoning_env.program.running import map_with_progress, run_to_end
from reasoning_env.records import Problem
from reasoning_env.session import Session
from reasoning_env.settings import ReasoningSettings
from reasoning_env.tasks import COMPOSITE

from .level_work import FEW_QUESTIONS, HARDLY_HARDER, LEVELS, Drawn, LevelTally, faults_of, repetition_of, tally
from .running import run_tool

DEADLINE_S = 60.0
"""Time for a problem: the default of an evaluation's problems."""


@dataclass(frozen=True)
class MeasuredTask:
    """The measurements of a task, one for each level from the easiest to the hardest."""

    task: str
    tallies: tuple[LevelTally, ...]

    @property
    def different(self) -> float:
        return min(one.different for one in self.tallies)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default="", metavar="NAME,NAME", help="patterns of tasks (default: all)")
    parser.add_argument("--count", type=int, default=200, help="problems of each task and level (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the problems (default: %(default)s)")
    options = parser.parse_args(argv)
    measured = measure(options.tasks, options.count, options.seed)
    for one in measured:
        work = " ".join(f"{level.work:10.1f}" for level in one.tallies)
        print(f"{one.task:28}{work}  different {one.different:.2f}")
    found = [finding for one in measured for finding in findings(one)]
    print(*found, f"{len(measured)} tasks, {len(found)} findings", sep="\n")
    return int(bool(found))


def measure(tasks: str, count: int, seed: int, levels: Sequence[float] = LEVELS) -> list[MeasuredTask]:
    """Generate `count` problems at each level of each matching task that has levels."""
    settings = ReasoningSettings(tasks=tasks.split(",") if tasks else [], num_verifiers=1)

    async def draw_all() -> list[MeasuredTask]:
        async with Session(settings) as session:
            names = [name for name in session.plan.tasks if name in session.plan.adjustable and name != COMPOSITE]

            async def measure_task(task: str) -> MeasuredTask:
                return MeasuredTask(
                    task, tuple([tally(task, await _draw(session, task, level, count, seed)) for level in levels])
                )

            return await map_with_progress("tasks", names, measure_task, at_once=4)

    return run_to_end(draw_all)


def findings(measured: MeasuredTask) -> list[str]:
    """Return a line for each unexpected fault of a task's levels."""
    task = measured.task
    faults = [] if task in HARDLY_HARDER else faults_of(measured.tallies)
    if task not in FEW_QUESTIONS:
        faults += repetition_of(measured.tallies, LEVELS)
    return [f"{task}: {fault}" for fault in faults]


async def _draw(session: Session[Problem], task: str, level: float, count: int, seed: int) -> list[Drawn]:
    """Return the problems of a level, without those that could not be generated."""
    drawn = []
    for number in range(count):
        spec = evaluation_spec(task, number, 0, run_seed=seed).with_request(level=level)
        try:
            problem = await session.pool.generate(spec, DEADLINE_S)
        except GenerationError as error:
            print(f"{task} at {level:g}: {error}", file=sys.stderr)
            continue
        drawn.append(Drawn(problem.question, problem.answer or "", json.loads(problem.metadata_json)))
    return drawn


if __name__ == "__main__":
    run_tool(main)
