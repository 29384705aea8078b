"""Keeping the state of a run in the folder that its trainer names, and finding what a later run can go on from."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from .errors import ConfigError
from .settings import ReasoningSettings
from .slots import Saved, Slot, claim_number, open_slot
from .tasks.plan import TaskPlan

logger = logging.getLogger(__name__)

FOLDER = "env_checkpoints"
DECISIVE = ("seed", "tasks")
"""What must be the same for a run to go on; the other settings may change and count from then on."""


class StateKeeper:
    """Saves and loads the state of a run, in a folder that is this process' own from `open` to `close`.

    Everything here but `save` and `note_delivered` reads or waits for files, and belongs in a thread.
    """

    def __init__(self, settings: ReasoningSettings, plan: TaskPlan) -> None:
        self._made_with = describe_run(settings, plan)
        self._accept_changes = settings.resume_with_changes
        self._opened = False
        self._slot: Slot | None = None
        self._adopted = False
        self._root = Path()
        self._claim: int | None = None
        self._saving: Future[Saved] | None = None

    @property
    def folder(self) -> Path | None:
        """Where the state is kept; None where it is not."""
        return None if self._slot is None else self._slot.folder

    @property
    def busy(self) -> bool:
        """Whether what was saved last is still being written."""
        return self._saving is not None and not self._saving.done()

    def open(self, checkpoint_dir: str, name: str, *, step: int) -> None:
        """Take a folder in `checkpoint_dir` for the environment called `name`, which ends in a number.

        Past the first step, the folder of a process that is gone is taken over. Without one, because the trainer names
        none or it cannot be written to, nothing is kept. Called again, it changes nothing.
        """
        if self._opened or not checkpoint_dir:
            return
        self._opened = True
        self._root = Path(checkpoint_dir, FOLDER)
        base, _, number = name.rpartition("_")
        self._slot = open_slot(self._root, base, int(number), step=step, rank=self._rank, adopt=step > 0)
        self._adopted = self._slot is not None and self._slot.number != int(number)

    def claim_instance(self, wanted: int) -> int:
        """`wanted`, or the next number that no living environment in the same `checkpoint_dir` has as its instance.

        run-api counts from 0 again after a restart, which environments that lived through it do not.
        """
        if self._slot is None or self._claim is not None:
            return wanted
        try:
            number, self._claim = claim_number(self._root / "instances", wanted)
        except OSError as error:
            logger.warning("it cannot be told which streams of problems are in use (%s)", error)
            return wanted
        return number

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
        changed = self._changed(loaded.state)
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

    def note_delivered(self, number: int) -> None:
        """Keep the number of the newest group that run-api got; returns at once."""
        if self._slot is not None:
            self._slot.note_delivered(number)

    def delivered(self) -> tuple[int, bool]:
        """The number that was noted last in the folder, and whether the run-api that got that group lives on."""
        # Only an environment that was restarted alone got another number than its predecessor's.
        return (0, False) if self._slot is None else (self._slot.delivered(), self._adopted)

    def save(self, step: int, finish: Callable[[], Mapping[str, Any]], *, latest: bool = False) -> None:
        """Save what `finish` gives, under its step or only as the latest; a thread calls it and writes the file."""
        if self._slot is not None:
            made_with = self._made_with
            self._saving = self._slot.save(lambda: {"made_with": made_with, **finish()}, step, latest=latest)

    def close(self) -> None:
        """Write what is left and let go of the folder; safe to call twice."""
        if self._slot is not None:
            self._slot.close()
            self._slot = None
        if self._claim is not None:
            os.close(self._claim)
            self._claim = None

    def _changed(self, state: Mapping[str, Any]) -> list[str]:
        return [name for name in self._made_with if state["made_with"].get(name) != self._made_with[name]]

    def _rank(self, state: Mapping[str, Any]) -> int | None:
        changed = self._changed(state)
        return None if not self._accept_changes and any(name in DECISIVE for name in changed) else len(changed)


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
