"""What the levels of difficulty do to each task: the `tasks --difficulty` command.

Every point of the grid that levels are rounded to is asked for, some of them with several problems. Each task is
measured on one generator from beginning to end, so that what a level's first problem costs, which builds its dataset,
can be told from what the others do.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from tqdm import tqdm

from ..errors import GenerationError
from ..library_facts import COMPOSITE, FACTS, TaskFacts
from ..records import LibraryInfo, Problem, ProblemSpec
from ..signals import run_until_signal
from ..tasks.sampling import evaluation_spec
from ..tasks.selection import select_tasks
from ..workers.difficulty import STEPS
from ..workers.pool import PoolSettings, WorkerPool
from .tables import LEAST_WIDTH, UNBROKEN_SPACE, format_table

logger = logging.getLogger(__name__)

GENERATORS = 2
DEADLINE_S = 10.0
"""What the training stream grants a problem by default."""
LEVELS = tuple(step / STEPS for step in range(STEPS + 1))
TIMED = (0.0, 0.5, 1.0)
WELL_PROBED = (0.0, 0.25, 0.5, 0.75, 1.0)
ITEMS = 6
"""Problems of a well probed level; the others get one."""
MAX_FAILURES = 2
"""A level at which so many problems fail does not work; fewer are bad luck, which training draws again."""
VALUE_CHARACTERS = 48

HEADINGS = ("TASK", "LEVELS", "CLAMPED", "FAILED", "MS AT 0", "0.5", "1", "PARAMETERS FROM 0 TO 1 (* OURS)")
NUMBERS = set(HEADINGS[1:-1])


class Generator(Protocol):
    """The part of the worker pool that is used here."""

    async def generate(self, spec: ProblemSpec, deadline_s: float) -> Problem: ...


@dataclass(frozen=True)
class LevelProbe:
    """What became of one level's problems.

    `used` is the level they really had and `params` their parameters, both None when none could be generated;
    `seconds` is what each took, in order, and `failures` says why others are missing.
    """

    level: float
    used: float | None
    params: Mapping[str, Any] | None
    seconds: tuple[float, ...]
    failures: tuple[str, ...]

    @property
    def works(self) -> bool:
        return len(self.failures) < MAX_FAILURES

    @property
    def clamped(self) -> bool:
        """Whether another level's parameters took the place of this one's."""
        return self.used is not None and self.used != self.level

    @property
    def mean_ms(self) -> float | None:
        """The mean time of a problem, without the first one's, which also built the dataset."""
        counted = self.seconds[1:] or self.seconds
        return 1000 * sum(counted) / len(counted) if counted else None


@dataclass(frozen=True)
class TaskLevels:
    """All probed levels of one task, the easiest first."""

    task: str
    probes: tuple[LevelProbe, ...]

    @property
    def distinct(self) -> int:
        """How many different sets of parameters the levels that work give."""
        return len({json.dumps(probe.params, sort_keys=True) for probe in self.probes if probe.works})

    @property
    def clamped(self) -> list[LevelProbe]:
        return [probe for probe in self.probes if probe.clamped]

    @property
    def failed(self) -> list[LevelProbe]:
        return [probe for probe in self.probes if not probe.works]

    @property
    def failures(self) -> list[str]:
        return [failure for probe in self.probes for failure in probe.failures]

    def at(self, level: float) -> LevelProbe:
        return next(probe for probe in self.probes if probe.level == level)


def difficulty_command(settings: PoolSettings, names: Sequence[str], seed: int) -> int:
    """Measure, and print the table; returns 1 when a level does not work, and 0 otherwise.

    `names` are patterns of tasks, none of them for all. Raises ConfigError for one that matches nothing.
    """
    library, selected, measured = asyncio.run(_measure(settings, names, seed))
    fixed = {task: _why_not_adjustable(task, library) for task in selected if not _has_levels(task, library)}
    print("\n".join(format_report(measured, fixed)))
    return int(any(task.failed for task in measured))


async def _measure(
    settings: PoolSettings, names: Sequence[str], seed: int
) -> tuple[LibraryInfo, tuple[str, ...], list[TaskLevels]]:
    # There is no event loop to give way to, and on a busy machine a process of low priority would miss its deadlines.
    pools = [WorkerPool(replace(settings, generators=1, verifiers=0, niceness=0)) for _ in range(GENERATORS)]

    async def work() -> tuple[LibraryInfo, tuple[str, ...], list[TaskLevels]]:
        library, *_ = [await pool.start() for pool in pools]
        for warning in library.warnings:
            logger.warning("%s", warning)
        selected = select_tasks(library.tasks, names)
        tasks = [task for task in selected if _has_levels(task, library)]
        return library, selected, await measure_tasks(pools, tasks, seed=seed)

    async def close() -> None:
        await asyncio.gather(*(pool.close() for pool in pools))

    return await run_until_signal(work, close)


def _has_levels(task: str, library: LibraryInfo) -> bool:
    return task in library.adjustable and task != COMPOSITE


def _why_not_adjustable(task: str, library: LibraryInfo) -> str:
    if task == COMPOSITE:
        return "it hands its level on to its members"
    unreadable = (warning for warning in library.warnings if warning.startswith(f"the curriculum of {task} "))
    return next(unreadable, "the library has no curriculum for it")


