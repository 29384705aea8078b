"""Checkpoints: the state of a run on disk, in a folder that one living process holds.

The folder is `{checkpoint_dir}/env_checkpoints/{number}`; the number is also that of the run's stream of problems, so
no two runs share a stream. It holds `step-{step}.json` for each step at which the trainer saved, and `latest.json`, the
newest state. Each file is one JSON object, written beside its final name, synced and renamed.

An exclusive flock on the file `lock` says who holds the folder. The system releases it when the process dies, however
it dies. It works between machines as far as their file system carries flock to the others.

Which folder a run takes:

- At the trainer's first step: the first free folder from its own number on. Files in it are moved into `earlier-1`.
- Past the first step: the first free folder with a checkpoint that fits, its own number first, then the others in
  order. A checkpoint fits when it is not after the trainer's step, and an environment of the same name made it with the
  same problems. Where none fits, the run begins anew in the first free folder without checkpoints.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import logging
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from ..errors import ConfigError, ReasoningEnvError
from ..runtime.outage_log import OutageLog
from .files import replace_file

logger = logging.getLogger(__name__)

VERSION = 5
LATEST = "latest.json"
LOCK = "lock"


class CheckpointError(ReasoningEnvError):
    """A file that is no checkpoint of this version: names the file and says what is wrong with it."""


@dataclass(frozen=True)
class Checkpoint:
    """A sound checkpoint; `state` is what was saved at `step`, as JSON gives it back."""

    path: Path
    step: int
    state: Mapping[str, Any] = field(repr=False)


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint.

    Raises FileNotFoundError when there is none, and CheckpointError for one that is damaged, of another version or
    cannot be read.
    """
    try:
        record = json.loads(path.read_bytes())
        version = record["version"]
    except FileNotFoundError:
        raise
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read ({error.strerror})") from error
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise CheckpointError(f"{path} is damaged: it is no JSON object that names a version") from error
    if version != VERSION:
        raise CheckpointError(f"{path} is of version {version}, and only version {VERSION} can be read here")
    return Checkpoint(path, record["step"], record["state"])


def write_checkpoint(path: Path, step: int, state: Mapping[str, Any]) -> None:
    """Write a state whole or not at all.

    Raises OSError, and TypeError or ValueError for a state that JSON cannot hold.
    """
    record = {"version": VERSION, "step": step, "state": state}
    # In small pieces: megabytes encoded in one call would stop every other thread meanwhile.
    replace_file(path, (text.encode("ascii") for text in json.JSONEncoder().iterencode(record)))


def find_checkpoint(folder: Path, step: int, *, prefer_latest: bool) -> Checkpoint | None:
    """Find the newest sound checkpoint that is not after `step`; warns of each damaged file.

    Of two with the same step, `latest.json` was saved later and comes first. Without `prefer_latest`,
    `step-{step}.json` comes before it: the trainer itself went back to what it saved at that step.
    """
    names = (path.stem.removeprefix("step-") for path in folder.glob("step-*.json"))
    steps = sorted((int(name) for name in names if name.isdecimal() and int(name) <= step), reverse=True)
    latest = _read_if_sound(folder / LATEST)
    if latest is not None and latest.step > step:
        latest = None
    for saved_step in steps:
        if latest is not None and latest.step >= saved_step and (prefer_latest or saved_step < step):
            return latest
        checkpoint = _read_if_sound(folder / f"step-{saved_step}.json")
        if checkpoint is not None:
            return checkpoint
    return latest


def _read_if_sound(path: Path) -> Checkpoint | None:
    try:
        return read_checkpoint(path)
    except FileNotFoundError:
        return None
    except CheckpointError as error:
        logger.warning("%s; it is passed over", error)
        return None


@dataclass(frozen=True)
class _HeldFolder:
    """A folder that this process has locked; `lock` is the descriptor that holds the lock until it is closed."""

    path: Path
    lock: int


