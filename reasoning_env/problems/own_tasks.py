"""Try the tasks of a user's own modules at the start of a session, where a mistake is an error of one line."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ..errors import ConfigError, GenerationError, ScoringError
from ..records import Problem, ProblemRequest, ProblemSpec, Reason, Split, Verdict

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
    """
    faults = await workers.check([(task, params.get(task, {}), None) for task in tasks]) if tasks else []
    if not faults:
        found = await asyncio.gather(*(_try_verifier(task, params.get(task, {}), workers) for task in tasks))
        faults = [fault for fault in found if fault is not None]
    if faults:
        raise ConfigError("; ".join(faults), setting="task_modules")


async def _try_verifier(task: str, params: Mapping[str, Any], workers: Workers) -> str | None:
    """Return why the sandboxed verifier of a task cannot score the task's own answer; None if it can."""
    spec = ProblemSpec(ProblemRequest(task, 0, params, as_is=True), Split.TRAIN, 0)
    try:
        problem = await workers.generate(spec, DEADLINE_S)
        if problem.answer is None:
            return None
        [verdict] = await workers.score(problem, [problem.answer])
    except (GenerationError, ScoringError) as error:
        return str(error)
    if verdict.reason is Reason.SCORED:
        return None
    return (
        f"{task}: its verifier fails in the sandbox ({verdict.reason}), where it may read no file but the packages "
        "that Python imports, write none, and start no process"
    )