async def measure_tasks(generators: Sequence[Generator], tasks: Sequence[str], *, seed: int) -> list[TaskLevels]:
    """Probe all levels of some tasks, with a progress bar; each generator takes the next task when it has finished one.

    One result a task, in order. Raises WorkerError when there are no workers any more.
    """
    measured: dict[str, TaskLevels] = {}
    with tqdm(total=len(tasks), desc="difficulty", unit="task", mininterval=1.0) as progress:

        async def run(generator: Generator, waiting: Iterator[str]) -> None:
            for task in waiting:
                measured[task] = TaskLevels(
                    task, tuple([await probe_level(generator, task, level, seed=seed) for level in LEVELS])
                )
                progress.update()

        waiting = iter(tasks)
        running = [asyncio.ensure_future(run(generator, waiting)) for generator in generators]
        try:
            await asyncio.gather(*running)
        finally:
            for one in running:
                one.cancel()
            await asyncio.gather(*running, return_exceptions=True)
    return [measured[task] for task in tasks]


async def probe_level(generator: Generator, task: str, level: float, *, seed: int) -> LevelProbe:
    """Generate problems of a task at a level until there are enough of them, or too many have failed."""
    wanted = ITEMS if level in WELL_PROBED else 1
    made: list[Problem] = []
    failures: list[str] = []
    while len(made) < wanted and len(failures) < MAX_FAILURES:
        spec = evaluation_spec(task, len(made) + len(failures), 0, run_seed=seed)
        try:
            made.append(await generator.generate(replace(spec, level=level), DEADLINE_S))
        except GenerationError as error:
            failures.append(str(error))
    return LevelProbe(
        level=level,
        used=made[0].level if made else None,
        params=made[0].params if made else None,
        seconds=tuple(problem.generation_s for problem in made),
        failures=tuple(failures),
    )


def format_report(measured: Sequence[TaskLevels], fixed: Mapping[str, str]) -> list[str]:
    """The lines to print: a row for each task, and below them what needs more words.

    `fixed` are the tasks without levels, each with the reason.
    """
    lines = format_table(HEADINGS, [_row(task) for task in measured], NUMBERS)
    lines += [
        "",
        f"LEVELS: different sets of parameters among {len(LEVELS)} levels from 0 to 1; MS: mean time of a problem, "
        "once its dataset is built",
    ]
    lines += _section("levels that the library refuses, and what takes their place", map(_clamps, measured))
    lines += _section("levels that do not work", map(_faults, measured))
    lines += _section("single problems that failed, which training draws again", map(_strays, measured))
    lines += _section("levels of our own (*) in place of the library's", map(_corrections, measured))
    lines += _section("not adjustable", [[f"{task}: {reason}"] for task, reason in fixed.items()])
    failed = [task.task for task in measured if task.failed]
    verdict = f"levels fail in: {', '.join(failed)}" if failed else "every level works"
    return [
        *lines,
        "",
        f"{len(measured)} tasks with levels, {len(fixed)} without" + (f"; {verdict}" if measured else ""),
    ]


def _row(task: TaskLevels) -> tuple[str, ...]:
    return (
        task.task,
        str(task.distinct),
        str(len(task.clamped) or "-"),
        str(len(task.failed) or "-"),
        *(_ms(task.at(level)) for level in TIMED),
        "; ".join(map(_unbroken, describe_changes(task))) or "-",
    )


def _unbroken(change: str) -> str:
    """A change that stays on one line, unless it is too long for any."""
    return change.replace(" ", UNBROKEN_SPACE) if len(change) < LEAST_WIDTH else change


def _ms(probe: LevelProbe) -> str:
    return "-" if probe.mean_ms is None else f"{probe.mean_ms:.{1 if probe.mean_ms < 100 else 0}f}"


def describe_changes(task: TaskLevels) -> list[str]:
    """The parameters that differ between the easiest and the hardest level, as `min/max_terms 2..6 -> 4..10`."""
    first, last = task.at(0.0).params, task.at(1.0).params
    if first is None or last is None:
        return []
    ours = {field for correction in FACTS.get(task.task, TaskFacts()).levels for field in correction.fields}
    changes = []
    for name in first:
        upper = name.replace("min_", "max_", 1)
        ranged = name.startswith("min_") and upper in first
        if name.startswith("max_") and name.replace("max_", "min_", 1) in first:
            continue  # said with its lower bound
        fields = (name, upper) if ranged else (name,)
        before, after = [_value(params, fields) for params in (first, last)]
        if before != after:
            changes.append(f"{_label(fields)}{'*' if name in ours else ''} {before} -> {after}")
    return changes


def _label(fields: Sequence[str]) -> str:
    return f"min/{fields[1]}" if len(fields) == 2 else fields[0]


def _value(params: Mapping[str, Any], fields: Sequence[str]) -> str:
    text = "..".join(json.dumps(params.get(field)) for field in fields)
    return text if len(text) <= VALUE_CHARACTERS else text[: VALUE_CHARACTERS - 1] + "…"


def _section(title: str, tasks: Iterable[list[str]]) -> list[str]:
    found = [line for lines in tasks for line in lines]
    return ["", f"{title}:", *(f"  {line}" for line in found)] if found else []


def _clamps(task: TaskLevels) -> list[str]:
    changes = ", ".join(f"{probe.level:g} -> {probe.used:g}" for probe in task.clamped)
    return [f"{task.task}: {changes}"] if changes else []


def _faults(task: TaskLevels) -> list[str]:
    return [f"{task.task} at {probe.level:g}: {probe.failures[0]}" for probe in task.failed]


def _strays(task: TaskLevels) -> list[str]:
    return [
        f"{task.task} at {probe.level:g}: {failure}"
        for probe in task.probes
        if probe.works
        for failure in probe.failures
    ]


def _corrections(task: TaskLevels) -> list[str]:
    by_reason: dict[str, list[str]] = {}
    for correction in FACTS.get(task.task, TaskFacts()).levels:
        by_reason.setdefault(correction.reason, []).append(_label(correction.fields))
    return [f"{task.task}: {', '.join(fields)}: {reason}" for reason, fields in by_reason.items()]
