"""How many training problems ask what the evaluation set asks, as drawn and as served: the `tasks --overlap` command.

The seeds of the two never meet, but in tasks with few different questions the questions do. What a run serves is found
with the rule of the run itself, and compared with the whole set.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from tqdm import tqdm

from ..errors import GenerationError
from ..evaluation import EvaluationSet, question_key
from ..problems import MAX_FLAWED
from ..records import Problem, ProblemSpec
from ..settings import ReasoningSettings
from ..signals import run_until_signal
from ..tasks.sampling import UniformSampler, task_params
from ..tasks.selection import select_tasks
from ..workers.pool import PoolSettings, WorkerPool
from .tables import format_table

logger = logging.getLogger(__name__)

DEFAULT_ITEMS = 2000
MAX_ITEMS = 100_000
BUDGET_S = 10.0
"""Seconds of a generator after which a task is left with the items it has."""
DEADLINE_S = 10.0
"""What the training stream grants a problem by default."""
MAX_FAILURES = 3
"""Failures in a row after which a task is left with the items it has."""
TASKS_AT_ONCE = 4
"""Enough to keep the generators busy; each task draws one problem after the other."""

HEADINGS = ("TASK", "EVALUATED", "ITEMS", "QUESTIONS", "DRAWN", "SERVED")
NUMBERS = set(HEADINGS[1:])


class Generator(Protocol):
    """The part of the worker pool that is used here."""

    async def generate(self, spec: ProblemSpec, deadline_s: float) -> Problem: ...


class Sampler(Protocol):
    """The part of a sampler of one task that is used here."""

    def draw(self, index: int, attempt: int) -> ProblemSpec: ...

    def redraw(self, spec: ProblemSpec) -> ProblemSpec: ...


class Evaluated(Protocol):
    """The part of an evaluation set that is used here; `asks` is what a run draws a problem again for."""

    async def problems(self) -> list[Problem]: ...

    async def asks(self, problem: Problem) -> bool: ...


@dataclass(frozen=True)
class TaskContamination:
    """Counts of one task: its problems in the evaluation set, the training positions that were drawn, the different
    questions among them, and the positions whose question is in the evaluation set, as `drawn` and as `served`."""

    task: str
    evaluated: int
    items: int
    questions: int
    drawn: int
    served: int
    failures: tuple[str, ...] = ()


def contamination_command(settings: PoolSettings, names: Sequence[str], seed: int, items: int) -> int:
    """Measure, and print the table; returns 0.

    `names` are patterns of tasks, none of them for all, and `seed` is the training stream's. Everything else is as
    the environment has it by default. Raises ConfigError for a pattern that matches nothing.
    """
    contaminations = asyncio.run(_measure(settings, names, seed, items))
    print("\n".join(format_report(contaminations, items=items)))
    return 0


async def _measure(settings: PoolSettings, names: Sequence[str], seed: int, items: int) -> list[TaskContamination]:
    pool = WorkerPool(replace(settings, verifiers=0, niceness=0))
    defaults = ReasoningSettings()

    async def work() -> list[TaskContamination]:
        library = await pool.start()
        for warning in library.warnings:
            logger.warning("%s", warning)
        available = [task.name for task in library.tasks]
        tasks = select_tasks(library.tasks, names)
        params = task_params(tasks, available)
        evaluation_set = EvaluationSet(
            pool,
            tasks,
            params,
            samples_per_task=defaults.num_eval_samples_per_task,
            eval_seed=defaults.eval_seed,
            deadline_s=defaults.eval_generation_deadline_s,
        )
        samplers = {task: TaskSampler(task, params.get(task, {}), seed) for task in tasks}
        try:
            return await measure_tasks(pool, samplers, evaluation_set, items=items)
        finally:
            await evaluation_set.close()

    return await run_until_signal(work, pool.close)


class TaskSampler:
    """A run's draws where it trains on one task only, with the parameters that the task has in the whole run."""

    def __init__(self, task: str, params: Mapping[str, Any], run_seed: int) -> None:
        self._sampler = UniformSampler([task], [task], run_seed=run_seed)
        self._params = params

    def draw(self, index: int, attempt: int) -> ProblemSpec:
        return replace(self._sampler.draw(index, attempt), params=self._params)

    def redraw(self, spec: ProblemSpec) -> ProblemSpec:
        return self._sampler.redraw(spec)