class StateKeeper:
    """Saves and loads the state of a run, in a folder that is this process' own from `open` to `close`.

    `made_with` holds what decides which problems the run draws; it may only differ from a checkpoint's with
    `accept_changes`. `open` and `close` wait for files, and belong in a thread.
    """

    def __init__(self, made_with: Mapping[str, Any], *, accept_changes: bool) -> None:
        self.folder: Path | None = None
        """Where the state is kept; None where it is not."""
        self._made_with = dict(made_with)
        self._accept_changes = accept_changes
        self._opened = False
        self._resumed: Checkpoint | None = None
        self._saves: SimpleQueue[tuple[int, Mapping[str, Any], bool] | None] = SimpleQueue()
        self._writer: threading.Thread | None = None
        self._asked = self._done = 0
        self._outage = OutageLog(logger)

    @property
    def number(self) -> int | None:
        """The number of the folder, and of the stream of problems; None where no state is kept."""
        return None if self.folder is None else int(self.folder.name)

    @property
    def busy(self) -> bool:
        """Whether something is still being written."""
        return self._done < self._asked

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
        root = Path(checkpoint_dir, "env_checkpoints")
        try:
            with _choosing(root):
                held = self._go_on(root, number, step) if step > 0 else None
                held = held or _begin(root, number, step)
        except OSError as error:
            logger.warning("no checkpoints can be kept in %s (%s); the environment runs without them", root, error)
            return
        self.folder = held.path
        logger.info("the state is kept in %s", self.folder)
        # A daemon, so that a disk that hangs cannot keep the process from ending.
        self._writer = threading.Thread(target=self._write, args=(held,), daemon=True)
        self._writer.start()

    def load(self) -> Checkpoint | None:
        """Return the checkpoint that `open` read, the first time; None afterwards, and where there was none."""
        resumed, self._resumed = self._resumed, None
        return resumed

    def save(self, step: int, state: Mapping[str, Any], *, latest: bool = False) -> None:
        """Have a thread save a state, which must not change meanwhile, under its step or only as the latest."""
        if self._writer is not None:
            self._asked += 1
            self._saves.put((step, {"made_with": self._made_with, **state}, latest))

    def close(self, timeout_s: float = 30.0) -> None:
        """Write what is left, waiting for it at most `timeout_s`, and let go of the folder; safe to call twice.

        A folder that is still being written to after that time is released when that ends, or with the process.
        """
        if self._writer is None:
            return
        self._saves.put(None)
        self._writer.join(timeout_s)
        if self._writer.is_alive():
            logger.error("%s was not written within %.1f s; is the disk hanging?", self.folder, timeout_s)
        self.folder = self._writer = None

    def _write(self, held: _HeldFolder) -> None:
        folder = held.path
        while (save := self._saves.get()) is not None:
            step, state, only_latest = save
            try:
                write_checkpoint(folder / LATEST, step, state)
                if not only_latest:
                    write_checkpoint(folder / f"step-{step}.json", step, state)
                self._outage.over(f"the state is saved to {folder} again")
            except Exception as error:  # what cannot be saved now must not keep later saves from being tried
                self._outage.note(f"the state cannot be saved to {folder} ({type(error).__name__}: {error})")
            self._done += 1
            del save, state  # they are not kept in memory until the next one
        os.close(held.lock)

    def _go_on(self, root: Path, number: int, step: int) -> _HeldFolder | None:
        """Take the first folder that fits and read its checkpoint. Raises OSError, and ConfigError as `open`."""
        refusal = None
        numbers = [int(path.name) for path in root.iterdir() if path.name.isdecimal()]
        for candidate in sorted(numbers, key=lambda other: (other != number, other)):
            held = _hold(root / str(candidate))
            if held is None:
                continue
            # An environment that restarts alone has a new number, and goes on from the newest state. If the trainer
            # restarts too, numbers begin anew, and the environment goes on from the state of the trainer's step.
            checkpoint = find_checkpoint(held.path, step, prefer_latest=candidate != number)
            if checkpoint is not None and checkpoint.state["made_with"]["name"] == self._made_with["name"]:
                made_with = checkpoint.state["made_with"]
                changed = [name for name, value in self._made_with.items() if made_with.get(name) != value]
                if not changed or self._accept_changes:
                    self._resumed = _without_drawn(checkpoint, changed) if changed else checkpoint
                    logger.info("going on from %s, which was saved at step %d", checkpoint.path, checkpoint.step)
                    return held
                if candidate == number:
                    refusal = f"the checkpoint {checkpoint.path} was made with other {' and '.join(changed)}"
            os.close(held.lock)
        if refusal is not None:
            raise ConfigError(f"{refusal}; resume with the same, set env.resume_with_changes, or move it away")
        logger.warning("no checkpoint in %s fits step %d; the problem stream starts from its beginning", root, step)
        return None


def _without_drawn(checkpoint: Checkpoint, changed: list[str]) -> Checkpoint:
    """Leave out the problems that were drawn with other settings; position and estimates stay."""
    logger.warning("%s was made with other %s", checkpoint.path, ", ".join(changed))
    state = checkpoint.state
    return replace(checkpoint, state={**state, "stream": {**state["stream"], "positions": []}})


def _begin(root: Path, number: int, step: int) -> _HeldFolder:
    """Take the first free folder from `number` on, after step 0 the first without checkpoints. Raises OSError."""
    for candidate in itertools.count(number):
        held = _hold(root / str(candidate))
        if held is None:
            continue
        if step == 0 or not any(held.path.glob("*.json")):
            _move_aside(held.path)
            return held
        os.close(held.lock)
    raise AssertionError("numbers have no end")


def _move_aside(folder: Path) -> None:
    """Move an earlier run's files into a new folder, `earlier-1` or the next number. Raises OSError."""
    files = [path for path in folder.iterdir() if path.is_file() and path.name != LOCK]
    if files:
        names = (folder / f"earlier-{number}" for number in itertools.count(1))
        aside = next(path for path in names if not path.exists())
        aside.mkdir()
        for file in files:
            file.replace(aside / file.name)


def _hold(folder: Path) -> _HeldFolder | None:
    """Lock a folder, made if missing; None when another process or user holds it. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    with suppress(BlockingIOError, PermissionError), (folder / LOCK).open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Child processes do not inherit a duplicate: a child that outlives this process must not keep the lock.
        return _HeldFolder(folder, os.dup(file.fileno()))
    return None


@contextmanager
def _choosing(root: Path) -> Iterator[None]:
    """Let one process at a time choose a folder in `root`: each locks a folder to read it. Raises OSError."""
    root.mkdir(parents=True, exist_ok=True)
    with (root / LOCK).open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
