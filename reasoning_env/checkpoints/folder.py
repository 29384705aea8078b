"""A folder of checkpoints and the journal beside them, held by one living process at a time.

An exclusive flock on the file `lock` decides who holds it. The system releases it when the process dies, however it
dies. It works between machines as far as their file system carries flock to the others.
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

from ..outage_log import OutageLog
from .files import LATEST, step_file, write_checkpoint
from .journal import Journal

logger = logging.getLogger(__name__)

LOCK = "lock"
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
        self._journal = Journal(path)
        self._saves: SimpleQueue[_Save | None] = SimpleQueue()
        self._newest: Future[bool] | None = None
        self._outage = OutageLog(logger)
        # A daemon, so that a disk that hangs cannot keep the process from ending.
        self._thread = threading.Thread(target=self._work, name="checkpoint-writer", daemon=True)
        self._thread.start()

    def save(self, step: int, state: Mapping[str, Any], waiting: Waiting = (), *, latest: bool = False) -> Future[bool]:
        """Save a state under its step and as the latest, or only as the latest; returns at once.

        A thread writes, in order; nobody may change the state meanwhile. The future tells whether it was written, and
        does not raise: failures are logged. A save of only the latest is skipped when a newer save waits already.
        """
        save = _Save(step, state, waiting, latest)
        self._newest = save.written
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
        """Move an earlier run's files into a folder of their own, `earlier-1` or the next number. Raises OSError."""
        files = [path for path in self.path.iterdir() if path.is_file() and path.name != LOCK]
        if files:
            aside = next(path for path in (self.path / f"earlier-{n}" for n in itertools.count(1)) if not path.exists())
            aside.mkdir()
            for file in files:
                file.replace(aside / file.name)

    def _work(self) -> None:
        while (save := self._saves.get()) is not None:
            overtaken = save.latest and save.written is not self._newest
            save.written.set_result(not overtaken and self._write(save))
            del save  # what it holds is not kept in memory until the next one
        os.close(self._lock)

    def _write(self, save: _Save) -> bool:
        try:
            self._hold_again()
            # The journal first: what a checkpoint names must be in there.
            self._journal.update([(number, body.result()) for number, body in save.waiting if _is_encoded(body)])
            for name in [LATEST] if save.latest else [LATEST, step_file(save.step)]:
                write_checkpoint(self.path / name, save.step, save.state)
        except Exception as error:  # what cannot be saved now must not keep later saves from being tried
            self._outage.note(f"the state cannot be saved to {self.path} ({type(error).__name__}: {error})")
            return False
        self._outage.over(f"the state is saved to {self.path} again")
        return True

    def _hold_again(self) -> None:
        """Make the folder and its lock again when they were removed. Raises OSError when another process has."""
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(self._lock), os.stat(self.path / LOCK)):
                return
        lock = _lock(self.path)
        if lock is None:
            raise OSError("it was removed, and another process has made it again")
        os.close(self._lock)
        self._lock, self._journal = lock, Journal(self.path)


def take_folder(path: Path) -> CheckpointFolder | None:
    """Take a folder, which is made where there is none; None when another process or user holds it. Raises OSError."""
    lock = _lock(path)
    return None if lock is None else CheckpointFolder(path, lock)


@contextmanager
def choosing(root: Path) -> Iterator[None]:
    """Let one process at a time choose a folder in `root`, for it holds those that it looks at. Raises OSError."""
    root.mkdir(parents=True, exist_ok=True)
    with (root / LOCK).open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _lock(folder: Path) -> int | None:
    """Take the folder's lock; None when another process or user holds it. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    with suppress(BlockingIOError, PermissionError), (folder / LOCK).open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Children do not inherit it: one that outlived this process would go on to hold the lock.
        return os.dup(file.fileno())
    return None


def _is_encoded(body: Future[bytes]) -> bool:
    """Wait for a group's body; a group without one cannot be delivered either, which the queue says."""
    return not body.cancelled() and body.exception() is None