async def measure_tasks(
    generator: Generator, samplers: Mapping[str, Sampler], evaluation_set: Evaluated, *, items: int
) -> list[TaskContamination]:
    """Draw up to `items` training problems of each task, with a progress bar.

    A question counts as evaluated whichever task asks it there: a composite asks what its members do. One result a
    task, in order. Raises WorkerError when there are no workers any more.
    """
    evaluated = await evaluation_set.problems()
    keys = frozenset(question_key(problem.question) for problem in evaluated)
    sizes = Counter(problem.task for problem in evaluated)
    limit = asyncio.Semaphore(TASKS_AT_ONCE)
    with tqdm(total=len(samplers), desc="overlap", unit="task", mininterval=1.0) as progress:

        async def run(task: str, sampler: Sampler) -> TaskContamination:
            async with limit:
                stream = _TaskStream(generator, sampler, evaluation_set)
                drawn, served = await stream.take(items)
            progress.update()
            return TaskContamination(
                task=task,
                evaluated=sizes[task],
                items=len(drawn),
                questions=len(set(drawn)),
                drawn=sum(key in keys for key in drawn),
                served=sum(key in keys for key in served),
                failures=tuple(stream.failures),
            )

        running = [asyncio.ensure_future(run(task, sampler)) for task, sampler in samplers.items()]
        try:
            return await asyncio.gather(*running)
        finally:
            for one in running:
                one.cancel()
            await asyncio.gather(*running, return_exceptions=True)


class _TaskStream:
    """Fills the positions of one task's stream in order, as a run does, and remembers what they were given first."""

    def __init__(self, generator: Generator, sampler: Sampler, evaluation_set: Evaluated) -> None:
        self._generator = generator
        self._sampler = sampler
        self._evaluation_set = evaluation_set
        self._failures_in_a_row = 0
        self._spent_s = 0.0
        self.failures: list[str] = []

    async def take(self, items: int) -> tuple[list[str], list[str]]:
        """The keys of the questions that positions are given first, and of those that they end with.

        There are fewer than `items` of a task that takes long, that keeps failing or that has flawed problems only.
        """
        drawn: list[str] = []
        served: list[str] = []
        while len(drawn) < items and self._spent_s < BUDGET_S:
            keys = await self._fill(len(drawn))
            if not keys:
                break
            drawn.append(keys[0])
            served.append(keys[-1])
        return drawn, served

    async def _fill(self, index: int) -> list[str]:
        """The keys of all questions that a position is given, until one may be served or no more are drawn."""
        keys: list[str] = []
        spec = self._sampler.draw(index, 0)
        for _ in range(MAX_FLAWED):
            problem = await self._generate(spec)
            if self._failures_in_a_row == MAX_FAILURES:
                return []
            if problem is not None and problem.flaw is None:
                keys.append(question_key(problem.question))
                if not await self._evaluation_set.asks(problem):
                    break
            spec = self._sampler.redraw(spec)
        return keys

    async def _generate(self, spec: ProblemSpec) -> Problem | None:
        try:
            problem = await self._generator.generate(spec, DEADLINE_S)
        except GenerationError as error:
            self.failures.append(str(error))
            self._failures_in_a_row += 1
            return None
        self._failures_in_a_row = 0
        self._spent_s += problem.generation_s
        return problem


def format_report(contaminations: Sequence[TaskContamination], *, items: int) -> list[str]:
    """The lines to print: a row for each task, the largest overlap first, and below them what needs more words."""
    ordered = sorted(
        contaminations,
        key=lambda contamination: (-_share(contamination.drawn, contamination.items), contamination.task),
    )
    lines = format_table(HEADINGS, [_row(contamination) for contamination in ordered], NUMBERS)
    lines += [
        "",
        "EVALUATED: problems in the evaluation set; ITEMS: training problems drawn; QUESTIONS: different ones of these",
        "DRAWN: share of the items whose question is in the evaluation set, whichever task asks it there",
        f"SERVED: the same after a run has drawn such questions again, up to {MAX_FLAWED} times",
    ]
    short = [contamination for contamination in contaminations if contamination.items < items]
    lines += [f"{contamination.task}: {_why_short(contamination)}" for contamination in short if contamination.failures]
    if short:
        lines.append(f"{len(short)} tasks have fewer than {items} items: each is given {BUDGET_S:g} s of a process")
    met = sum(contamination.drawn > 0 for contamination in contaminations)
    left = [contamination.task for contamination in ordered if contamination.served]
    verdict = f"a run serves some of: {', '.join(left)}" if left else "a run serves none of them"
    lines += [
        "",
        f"{met} of {len(contaminations)} tasks draw questions of the evaluation set" + (f"; {verdict}" if met else ""),
    ]
    return lines


def _row(contamination: TaskContamination) -> tuple[str, ...]:
    return (
        contamination.task,
        str(contamination.evaluated),
        str(contamination.items),
        str(contamination.questions),
        _percentage(contamination.drawn, contamination.items),
        _percentage(contamination.served, contamination.items),
    )


def _share(count: int, items: int) -> float:
    return count / items if items else 0.0


def _percentage(count: int, items: int) -> str:
    return f"{100 * count / items:.2f} %" if count else "0" if items else "-"


def _why_short(contamination: TaskContamination) -> str:
    return f"{len(contamination.failures)} problems failed, the first: {contamination.failures[0]}"
