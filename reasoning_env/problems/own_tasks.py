"""Try the tasks of a user's own modules at the start of a session, where a mistake is an error of one line."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import ConfigError, GenerationError, ScoringError
from ..records import Pool, ProblemRequest, ProblemSpec, Reason, Split

logger = logging.getLogger(__name__)

CPU_S = 60.0
"""Seconds of processor time for the generation of a problem: the same as the default for evaluation problems."""
BUSY_MACHINE_S = 600.0
"""Seconds for the same on a busy machine."""


async def check_own_tasks(tasks: Sequence[str], params: Mapping[str, Mapping[str, Any]], workers: Pool) -> None:
    """Make a problem of each task, and score its own answer where answers are scored: in the sandbox.

    Raises ConfigError, which names `task_modules`:

    - generation raises, takes too long or ends its process, or the verifier does
    - a problem has no text, or its entry cannot be pickled
    - the curriculum of a task has no levels, or its config refuses a level
    - the score of the expected answer is no number, or the verifier fails in the sandbox

    Warns of tasks that make another problem from the same seed.
    """
    tried = await asyncio.gather(*(_try(task, params.get(task, {}), workers) for task in tasks))
    faults = [each.fault for each in tried if each.fault is not None]
    # Without limits of time and memory, so tasks that hang or take all memory are left out.
    sound = [(task, params.get(task, {}), None) for task, each in zip(tasks, tried, strict=True) if each.fault is None]
    faults += await workers.check(sound) if sound else []
    if not faults:
        faults = [fault for each in tried if (fault := each.sandbox_fault) is not None]
    if faults:
        raise ConfigError("; ".join(faults), setting="task_modules")
    unlike = [task for task, each in zip(tasks, tried, strict=True) if not each.is_repeatable]
    if unlike:
        logger.warning(
            "these tasks make another problem from the same seed, so that references to their problems and their "
            "evaluation set do not hold; draw from random.Random(self.seed + index) alone: %s",
            ", ".join(unlike),
        )


@dataclass(frozen=True)
class TrialResult:
    """The result of trying a task. A `sandbox_fault` is reported only if nothing else is wrong with any task."""

    fault: str | None = None
    sandbox_fault: str | None = None
    is_repeatable: bool = True


async def _try(task: str, params: Mapping[str, Any], workers: Pool) -> TrialResult:
    spec = ProblemSpec(ProblemRequest(task, 0, params, as_is=True), Split.TRAIN, 0)
    try:
        problem, again = [await workers.generate(spec, BUSY_MACHINE_S, cpu_s=CPU_S) for _ in range(2)]
        is_repeatable = again.question == problem.question
        if problem.answer is None:
            return TrialResult(is_repeatable=is_repeatable)
        [verdict] = await workers.score(problem, [problem.answer])
    except (GenerationError, ScoringError) as error:
        return TrialResult(str(error))
    if verdict.reason is Reason.SCORED:
        return TrialResult(is_repeatable=is_repeatable)
    fault = f"{task}: its verifier fails at its own answer in the sandbox ({verdict.reason})"
    if verdict.reason is not Reason.VERIFIER_ERROR:
        return TrialResult(fault)
    return TrialResult(
        sandbox_fault=f"{fault}, where it may read no file but the packages that Python imports, write none, and start "
        "no process",
        is_repeatable=is_repeatable,
    )
