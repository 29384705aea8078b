"""What the levels of difficulty do to each task: `tasks --difficulty`.

Every point of the grid that levels are rounded to is asked for, some of them with several problems. Each task is
measured on one generator from beginning to end, so that what a level's first problem costs, which builds its dataset,
can be told from what the others do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import GenerationError
from ..library_facts import COMPOSITE, FACTS, FieldLevels, TaskFacts
from ..problems import Generator
from ..records import Problem
from ..tasks.sampling import evaluation_spec
from ..terminal import Table, print_json
from ..workers.levels import STEPS
from ..workers.pool import PoolSettings
from .measuring import measure_each, open_library, run_measurement

GENERATORS = 2
DEADLINE_S = 10.0
"""What the training stream grants a problem by default."""
LEVELS = tuple(step / STEPS for step in range(STEPS + 1))
TIMED = (0.0, 0.5, 1.0)
WELL_MEASURED = (0.0, 0.25, 0.5, 0.75, 1.0)
ITEMS = 6
"""Problems of a well measured level; the others get one."""
MAX_FAILURES = 2
"""A level at which so many problems fail does not work; fewer are bad luck, which training draws again."""
VALUE_CHARACTERS = 48

COLUMNS = {
    "TASK": "",
    **dict.fromkeys(("LEVELS", "CLAMPED", "FAILED"), "d"),
    **{f"MS AT {level:g}": ".1f" for level in TIMED},
    "PARAMETERS FROM 0 TO 1 (* OURS)": "",
}
LEGEND = f"""
LEVELS: different sets of parameters among {len(LEVELS)} levels from 0 to 1
MS: mean time of a problem, once its dataset is built"""


@dataclass(frozen=True)
class MeasuredLevel:
    """What became of one level's problems.

    `used` is the level they really had and `params` their parameters, both None when none could be generated;
    `seconds` is what each took, in order, and `failures` says why others are missing.
    """

    level: float
    used: float | None
    params: Mapping[str, Any] | None
    seconds: tuple[float, ...]
    failures: tuple[str, ...] = ()

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
    """All measured levels of one task, the easiest first."""

    task: str
    levels: tuple[MeasuredLevel, ...]

    @property
    def distinct(self) -> int:
        """How many different sets of parameters the levels that work give."""
        return len({json.dumps(level.params, sort_keys=True) for level in self.levels if level.works})

    @property
    def clamped(self) -> list[MeasuredLevel]:
        return [level for level in self.levels if level.clamped]

    @property
    def failed(self) -> list[MeasuredLevel]:
        return [level for level in self.levels if not level.works]

    def at(self, wanted: float) -> MeasuredLevel:
        return next(level for level in self.levels if level.level == wanted)


def difficulty_command(settings: PoolSettings, names: Sequence[str], seed: int, *, as_json: bool = False) -> int:
    """Measure, and print the table; returns 1 when a level does not work, and 0 otherwise.

    `names` are patterns of tasks, none of them for all. Raises ConfigError for one that matches nothing.
    """
    # On a busy machine a process of low priority would miss its deadlines.
    settings = replace(settings, generators=1, verifiers=0, niceness=0)
    measured, without = run_measurement(lambda: _measure(settings, names, seed))
    failed = [task.task for task in measured if task.failed]
    verdict = f"levels fail in: {', '.join(failed)}" if failed else "every level works"
    conclusion = f"{len(measured)} tasks with levels, {len(without)} without; {verdict}"
    table = Table(COLUMNS, [_row(task) for task in measured])
    if as_json:
        print_json({"conclusion": conclusion, "without": without, "tasks": table.records(), **_sections(measured)})
        return int(bool(failed))
    table.print()
    print(LEGEND)
    for title, lines in _sections(measured).items():
        if lines:
            print(f"\n{title}:", *lines, sep="\n  ")
    if without:
        print(f"\nno levels of their own: {', '.join(without)}")
    print(f"\n{conclusion}")
    return int(bool(failed))


async def _measure(settings: PoolSettings, names: Sequence[str], seed: int) -> tuple[list[TaskLevels], list[str]]:
    """Return the tasks that have levels of their own, measured, and the names of the others."""
    async with open_library(settings, names, pools=GENERATORS) as library:
        idle = list(library.pools)

        async def measure(task: str) -> TaskLevels:
            generator = idle.pop()
            levels = [await measure_level(generator, task, level, seed=seed) for level in LEVELS]
            idle.append(generator)
            return TaskLevels(task, tuple(levels))

        # A composite hands its level on to its members.
        tasks = [task for task in library.tasks if task in library.info.adjustable and task != COMPOSITE]
        without = [task for task in library.tasks if task not in tasks]
        return await measure_each("difficulty", tasks, measure, at_once=GENERATORS), without


async def measure_level(generator: Generator, task: str, level: float, *, seed: int) -> MeasuredLevel:
    """Generate problems of a task at a level until there are enough of them, or too many have failed."""
    wanted = ITEMS if level in WELL_MEASURED else 1
    made: list[Problem] = []
    failures: list[str] = []
    while len(made) < wanted and len(failures) < MAX_FAILURES:
        spec = evaluation_spec(task, len(made) + len(failures), 0, run_seed=seed)
        try:
            made.append(await generator.generate(replace(spec, level=level), DEADLINE_S))
        except GenerationError as error:
            failures.append(str(error))
    return MeasuredLevel(
        level=level,
        used=made[0].level if made else None,
        params=made[0].params if made else None,
        seconds=tuple(problem.generation_s for problem in made),
        failures=tuple(failures),
    )


def _row(task: TaskLevels) -> tuple[Any, ...]:
    return (
        task.task,
        task.distinct,
        len(task.clamped),
        len(task.failed),
        *(task.at(level).mean_ms for level in TIMED),
        "; ".join(describe_changes(task)) or None,
    )


def describe_changes(task: TaskLevels) -> list[str]:
    """Return what differs between the easiest and the hardest level: `min/max_terms 2..6 -> 4..10`."""
    first, last = task.at(0.0).params, task.at(1.0).params
    if first is None or last is None:
        return []
    ours = {field for correction in _our_levels(task) for field in correction.fields}
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


def _our_levels(task: TaskLevels) -> Sequence[FieldLevels]:
    return FACTS.get(task.task, TaskFacts()).levels


def _label(fields: Sequence[str]) -> str:
    return f"min/{fields[1]}" if len(fields) == 2 else fields[0]


def _value(params: Mapping[str, Any], fields: Sequence[str]) -> str:
    text = "..".join(json.dumps(params.get(field)) for field in fields)
    return text if len(text) <= VALUE_CHARACTERS else text[: VALUE_CHARACTERS - 1] + "…"


def _sections(measured: Sequence[TaskLevels]) -> dict[str, list[str]]:
    """Return what needs more words than a row has, by title."""
    levels = [(f"{task.task} at {level.level:g}", level) for task in measured for level in task.levels]
    return {
        "levels that the library refuses, and what takes their place": [
            f"{task.task}: {', '.join(f'{level.level:g} -> {level.used:g}' for level in task.clamped)}"
            for task in measured
            if task.clamped
        ],
        "levels that do not work": [f"{name}: {level.failures[0]}" for name, level in levels if not level.works],
        "single problems that failed, which training draws again": [
            f"{name}: {failure}" for name, level in levels if level.works for failure in level.failures
        ],
        "levels of our own (*) in place of the library's": [
            f"{task.task}: {_label(ours.fields)}: {ours.reason}" for task in measured for ours in _our_levels(task)
        ],
    }
