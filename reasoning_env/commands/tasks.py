"""The `tasks` command: what the library offers, with real samples, and the way to what can be measured of its tasks."""

from __future__ import annotations

import argparse
import asyncio
import logging
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import GenerationError
from ..records import Problem, ProblemSpec, Split, TaskInfo
from ..reports.contamination import DEFAULT_ITEMS, MAX_ITEMS, contamination_command
from ..reports.difficulty import difficulty_command
from ..tasks.sampling import task_params
from ..tasks.selection import select_tasks
from ..workers.checkout import find_checkout
from ..workers.pool import PoolSettings, WorkerPool

logger = logging.getLogger(__name__)

DEADLINE_S = 60.0
NO_ORACLE = "(no single answer: the verifier accepts many)"


@dataclass(frozen=True)
class Sample:
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
    samples = asyncio.run(_collect(settings, options.names, options.samples if options.names else 1, options.seed))
    print(_whole(samples) if options.names else _table(samples))
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
    pool = WorkerPool(settings)
    try:
        info = await pool.start()
        for warning in info.warnings:
            logger.warning("%s", warning)
        available = {task.name: task for task in info.tasks}
        selected = select_tasks(info.tasks, names)
        params = task_params(selected if names else list(available), list(available))

        async def sample(task: TaskInfo, number: int) -> Sample:
            # Neighbouring seeds give related items in some tasks; a stride keeps the samples apart.
            spec = _spec(task.name, seed + 1000 * number, number, params)
            try:
                return Sample(task, await pool.generate(spec, DEADLINE_S))
            except GenerationError as error:
                return Sample(task, error)

        wanted = [(available[name], number) for name in selected for number in range(count)]
        return list(await asyncio.gather(*(sample(task, number) for task, number in wanted)))
    finally:
        await pool.close()


def _spec(task: str, seed: int, number: int, params: Mapping[str, Mapping[str, Any]]) -> ProblemSpec:
    return ProblemSpec(task, seed, Split.TRAIN, number, params=params.get(task, {}))


def _table(samples: Sequence[Sample]) -> str:
    name_width = max(len(sample.task.name) for sample in samples)
    category_width = max(len(sample.task.category) for sample in samples)
    room = max(20, shutil.get_terminal_size((120, 24)).columns - name_width - category_width - 4)

    def row(name: str, category: str, text: str) -> str:
        short = " ".join(text.split())
        short = short if len(short) <= room else short[: room - 1] + "…"
        return f"{name:{name_width}}  {category:{category_width}}  {short}"

    lines = [row("TASK", "CATEGORY", "A SAMPLE QUESTION")]
    lines += [row(sample.task.name, sample.task.category, _question(sample)) for sample in samples]
    return "\n".join([*lines, "", f"{len(samples)} tasks; `tasks NAME` shows whole samples with their answers"])


def _whole(samples: Sequence[Sample]) -> str:
    blocks = []
    for sample in samples:
        outcome = sample.outcome
        head = f"=== {sample.task.name} ({sample.task.category})"
        if isinstance(outcome, Problem):
            answer = NO_ORACLE if outcome.answer is None else outcome.answer
            blocks.append(f"{head}, seed {outcome.spec.seed}\n{outcome.question}\n\n--- answer\n{answer}\n")
        else:
            blocks.append(f"{head}\n{_question(sample)}\n")
    return "\n".join(blocks)


def _question(sample: Sample) -> str:
    outcome = sample.outcome
    return outcome.question if isinstance(outcome, Problem) else f"cannot be generated: {outcome}"
