"""Presets: the settings of published evaluations, and the problems of these evaluations.

`evaluations/published.py` has the published results.

`rg-easy` and `rg-hard` are the zero-shot runs of the Reasoning Gym paper. Each task has 50 problems with the library's
own seeds (45, 46, ...); no problem is rejected. The system prompt is the library's, temperature is 0.6, top_p is 0.95,
and a completion has at most 32,768 tokens.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ..errors import GenerationError
from ..records import Problem, ProblemRequest, ProblemSpec, Split
from ..runtime.retries import FailureStreak
from ..tasks import find_task
from .evaluation_set import EvaluationSet
from .giving_up import MAX_FAILURES
from .stream import generate_with_retries

logger = logging.getLogger(__name__)

PRESET_SIZE = 50
"""Problems per task in the published sets."""
FIRST_SEED = 45
"""Seed of a task's first problem in the published sets."""
MAX_COMPLETION_TOKENS = 32_768
"""Token limit per completion in the published runs."""


@dataclass(frozen=True)
class Preset:
    """A published evaluation: tasks, parameters that differ from the library's, and completions per problem."""

    name: str
    tasks: tuple[str, ...]
    params: Mapping[str, Mapping[str, object]]
    repeats: int


def load_preset(name: str) -> Preset:
    """Read a preset from this package's files."""
    content = json.loads(preset_path(name).read_text(encoding="utf-8"))
    return Preset(name, tuple(content["tasks"]), content["params"], content["repeats"])


def preset_path(name: str) -> Path:
    """Return the path of the file that has a preset's settings and published results."""
    return Path(__file__).with_name("published") / f"{name}.json"


class PresetSet(EvaluationSet):
    """The problems of a preset's tasks. No problem is rejected, and a failed problem is not replaced.

    If a task fails MAX_FAILURES times in a row, its remaining problems are left out.
    """

    library_seeds = True

    @cached_property
    def _limits(self) -> defaultdict[str, asyncio.Semaphore]:
        """Limits each task to two problems in generation, so that few attempts are wasted if the task always fails."""
        return defaultdict(lambda: asyncio.Semaphore(2))

    @cached_property
    def _failures(self) -> defaultdict[str, FailureStreak]:
        return defaultdict(FailureStreak)

    def _depends_on_lower(self, task: str) -> bool:
        return False

    async def _generate(self, task: str, number: int) -> Problem | None:
        failures = self._failures[task]
        async with self._limits[task]:
            if failures.count >= MAX_FAILURES:
                return None
            try:
                problem = await generate_with_retries(self._generator, self._spec(task, number, 0), self._deadline_s)
            except GenerationError as error:
                failures.add(error)
                logger.warning("problem %d of task %s is left out: %s", number, task, error)
                if failures.count == MAX_FAILURES:
                    logger.warning("after these failures, the remaining problems of task %s are left out", task)
                return None
            if failures.count < MAX_FAILURES:  # otherwise, the remaining problems are already left out
                failures.end()
            return problem

    def _spec(self, task: str, number: int, attempt: int) -> ProblemSpec:
        # In most tasks, item k of seed s is item 0 of seed s + k.
        params = self._params.get(task, {})
        if find_task(task).constructor_uses_seed:
            request = ProblemRequest(
                task, self._eval_seed, params, exact_seed=True, item=number, dataset_size=PRESET_SIZE, clarified=False
            )
        else:
            request = ProblemRequest(task, self._eval_seed + number, params, exact_seed=True, clarified=False)
        return ProblemSpec(request, Split.EVAL, number)
