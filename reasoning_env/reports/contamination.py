"""Count training problems that ask evaluation questions, drawn and served: `tasks --contamination`.

Seeds of training and evaluation never meet, but in tasks with few different questions the questions do. Each task has a
stream of its own, of the kind that a run serves its problems from, and its questions are compared with the whole
evaluation set: a question counts whichever task asks it there, since a composite asks what its members do.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import GenerationError
from ..evaluations.problem_set import EvaluationSet, question_key
from ..problems import Generator, ProblemStream, Sampler
from ..records import Problem
from ..settings import ReasoningSettings
from ..tasks.sampling import TaskSampler
from ..terminal import Table, print_json
from ..workers.pool import PoolSettings
from .measuring import measure_each, open_library, run_measurement

DEFAULT_ITEMS = 2000
MAX_ITEMS = 100_000
BUDGET_S = 10.0
"""Seconds of a generator after which a task is left with the items it has."""
TASKS_AT_ONCE = 4
"""Enough to keep the generators busy; each task draws one problem after the other."""
COLUMNS = {"TASK": "", "EVALUATED": "d", "ITEMS": "d", "QUESTIONS": "d", "DRAWN": ".2%", "SERVED": ".2%"}
LEGEND = """
EVALUATED: problems in the evaluation set; ITEMS: training problems drawn; QUESTIONS: different ones of these
DRAWN: share of the items whose question is in the evaluation set, whichever task asks it there
SERVED: the same after a run has drawn such questions again"""


@dataclass(frozen=True)
class Positions:
    """Keys of the questions that a stream's positions were given first, and that they were served."""

    first: Sequence[str]
    served: Sequence[str]


@dataclass(frozen=True)
class TaskContamination:
    """Counts of a task: its problems in the evaluation set, its training positions, their questions.

    `drawn` and `served` are the positions whose question, as first drawn and as served, is in the evaluation set.
    """

    task: str
    evaluated: int
    items: int
    questions: int
    drawn: int
    served: int


def contamination_command(
    settings: PoolSettings, names: Sequence[str], seed: int, items: int, *, as_json: bool = False
) -> int:
    """Measure, and print the table; returns 0.

    `names` are patterns of tasks, none of them for all, and `seed` is the training stream's. Everything else is as
    the environment has it by default. Raises ConfigError for a pattern that matches nothing.
    """
    settings = replace(settings, verifiers=0, niceness=0)
    measured = run_measurement(lambda: _measure(settings, names, seed, items))
    ordered = sorted(measured, key=lambda one: (-one.drawn / max(one.items, 1), one.task))
    table = Table(COLUMNS, [_row(one) for one in ordered])
    if as_json:
        print_json({"conclusion": summary_line(ordered), "tasks": table.records()})
        return 0
    table.print()
    print(LEGEND)
    short = sum(one.items < items for one in measured)
    if short:
        print(f"{short} tasks have fewer than {items} items: each is given {BUDGET_S:g} s of a process")
    print(f"\n{summary_line(ordered)}")
    return 0


async def _measure(settings: PoolSettings, names: Sequence[str], seed: int, items: int) -> list[TaskContamination]:
    defaults = ReasoningSettings()
    async with open_library(settings, names) as library:
        pool, tasks = library.pools[0], library.tasks
        evaluation_set = EvaluationSet(
            pool,
            tasks,
            library.params,
            samples_per_task=defaults.num_eval_samples_per_task,
            eval_seed=defaults.eval_seed,
            deadline_s=defaults.eval_generation_deadline_s,
        )
        try:
            evaluated = await evaluation_set.problems()

            async def measure(task: str) -> TaskContamination:
                sampler = TaskSampler({task: 1.0}, run_seed=seed, params=library.params)
                positions = await draw_positions(pool, sampler, evaluation_set.asks, items=items)
                return count_known(task, positions, evaluated)

            return await measure_each("contamination", tasks, measure, at_once=TASKS_AT_ONCE)
        finally:
            await evaluation_set.close()


async def draw_positions(
    generator: Generator, sampler: Sampler, asks: Callable[[Problem], Awaitable[bool]], *, items: int
) -> Positions:
    """Draw up to `items` positions of a training stream, again where `asks` says yes to the problem.

    There are fewer of a task that takes long, and of one that a run would quarantine. Raises WorkerError when there are
    no workers any more.
    """
    first: dict[int, str] = {}
    spent_s = 0.0

    async def avoid(problem: Problem) -> bool:
        nonlocal spent_s
        spent_s += problem.generation_s
        first.setdefault(problem.spec.index, question_key(problem.question))
        return await asks(problem)

    defaults = ReasoningSettings()
    stream = ProblemStream(
        generator,
        sampler,
        depth=1,
        deadline_s=defaults.generation_deadline_s,
        quarantine_after=defaults.quarantine_after_failures,
        held_out=avoid,
    )
    asked = 0
    served: list[str] = []
    try:
        while asked < items and spent_s < BUDGET_S:
            asked += 1
            problem = await stream.next()
            stream.done(problem)
            served.append(question_key(problem.question))
    except GenerationError:
        pass  # the task is quarantined, and the stream has said why
    finally:
        await stream.close()
    return Positions([key for index, key in first.items() if index < asked], served)


def count_known(task: str, positions: Positions, evaluated: Sequence[Problem]) -> TaskContamination:
    """Count the positions whose question is in the evaluation set, which holds `evaluated`."""
    keys = {question_key(problem.question) for problem in evaluated}
    return TaskContamination(
        task,
        evaluated=sum(problem.task == task for problem in evaluated),
        items=len(positions.first),
        questions=len(set(positions.first)),
        drawn=sum(key in keys for key in positions.first),
        served=sum(key in keys for key in positions.served),
    )


def summary_line(measured: Sequence[TaskContamination]) -> str:
    """Say in a line how many tasks draw evaluation questions, and which are served some of them."""
    drawing = sum(one.drawn > 0 for one in measured)
    serving = [one.task for one in measured if one.served]
    verdict = f"a run serves some of: {', '.join(serving)}" if serving else "a run serves none of them"
    return f"{drawing} of {len(measured)} tasks draw questions of the evaluation set" + (f"; {verdict}" * bool(drawing))


def _row(one: TaskContamination) -> tuple[Any, ...]:
    shares = (count / one.items if one.items else None for count in (one.drawn, one.served))
    return (one.task, one.evaluated, one.items, one.questions, *shares)
