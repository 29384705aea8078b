"""Draws problem specs: position k of a stream is a pure function of seed, split, instance, k and the quarantine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..errors import GenerationError
from ..library_facts import COMPOSITE
from ..records import ProblemSpec, Split
from .parameters import SpecRules
from .seeds import eval_seed, hash_int, train_seed
from .selection import composite_members

MAX_DRAWS = 10_000
"""Redraws of one position before it is given up; only a position whose every task keeps failing gets there."""


class UniformSampler:
    """Draws every selected task with the same chance.

    `tasks` are the selected names and `available` all names of the library, of which a composite may be made; `rules`
    set parameters and level.
    """

    def __init__(
        self,
        tasks: Sequence[str],
        available: Sequence[str],
        *,
        run_seed: int,
        instance: int = 0,
        rules: SpecRules | None = None,
    ) -> None:
        self._tasks = tuple(tasks)
        self._run_seed = run_seed
        self._instance = instance
        self._rules = rules or SpecRules(run_seed, instance)
        self._params = task_params(tasks, available)
        self._quarantined: set[str] = set()

    def draw(self, index: int, attempt: int) -> ProblemSpec:
        """The draw of a position; draws that fall on a quarantined task are skipped, which `attempt` then shows.

        Raises GenerationError when no task is left.
        """
        if self._quarantined.issuperset(self._tasks):
            raise GenerationError("every selected task is quarantined; see the warnings above for the reasons")
        for number in range(attempt, attempt + MAX_DRAWS):
            task = self._tasks[hash_int("task", self._run_seed, self._instance, index, number) % len(self._tasks)]
            if task not in self._quarantined:
                seed = train_seed(self._run_seed, self._instance, index, number)
                spec = ProblemSpec(task, seed, Split.TRAIN, index, number, self._params.get(task, {}))
                return self._rules.complete(spec)
        raise GenerationError(f"no task was found for position {index} in {MAX_DRAWS} draws")

    def redraw(self, spec: ProblemSpec) -> ProblemSpec:
        """The next attempt at the same position with the same task."""
        seed = train_seed(self._run_seed, self._instance, spec.index, spec.attempt + 1)
        return replace(spec, seed=seed, attempt=spec.attempt + 1)

    def quarantine(self, task: str) -> None:
        """Never draw this task again."""
        self._quarantined.add(task)

    def release(self, index: int) -> None:
        """Nothing is kept of a position: every draw is computed anew."""


def task_params(tasks: Sequence[str], available: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """Parameters of the tasks that cannot be built from defaults alone: only the composite."""
    if COMPOSITE not in tasks:
        return {}
    return {COMPOSITE: {"datasets": [{"name": name} for name in composite_members(available, tasks)]}}


def evaluation_spec(
    task: str, sample: int, attempt: int, *, run_seed: int, params: Mapping[str, Any] | None = None
) -> ProblemSpec:
    """The spec of one evaluation sample; it depends on its own task alone, not on what else is selected."""
    key = task if attempt == 0 else f"{task}#{attempt}"
    return ProblemSpec(task, eval_seed(run_seed, key, sample), Split.EVAL, sample, attempt, params or {})
