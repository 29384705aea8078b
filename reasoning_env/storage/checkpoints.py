"""Checkpoints: the state of a run on disk, in a folder that only one running process uses.

The folder is `{checkpoint_dir}/env_checkpoints/{instance}`. Environments with different values of the setting
`instance` use different folders and training seeds. The folder has `step-{step}.json` for each step at which the
trainer saved, and `latest.json`, the newest state. Each file is one JSON object, and is replaced whole or not at all.

A process locks the folder with flock on the file `lock`. The system releases the lock when the process ends, even after
kill -9. The lock works between machines if their file system supports flock between machines.

A run that starts at step 0 of the trainer is a new run. Each save overwrites an earlier run's checkpoint of the same
step, as the trainer's saves do. `find_checkpoint` decides from which checkpoint a later run resumes.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from pydantic import TypeAdapter

from ..errors import ConfigError, ReasoningEnvError
from ..runtime.retries import OutageLog
from ..runtime.text import error_text
from ..settings import changed_settings
from .files import replace_file
from .reading import read_json, require_regular
from .values import Count, describe

logger = logging.getLogger(__name__)

VERSION = 5
LATEST = "latest.json"
LOCK = "lock"


CheckState = Callable[[Mapping[str, object]], object]
"""Checks a saved state. Raises ValueError if a run cannot resume from the state."""


class CheckpointError(ReasoningEnvError):
    """A checkpoint is damaged, unreadable or of an unsupported version. The message names the file."""


@dataclass(frozen=True)
class Checkpoint:
    """A valid checkpoint. `state` is the JSON value that was saved at `step`."""

    path: Path
    step: int
    state: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True)
class _EnvironmentState:
    """The part of a saved state that the environment itself adds. The session adds the other keys."""

    made_with: Mapping[str, object]
    registration: Count
    data: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class _FileContent:
    """The content of a checkpoint file."""

    version: Count
    step: Count
    state: dict[str, object]


_RECORD = TypeAdapter(_FileContent)
_ENVIRONMENT = TypeAdapter(_EnvironmentState)


def _accept(state: Mapping[str, object]) -> None:
    """Accept any saved state: the default for `check_state`."""


def read_checkpoint(path: Path, check_state: CheckState = _accept) -> Checkpoint:
    """Read a checkpoint and check its state with `check_state`.

    Raises:
        FileNotFoundError: The file does not exist.
        CheckpointError: The file is damaged, unreadable or of an unsupported version.
    """
    try:
        content = read_json(path)
        record = _RECORD.validate_python(content)
        if record.version != VERSION:
            raise ValueError(
                f"the checkpoint has version {record.version}, but this program reads only version {VERSION}"
            )
        _ENVIRONMENT.validate_python(record.state)
        check_state(record.state)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read ({describe(error)})") from error
    except ValueError as error:
        raise CheckpointError(f"{path} is not a valid checkpoint ({describe(error)})") from error
    return Checkpoint(path, record.step, record.state)


def write_checkpoint(path: Path, step: int, state: Mapping[str, object]) -> None:
    """Write a state. The file at `path` is replaced whole or not at all.

    Raises:
        OSError: The file cannot be written.
        TypeError, ValueError: JSON cannot represent the state.
    """
    record = {"version": VERSION, "step": step, "state": state}
    # Write small pieces, because encoding megabytes in one call would block all other threads.
    replace_file(path, (text.encode("ascii") for text in json.JSONEncoder().iterencode(record)))


def find_checkpoint(folder: Path, step: int, registration: int, check_state: CheckState = _accept) -> Checkpoint | None:
    """Return the checkpoint from which a run resumes at the trainer's `step`. Warn of each damaged file.

    `registration` is the number that the trainer gave this environment: 0 for the first one since the trainer's start.

    - If `registration` is above the number in `latest.json`, only the environment was restarted. Resume from this file.
    - Otherwise, the trainer was restarted too, and returned to this step. Resume from `step-{step}.json`.

    If the chosen file is missing, damaged or of a later step, return the newest other checkpoint not after `step`.
    Return None if there is no such checkpoint.
    """
    latest = _read_if_sound(folder / LATEST, check_state)
    if latest is not None and latest.step > step:
        latest = None
    restarted_alone = latest is not None and registration > latest.state["registration"]
    if not restarted_alone:
        checkpoint = _read_step(folder, step, check_state)
        if checkpoint is not None:
            return checkpoint
    if latest is not None:
        return latest
    names = (path.stem.removeprefix("step-") for path in folder.glob("step-*.json"))
    steps = [int(name) for name in names if name.isdecimal() and int(name) < step]
    for saved_step in sorted(steps, reverse=True):
        checkpoint = _read_step(folder, saved_step, check_state)
        if checkpoint is not None:
            return checkpoint
    return None


def _read_step(folder: Path, step: int, check_state: CheckState) -> Checkpoint | None:
    """Return the valid checkpoint that was saved at a step; None if there is no such checkpoint."""
    path = folder / f"step-{step}.json"
    checkpoint = _read_if_sound(path, check_state)
    if checkpoint is not None and checkpoint.step != step:
        logger.warning("%s is ignored, because it contains the checkpoint of another step, %d", path, checkpoint.step)
        return None
    return checkpoint


def _read_if_sound(path: Path, check_state: CheckState) -> Checkpoint | None:
    try:
        return read_checkpoint(path, check_state)
    except FileNotFoundError:
        return None
    except CheckpointError as error:
        logger.warning("%s; it is ignored", error)
        return None


class CheckpointStore:
    """Saves and loads the state of a run. From `open` to `close`, no other process can use the folder.

    `made_with` has the settings that decide which problems the run draws. Unless `accept_changes` is True, the
    checkpoint must have the same settings. `check_state` raises ValueError for a state that cannot be resumed. `open`
    and `close` wait for files, so call them in a thread.
    """

    def __init__(
        self, made_with: Mapping[str, object], *, accept_changes: bool, check_state: CheckState = _accept
    ) -> None:
        self.folder: Path | None = None
        """Folder of the checkpoints; None before `open`, after `close`, and if no state can be saved."""
        self._made_with = dict(made_with)
        self._accept_changes = accept_changes
        self._check_state = check_state
        self._opened = False
        self._resumed: Checkpoint | None = None
        self._saves: SimpleQueue[tuple[int, Mapping[str, object], bool] | None] = SimpleQueue()
        self._writer: threading.Thread | None = None
        self._requested = 0
        self._written = 0
        self._outage = OutageLog(logger)

    @property
    def busy(self) -> bool:
        """True while a state that was passed to `save` is not written yet."""
        return self._written < self._requested

    def open(self, checkpoint_dir: str, name: str, instance: int, *, step: int, registration: int) -> None:
        """Lock the folder of this `instance`. If `step` is above 0, read the checkpoint from which the run resumes.

        `name` is the environment's name. `registration` is the number that the trainer gave the environment. `step` is
        the trainer's step. If `checkpoint_dir` is empty or cannot be written to, no state is saved. Only the first call
        has an effect.

        Raises:
            ConfigError: another living process uses the folder, or the checkpoint was made with other settings.
        """
        if self._opened or not checkpoint_dir:
            return
        self._opened = True
        self._made_with["name"] = name
        folder = Path(checkpoint_dir, "env_checkpoints", str(instance))
        try:
            lock = _lock(folder)
        except OSError as error:
            logger.warning(
                "no checkpoints can be written to %s (%s), so this run cannot be resumed; make the folder writable, "
                "or set another checkpoint_dir",
                folder,
                error,
            )
            return
        try:
            self._resumed = self._find(folder, step, registration)
        except BaseException:
            os.close(lock)
            raise
        self.folder = folder
        logger.info("checkpoints are written to %s", folder)
        # Use a daemon thread, so that the process can end even if a write to the disk hangs.
        self._writer = threading.Thread(target=self._write, args=(folder, lock), daemon=True)
        self._writer.start()

    def load(self) -> Checkpoint | None:
        """Return the checkpoint that `open` read; None if there was none, and None from the second call on."""
        resumed, self._resumed = self._resumed, None
        return resumed

    def save(self, step: int, state: Mapping[str, object], *, latest: bool = False) -> None:
        """Save a state in a thread, as `step-{step}.json` and `latest.json`; with `latest=True`, only as `latest.json`.

        The caller must not change the state afterwards.
        """
        if self._writer is not None:
            self._requested += 1
            self._saves.put((step, {"made_with": self._made_with, **state}, latest))

    def close(self, timeout_s: float = 30.0) -> None:
        """Write the pending states, for at most `timeout_s` seconds, and unlock the folder. Safe to call twice.

        If writing takes longer, the folder is unlocked when the writing or the process ends.
        """
        if self._writer is None:
            return
        self._saves.put(None)
        self._writer.join(timeout_s)
        if self._writer.is_alive():
            logger.error(
                "the last state could not be written to %s within %.1f s; check the disk", self.folder, timeout_s
            )
        elif self._outage.duration_s:
            logger.error("the last state was not saved; the next run resumes from an earlier state in %s", self.folder)
        self.folder = None
        self._writer = None

    def _write(self, folder: Path, lock: int) -> None:
        while (save := self._saves.get()) is not None:
            step, state, only_latest = save
            try:
                write_checkpoint(folder / LATEST, step, state)
                if not only_latest:
                    write_checkpoint(folder / f"step-{step}.json", step, state)
                self._outage.over(f"saving the state to {folder} works again")
            except Exception as error:  # later saves are still tried
                self._outage.note(f"the state cannot be saved to {folder} ({error_text(error)})")
            self._written += 1
            del save, state  # otherwise, the state would stay in memory until the next save
        os.close(lock)

    def _find(self, folder: Path, step: int, registration: int) -> Checkpoint | None:
        """Return the checkpoint to resume from; None to start a new run. Raises ConfigError for changed settings."""
        if step == 0:
            if any(folder.glob("*.json")):
                logger.warning(
                    "the trainer is at step 0: this run starts from the beginning and overwrites the checkpoints in %s",
                    folder,
                )
            return None
        checkpoint = find_checkpoint(folder, step, registration, self._check_state)
        if checkpoint is None:
            logger.warning(
                "no checkpoint in %s fits step %d of the trainer, so the problem stream starts anew", folder, step
            )
            return None
        changed = changed_settings(checkpoint.state["made_with"], self._made_with)
        if changed and not self._accept_changes:
            raise ConfigError(
                f"the checkpoint {checkpoint.path} was made with different values of {' and '.join(changed)}",
                remedy="either resume with the same settings, set {env.resume_with_changes}, set another "
                "{env.instance}, or move the folder away",
            )
        logger.info("resuming from %s, which was saved at step %d", checkpoint.path, checkpoint.step)
        return _without_drawn(checkpoint, changed) if changed else checkpoint


def _without_drawn(checkpoint: Checkpoint, changed: list[str]) -> Checkpoint:
    """Return a copy of the checkpoint without its unfinished problems, which were drawn with other settings."""
    logger.warning(
        "%s was saved with different values of %s, so its unfinished problems are dropped",
        checkpoint.path,
        ", ".join(changed),
    )
    state = checkpoint.state
    return replace(checkpoint, state={**state, "stream": {**state.get("stream", {}), "positions": []}})


def _lock(folder: Path) -> int:
    """Make the folder if it is missing, and lock the folder. Closing the returned descriptor releases the lock.

    Raises:
        ConfigError: another living process has locked the folder.
        OSError: the folder cannot be made or locked.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with suppress(FileNotFoundError):
        require_regular(folder / LOCK)  # opening a FIFO would wait for a reader
    with (folder / LOCK).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(
                f"{folder} is used by another environment that is running",
                remedy="give each environment of a trainer its own {env.instance} (0, 1, 2, ...)",
            ) from None
        # Child processes do not inherit this duplicate, so a child that outlives this process does not keep the lock.
        return os.dup(file.fileno())
