"""The `tasks` command: what the library offers, with real samples, and the way to what can be measured of its tasks."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import GenerationError
from ..folders import find_checkout
from ..records import Problem, ProblemSpec, Split, TaskInfo
from ..reports.contamination import DEFAULT_ITEMS, MAX_ITEMS, contamination_command
from ..reports.difficulty import difficulty_command
from ..reports.measuring import open_library, run_measurement
from ..terminal import print_table
from ..workers.pool import PoolSettings

DEADLINE_S = 60.0
QUESTION_CHARACTERS = 72
NO_ORACLE = "(no single answer: the verifier accepts many)"
SEED_STRIDE = 1000
"""Between the samples of a task: neighbouring seeds give related problems in some tasks."""


@dataclass(frozen=True)
class Sample:
    """A problem of a task, or why there is none."""

    task: TaskInfo
    outcome: Problem | GenerationError


def tasks_command(argv: Sequence[str], folder: Path) -> int:
    """Print the table, whole samples of the named tasks, or what is measured of them; returns the exit status.

    `folder` is where a checkout of the library may lie. Raises ConfigError for a name that there is not.
    """
    options = _parse(argv)
    settings = PoolSettings(checkout=find_checkout(folder))
    if options.difficulty:
        return difficulty_command(settings, options.names, options.seed)
    if options.contamination:
        return contamination_command(settings, options.names, options.seed, options.items)
    count = options.samples if options.names else 1
    samples = run_measurement(lambda: _collect(settings, options.names, count, options.seed))
    if options.names:
        print("\n".join(map(_whole, samples)))
    else:
        print_table(("TASK", "CATEGORY", "A SAMPLE QUESTION"), map(_row, samples))
        print(f"\n{len(samples)} tasks; `tasks NAME` shows whole samples with their answers")
    return 0


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tasks", description="List reasoning-gym's tasks, show samples of some, or measure them."
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="tasks to show whole samples of, or to measure (default: all): names, globs (`*_sorting`), `games/*` or "
        "`category:games`",
    )
    measures = parser.add_mutually_exclusive_group()
    measures.add_argument(
        "--difficulty",
        action="store_true",
        help="measure every level of difficulty: parameters, time, faults; the status is 1 when a level does not work",
    )
    measures.add_argument(
        "--contamination", action="store_true", help="measure how many training questions are in the evaluation set too"
    )
    parser.add_argument("--samples", type=int, default=3, help="samples a named task (default: %(default)s)")
    parser.add_argument(
        "--items",
        type=int,
        default=DEFAULT_ITEMS,
        help="training problems a task that --contamination draws; fewer of slow tasks (default: %(default)s)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=42,
        help="the library's seed of the first sample, or that of the problems to measure with (default: %(default)s)",
    )
    options = parser.parse_args(argv)
    if options.samples < 1 or not 0 <= options.seed < 2**31:
        parser.error("--samples must be at least 1 and --seed between 0 and 2**31 - 1")
    if not 1 <= options.items <= MAX_ITEMS:
        parser.error(f"--items must be between 1 and {MAX_ITEMS}")
    return options


async def _collect(settings: PoolSettings, names: Sequence[str], count: int, seed: int) -> list[Sample]:
    async with open_library(settings, names) as library:

        async def sample(task: TaskInfo, number: int) -> Sample:
            params = library.params.get(task.name, {})
            spec = ProblemSpec(task.name, seed + SEED_STRIDE * number, Split.TRAIN, number, params=params)
            try:
                return Sample(task, await library.pools[0].generate(spec, DEADLINE_S))
            except GenerationError as error:
                return Sample(task, error)

        selected = [task for task in library.info.tasks if task.name in library.tasks]
        return await asyncio.gather(*(sample(task, number) for task in selected for number in range(count)))


def _row(sample: Sample) -> tuple[str, str, str]:
    text = " ".join(_question(sample).split())
    if isinstance(sample.outcome, Problem) and len(text) > QUESTION_CHARACTERS:
        text = text[: QUESTION_CHARACTERS - 1] + "…"
    return sample.task.name, sample.task.category, text


def _whole(sample: Sample) -> str:
    head = f"=== {sample.task.name} ({sample.task.category})"
    if isinstance(sample.outcome, GenerationError):
        return f"{head}\n{_question(sample)}\n"
    answer = NO_ORACLE if sample.outcome.answer is None else sample.outcome.answer
    return f"{head}, seed {sample.outcome.spec.seed}\n{_question(sample)}\n\n--- answer\n{answer}\n"


def _question(sample: Sample) -> str:
    outcome = sample.outcome
    return outcome.question if isinstance(outcome, Problem) else f"cannot be generated: {outcome}"
