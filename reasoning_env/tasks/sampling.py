"""Draw problem specs: position k is a pure function of seed, split, instance, k and the quarantine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..errors import GenerationError
from ..library_facts import COMPOSITE
from ..records import Group, ProblemSpec, Split, TaskReport
from .parameters import SpecRules
from .seeds import eval_seed, hash_int, train_seed

MAX_DRAWS = 10_000
"""Redraws of one position before it is given up; only a position whose every task keeps failing gets there."""


class UniformSampler:
    """Draws every selected task with the same chance.

    `tasks` are the selected names and `available` all names of the library, of which a composite may be made. `rules`
    name the stream, and set parameters and level.
    """

    def __init__(self, tasks: Sequence[str], available: Sequence[str], rules: SpecRules) -> None:
        self._tasks = tuple(tasks)
        self._rules = rules
        self._stream = (rules.run_seed, rules.instance)
        self._params = composite_params(tasks, available)
        self._quarantined: set[str] = set()

    def draw(self, index: int, attempt: int) -> ProblemSpec:
        """Return a position's draw; draws of quarantined tasks are skipped, which the spec's `attempt` shows.

        Raises GenerationError when no task is left.
        """
        if self._quarantined.issuperset(self._tasks):
            raise GenerationError("every selected task is quarantined; see the warnings above for the reasons")
        for number in range(attempt, attempt + MAX_DRAWS):
            task = self._tasks[hash_int("task", *self._stream, index, number) % len(self._tasks)]
            if task not in self._quarantined:
                return self._spec(task, index, number)
        raise GenerationError(f"no task was found for position {index} in {MAX_DRAWS} draws")

    def redraw(self, spec: ProblemSpec) -> ProblemSpec:
        """Return the next attempt at the same position with the same task, parameters and level."""
        return replace(spec, seed=train_seed(*self._stream, spec.index, spec.attempt + 1), attempt=spec.attempt + 1)

    def quarantine(self, task: str) -> None:
        """Never draw this task again."""
        self._quarantined.add(task)

    def observe(self, group: Group, under_way: int) -> None:
        """Learn from a scored group (here nothing); `under_way` problems of its task are drawn and not done."""

    def report(self) -> dict[str, TaskReport]:
        """Return what is known of each task; nothing where draws do not depend on what was observed."""
        return {}

    def state(self) -> dict[str, Any]:
        """Return what a later sampler needs to go on from here, as JSON."""
        return {}

    def _spec(self, task: str, index: int, attempt: int, level: float | None = None) -> ProblemSpec:
        seed = train_seed(*self._stream, index, attempt)
        spec = ProblemSpec(task, seed, Split.TRAIN, index, attempt, self._params.get(task, {}))
        return self._rules.complete(spec, level)


def composite_params(tasks: Sequence[str], available: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """Return the parameters of a composite among the tasks, the only task without usable defaults."""
    if COMPOSITE not in tasks:
        return {}
    return {COMPOSITE: {"datasets": [{"name": name} for name in composite_members(tasks, available)]}}


def composite_members(tasks: Sequence[str], available: Sequence[str]) -> list[str]:
    """Return a composite's members: the other tasks or, if there are none, all that are available."""
    return [name for name in tasks if name != COMPOSITE] or sorted(set(available) - {COMPOSITE})


def evaluation_spec(
    task: str, sample: int, attempt: int, *, run_seed: int, params: Mapping[str, Any] | None = None
) -> ProblemSpec:
    """Return the spec of one evaluation sample; its seed does not depend on the other selected tasks."""
    key = task if attempt == 0 else f"{task}#{attempt}"
    return ProblemSpec(task, eval_seed(run_seed, key, sample), Split.EVAL, sample, attempt, params or {})
