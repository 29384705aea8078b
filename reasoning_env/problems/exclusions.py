"""Tasks and levels that a stream does not draw any more, by the rules of `giving_up.py`."""

from __future__ import annotations

import logging
import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from ..errors import GenerationError
from ..records import Problem
from .giving_up import MIN_UNFIT
from .sampling import TaskSampler

logger = logging.getLogger(__name__)


class Exclusions:
    """Quarantines tasks that keep failing, and leaves out levels whose problems mostly do not fit.

    Args:
        quarantine_after: Failures in a row after which a task is quarantined.
        state: The value of `state()` in an earlier run; other keys are ignored.
    """

    def __init__(self, sampler: TaskSampler, quarantine_after: int, state: Mapping[str, Any]) -> None:
        self._sampler = sampler
        self._quarantine_after = quarantine_after
        self.failures = 0
        self.quarantined: list[str] = list(state.get("quarantined", ()))
        for task in self.quarantined:
            sampler.quarantine(task)
        self._failures_in_a_row: Counter[str] = Counter(state.get("failures_in_a_row", {}))
        self._ceilings: dict[str, float] = dict(state.get("ceilings", {}))
        for task, level in self._ceilings.items():
            sampler.exclude_levels(task, level)
        self._fits: defaultdict[tuple[str, float], Counter[bool]] = defaultdict(Counter)

    def state(self) -> dict[str, Any]:
        """Return as JSON what a later run must not draw either."""
        return {
            "failures_in_a_row": dict(self._failures_in_a_row),
            "quarantined": list(self.quarantined),
            "ceilings": dict(self._ceilings),
        }

    def record_success(self, task: str) -> None:
        """Note that a problem of the task is served."""
        self._failures_in_a_row.pop(task, None)

    def record_failure(self, task: str, error: GenerationError) -> None:
        """Quarantine a task after its last failure in a row."""
        limit = self._quarantine_after
        self.failures += 1
        self._failures_in_a_row[task] += 1
        if self._failures_in_a_row[task] >= limit and task not in self.quarantined:
            self.quarantined.append(task)
            self._sampler.quarantine(task)
            logger.warning("task %s is quarantined after %d failures in a row; the last: %s", task, limit, error)

    def record_fit(self, problem: Problem, *, fits: bool) -> None:
        """Exclude a level if most of its problems do not fit. The lowest level stays."""
        task = problem.task
        level = problem.level
        if not level:
            return
        counts = self._fits[task, level]
        counts[fits] += 1
        mostly_unfit = counts[False] >= MIN_UNFIT and counts[False] > counts[True]
        if mostly_unfit and level < self._ceilings.get(task, math.inf):
            self._ceilings[task] = level
            self._sampler.exclude_levels(task, level)
            logger.warning(
                "levels from %g of %s are left out: most of their prompts and expected answers do not fit into "
                "the limit of tokens (max_token_length) or into max_answer_bytes",
                level,
                task,
            )
