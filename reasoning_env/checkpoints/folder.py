"""A folder of checkpoints and of groups that wait for delivery, held by one living process at a time.

An exclusive flock on the file `lock` decides who holds it. The system releases it when the process dies, however it
dies. It works between machines as far as their file system carries flock to the others.

Each group that waits is a file of its own, written once however many checkpoints are saved while it waits, and removed
when the newest of them does not name it any more.
"""

from __future__ import annotations

import fcntl
import itertools
import logging
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from ..files import replace_file
from ..outage_log import OutageLog
from .files import LATEST, step_file, write_checkpoint

logger = logging.getLogger(__name__)

LOCK = "lock"
GROUP_FILES = "undelivered-*.gz"
CLOSE_TIMEOUT_S = 30.0

Waiting = Sequence[tuple[int, Future[bytes]]]
"""Groups that wait for delivery: their numbers, which ascend, and their bodies, which may still be encoded."""


@dataclass(frozen=True)
class _Save:
    step: int
    state: Mapping[str, Any] = field(repr=False)
    waiting: Waiting = field(repr=False)
    latest: bool
    written: Future[bool] = field(default_factory=Future)


class CheckpointFolder:
    """A folder that this process holds until `close`, or until its end. Made by `take_folder`."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock
        self._kept: set[Path] = set()
        """The files of groups that this process has written; what an earlier one left is of no use to it."""
        self._saves: SimpleQueue[_Save | None] = SimpleQueue()
        self._outage = OutageLog(logger)
        # A daemon, so that a disk that hangs cannot keep the process from ending.
        self._thread = threading.Thread(target=self._work, name="checkpoint-writer", daemon=True)
        self._thread.start()

    def save(self, step: int, state: Mapping[str, Any], waiting: Waiting = (), *, latest: bool = False) -> Future[bool]:
        """Save a state under its step and as the latest, or only as the latest; returns at once.

        A thread writes, in order; nobody may change the state meanwhile. The future tells whether it was written, and
        does not raise: failures are logged.
        """
        save = _Save(step, state, waiting, latest)
        self._saves.put(save)
        return save.written

    def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Write what is left, waiting for it at most `timeout_s`, and release the folder; safe to call twice.

        A folder that is still being written to after that time is released when that ends, or with the process.
        """
        self._saves.put(None)
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            logger.error("%s was not written within %.1f s; is the disk hanging?", self.path, timeout_s)

    def put_aside(self) -> None:
        """Move an earlier run's files into a new folder, `earlier-1` or the next number. Raises OSError."""
        files = [path for path in self.path.iterdir() if path.is_file() and path.name != LOCK]
        if files:
            aside = next(path for path in (self.path / f"earlier-{n}" for n in itertools.count(1)) if not path.exists())
            aside.mkdir()
            for file in files:
                file.replace(aside / file.name)

    def _work(self) -> None:
        while (save := self._saves.get()) is not None:
            save.written.set_result(self._write(save))
            del save  # what it holds is not kept in memory until the next one
        os.close(self._lock)

    def _write(self, save: _Save) -> bool:
        try:
            # A group that could not be encoded cannot be delivered either, which the queue says.
            encoded = [(number, body) for number, body in save.waiting if not body.cancelled() and not body.exception()]
            groups = {group_file(self.path, number): body for number, body in encoded}
            # The groups first: what a checkpoint names must be there.
            for path, body in groups.items():
                if path not in self._kept:
                    replace_file(path, [body.result()])
                    self._kept.add(path)
            for name in [LATEST] if save.latest else [LATEST, step_file(save.step)]:
                write_checkpoint(self.path / name, save.step, save.state)
            for path in set(self.path.glob(GROUP_FILES)) - groups.keys():
                path.unlink()
                self._kept.discard(path)
        except Exception as error:  # what cannot be saved now must not keep later saves from being tried
            self._outage.note(f"the state cannot be saved to {self.path} ({type(error).__name__}: {error})")
            return False
        self._outage.over(f"the state is saved to {self.path} again")
        return True


def group_file(folder: Path, number: int) -> Path:
    """Return where a group that waits for delivery is kept."""
    return folder / GROUP_FILES.replace("*", str(number))


def take_folder(path: Path) -> CheckpointFolder | None:
    """Take a folder, made if missing; None when another process or user holds it. Raises OSError."""
    path.mkdir(parents=True, exist_ok=True)
    with suppress(BlockingIOError, PermissionError), (path / LOCK).open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Children do not inherit it: one that outlived this process would go on to hold the lock.
        return CheckpointFolder(path, os.dup(file.fileno()))
    return None


@contextmanager
def choosing(root: Path) -> Iterator[None]:
    """Let one process at a time choose a folder in `root`, since looking at one takes it. Raises OSError."""
    root.mkdir(parents=True, exist_ok=True)
    with (root / LOCK).open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
