"""Try the tasks of a user's own modules at the start of a session, where a mistake is an error of one line."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..errors import ConfigError, GenerationError, ScoringError
from ..records import Problem, ProblemRequest, ProblemSpec, Reason, Split, Verdict

logger = logging.getLogger(__name__)

DEADLINE_S = 60.0
"""Seconds for the generation of a task's first problem: the same as the default for evaluation problems."""


class Workers(Protocol):
    """The methods of the worker pool that try a task."""

    async def check(self, params: Sequence[tuple[str, Mapping[str, Any], float | None]]) -> list[str]: ...

    async def generate(self, spec: ProblemSpec, deadline_s: float) -> Problem: ...

    async def score(self, problem: Problem, answers: Sequence[str]) -> list[Verdict]: ...


async def check_own_tasks(tasks: Sequence[str], params: Mapping[str, Mapping[str, Any]], workers: Workers) -> None:
    """Make a problem of each task, and score its own answer where answers are scored: in the sandbox.

    Raises ConfigError, which names `task_modules`:

    - the curriculum of a task has no levels, or its config refuses a level
    - a problem has no text, or its entry cannot be pickled
    - the score of the expected answer is no number, or the verifier fails

    Warns of tasks that make another problem from the same seed.
    """
    faults = await workers.check([(task, params.get(task, {}), None) for task in tasks]) if tasks else []
    if not faults:
        tried = await asyncio.gather(*(_try(task, params.get(task, {}), workers) for task in tasks))
        faults = [each.fault for each in tried if each.fault is not None]
        unlike = [task for task, each in zip(tasks, tried, strict=True) if not each.is_repeatable]
        if unlike:
            logger.warning(
                "these tasks make another problem from the same seed, so that references to their problems and their "
                "evaluation set do not hold; draw from random.Random(self.seed + index) alone: %s",
                ", ".join(unlike),
            )
    if faults:
        raise ConfigError("; ".join(faults), setting="task_modules")


@dataclass(frozen=True)
class Tried:
    """What came of a task: the fault of its verifier, and whether the same seed made the same question again."""

    fault: str | None
    is_repeatable: bool = True


async def _try(task: str, params: Mapping[str, Any], workers: Workers) -> Tried:
    spec = ProblemSpec(ProblemRequest(task, 0, params, as_is=True), Split.TRAIN, 0)
    try:
        problem = await workers.generate(spec, DEADLINE_S)
        again = await workers.generate(spec, DEADLINE_S)
        return Tried(await _try_verifier(problem, workers), again.question == problem.question)
    except (GenerationError, ScoringError) as error:
        return Tried(str(error))


async def _try_verifier(problem: Problem, workers: Workers) -> str | None:
    """Return why the sandboxed verifier of a task cannot score the task's own answer; None if it can.

    Raises ScoringError.
    """
    if problem.answer is None:
        return None
    [verdict] = await workers.score(problem, [problem.answer])
    if verdict.reason is Reason.SCORED:
        return None
    task = problem.task
    return (
        f"{task}: its verifier fails in the sandbox ({verdict.reason}), where it may read no file but the packages "
        "that Python imports, write none, and start no process"
    )
