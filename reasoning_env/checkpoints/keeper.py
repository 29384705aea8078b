"""Keep a run's state below the folder that its trainer names, and find what a later run goes on from.

The folder `{checkpoint_dir}/env_checkpoints/{number}` belongs to one living environment, whatever its name. The number
is also that of its stream of problems: no two share a stream, and who takes over a folder takes over its stream.

A run past its first step goes on from the first folder that nobody holds and whose checkpoint, of that step or before,
fits: an environment of the same name made it, with the same problems. The folder of its own number comes first,
then the others in the order of their numbers. Where nothing fits it begins anew, in the first free folder from its
number on that holds no checkpoints. A run at its first step begins anew in the first free folder, and puts aside what
lies there.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from .files import Checkpoint, find_checkpoint
from .folder import CheckpointFolder, Waiting, choosing, group_file, take_folder

logger = logging.getLogger(__name__)

FOLDER = "env_checkpoints"


@dataclass(frozen=True)
class Resumed:
    """What a run goes on from: state, groups that wait for delivery, and the next group's number."""

    state: Mapping[str, Any] = field(repr=False)
    undelivered: Sequence[tuple[int, bytes]] = field(repr=False)
    next_number: int


class StateKeeper:
    """Saves and loads the state of a run, in a folder that is this process' own from `open` to `close`.

    `made_with` holds what decides which problems the run draws; it may only differ from a checkpoint's with
    `accept_changes`. `open` and `close` wait for files, and belong in a thread.
    """

    def __init__(self, made_with: Mapping[str, Any], *, accept_changes: bool) -> None:
        self._made_with = dict(made_with)
        self._accept_changes = accept_changes
        self._opened = False
        self._folder: CheckpointFolder | None = None
        self._resumed: Resumed | None = None
        self._saving: Future[bool] | None = None

    @property
    def folder(self) -> Path | None:
        """Where the state is kept; None where it is not."""
        return None if self._folder is None else self._folder.path

    @property
    def number(self) -> int | None:
        """The number of the folder, and of the stream of problems; None where no state is kept."""
        return None if self._folder is None else int(self._folder.path.name)

    @property
    def busy(self) -> bool:
        """Whether what was saved last is still being written."""
        return self._saving is not None and not self._saving.done()

    def open(self, checkpoint_dir: str, name: str, number: int, *, step: int) -> None:
        """Take a folder for the environment of this name and number, and read what it goes on from.

        Nothing is kept where the trainer names no `checkpoint_dir` or nothing can be written to it. Called again, it
        changes nothing. Raises ConfigError where nothing fits because the checkpoint of its own number was made with
        other settings.
        """
        if self._opened or not checkpoint_dir:
            return
        self._opened = True
        self._made_with["name"] = name
        root = Path(checkpoint_dir, FOLDER)
        try:
            with choosing(root):
                found = self._go_on(root, number, step) if step > 0 else None
                self._folder = found or _begin(root, number, step)
            logger.info("the state is kept in %s", self.folder)
        except OSError as error:
            logger.warning("no checkpoints can be kept in %s (%s); the environment runs without them", root, error)

    def load(self) -> Resumed | None:
        """Hand over what `open` found to go on from, once; None where there was nothing."""
        resumed, self._resumed = self._resumed, None
        return resumed

    def save(
        self, step: int, state: Mapping[str, Any], waiting: Waiting, delivered_up_to: int, *, latest: bool = False
    ) -> None:
        """Have a thread save a state, which must not change meanwhile, under its step or only as the latest.

        `waiting` are the groups that wait for delivery now, all that have a number above `delivered_up_to`.
        """
        if self._folder is not None:
            next_number = 1 + (waiting[-1][0] if waiting else delivered_up_to)
            delivery = {"delivered_up_to": delivered_up_to, "next_number": next_number}
            whole = {"made_with": self._made_with, "delivery": delivery, **state}
            self._saving = self._folder.save(step, whole, waiting, latest=latest)

    def close(self) -> None:
        """Write what is left and let go of the folder; safe to call twice."""
        if self._folder is not None:
            self._folder.close()
            self._folder = None

    def _go_on(self, root: Path, number: int, step: int) -> CheckpointFolder | None:
        """Take the first folder that fits and read what is in it. Raises OSError, and ConfigError as `open`."""
        refusal = None
        numbers = [int(path.name) for path in root.iterdir() if path.name.isdecimal()]
        for candidate in sorted(numbers, key=lambda other: (other != number, other)):
            folder = take_folder(root / str(candidate))
            if folder is None:
                continue
            # Who comes back alone goes on from the newest state; who comes back with the trainer, from its step's.
            found = find_checkpoint(folder.path, step, prefer_latest=candidate != number)
            if found is not None and found.state["made_with"]["name"] == self._made_with["name"]:
                changed = self._changes(found)
                if not changed or self._accept_changes:
                    self._resumed = _resume(found, changed)
                    return folder
                if candidate == number:
                    refusal = f"the checkpoint {found.path} was made with other {' and '.join(changed)}"
            folder.close()
        if refusal is not None:
            raise ConfigError(f"{refusal}; resume with the same, set env.resume_with_changes, or move it away")
        logger.warning("no checkpoint in %s fits step %d; the problem stream starts from its beginning", root, step)
        return None

    def _changes(self, found: Checkpoint) -> list[str]:
        made_with = found.state["made_with"]
        return [name for name, value in self._made_with.items() if made_with.get(name) != value]


def _begin(root: Path, number: int, step: int) -> CheckpointFolder:
    """Take the first free folder from `number` on, after step 0 one without checkpoints. Raises OSError."""
    for candidate in itertools.count(number):
        folder = take_folder(root / str(candidate))
        if folder is not None:
            if step == 0 or not any(folder.path.glob("*.json")):
                folder.put_aside()
                return folder
            folder.close()
    raise AssertionError("numbers have no end")


def _resume(found: Checkpoint, changed: Sequence[str]) -> Resumed:
    logger.info("going on from %s, which was saved at step %d", found.path, found.step)
    if changed:
        logger.warning("it was made with other %s", ", ".join(changed))
    state, delivery = found.state, found.state["delivery"]
    if changed:
        # Position, counts and what was learnt of tasks stay; problems of the other run that were drawn ahead do not.
        state = {**state, "stream": {**state["stream"], "owed": []}}
    # There may also be groups that came after this checkpoint; their problems are served again.
    numbers = range(delivery["delivered_up_to"] + 1, delivery["next_number"])
    files = [(number, group_file(found.path.parent, number)) for number in numbers]
    # Those that are missing were delivered after a checkpoint of an earlier step, or could not be encoded.
    return Resumed(state, [(number, path.read_bytes()) for number, path in files if path.exists()], numbers.stop)
