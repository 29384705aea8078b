"""Keeping the state of a run in the folder that its trainer names, and finding what a later run can go on from."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from .errors import ConfigError
from .plan import TaskPlan
from .settings import ReasoningSettings
from .slots import Slot, open_slot

logger = logging.getLogger(__name__)

FOLDER = "env_checkpoints"
DECISIVE = ("seed", "tasks")
"""What must be the same for a run to go on; the other settings may change and count from then on."""


class StateKeeper:
    """Saves and loads the state of a run, in a folder that is this process' own from `open` to `close`.

    Everything here but `save` reads or waits for files, and belongs in a thread.
    """

    def __init__(self, settings: ReasoningSettings, plan: TaskPlan) -> None:
        self._made_with = describe_run(settings, plan)
        self._accept_changes = settings.resume_with_changes
        self._slot: Slot | None = None
        self._number: int | None = None
        self._adopted = False

    @property
    def keeps(self) -> bool:
        """Whether there is a folder, so that what is saved will be there."""
        return self._slot is not None

    def open(self, checkpoint_dir: str, name: str, number: int, *, step: int) -> int:
        """Take a folder for the environment called `name`, and return the number that is this process' alone.

        Past the first step, a folder whose process is gone is taken over, and its number with it. Without a folder,
        because the trainer names none or it cannot be written to, the number stays, and nothing is kept. Called again,
        it changes nothing.
        """
        if self._number is None:
            root = Path(checkpoint_dir, FOLDER)
            if checkpoint_dir:
                self._slot = open_slot(root, name, number, step=step, fits=self._fits, adopt=step > 0)
            self._number = number if self._slot is None else self._slot.number
            self._adopted = self._number != number
        return self._number

    def load(self, step: int) -> dict[str, Any] | None:
        """What was saved for `step` or the last step before it; None, with a warning, where there is nothing.

        Raises ConfigError for a state of another seed or task selection, unless the settings accept that; then it is
        without the problems that were drawn already.
        """
        if self._slot is None:
            return None
        # One that came back alone goes on from the very last state; after a restart of all, the trainer's step counts.
        loaded = self._slot.load(step, prefer_latest=self._adopted)
        if loaded is None:
            logger.warning("the problem stream starts from its beginning")
            return None
        changed = [name for name in self._made_with if loaded.state["made_with"].get(name) != self._made_with[name]]
        decisive = [name for name in changed if name in DECISIVE]
        if decisive and not self._accept_changes:
            raise ConfigError(
                f"the checkpoint {loaded.path} was made with other {' and '.join(decisive)}; resume with the same, set "
                "env.resume_with_changes, or move it away"
            )
        if changed:
            logger.warning("the checkpoint %s was made with other %s", loaded.path, ", ".join(changed))
        logger.info("resumed from %s, which was saved at step %d", loaded.path, loaded.step)
        return _without_draws(loaded.state) if decisive else dict(loaded.state)

    def save(self, step: int, finish: Callable[[], Mapping[str, Any]], *, latest: bool = False) -> None:
        """Save what `finish` gives, under its step or only as the latest; a thread calls it and writes the file."""
        if self._slot is not None:
            made_with = self._made_with
            self._slot.save(lambda: {"made_with": made_with, **finish()}, step, latest=latest)

    def close(self) -> None:
        """Write what is left and let go of the folder; safe to call twice."""
        if self._slot is not None:
            self._slot.close()
            self._slot = None

    def _fits(self, state: Mapping[str, Any]) -> bool:
        return all(state["made_with"].get(name) == self._made_with[name] for name in DECISIVE)


def describe_run(settings: ReasoningSettings, plan: TaskPlan) -> dict[str, Any]:
    """What decides which problems a run draws, as JSON reads it back."""
    made_with = {
        "seed": settings.seed,
        "tasks": plan.training_tasks,
        "complexity_mode": settings.complexity_mode,
        "complexity_level": settings.complexity_level,
        "task_sampling": settings.task_sampling,
        "task_params": {task: dict(params) for task, params in plan.params.items()},
        "task_weights": dict(plan.weights),
    }
    return dict(json.loads(json.dumps(made_with)))


def _without_draws(state: Mapping[str, Any]) -> dict[str, Any]:
    """The state for a run with another seed or other tasks: position, counts and what was learnt of tasks stay."""
    sampler = state["sampler"]
    return {
        **state,
        "stream": {**state["stream"], "owed": []},
        "sampler": None if sampler is None else {**sampler, "draws": []},
    }
