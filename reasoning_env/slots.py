"""Slots: the folders in which environments of one name keep their checkpoints, each held by one living process.

The folder of number N under `{checkpoint_dir}/env_checkpoints` is `{name}_{N}`. Who holds it is decided by an exclusive
flock on its file `lock`, which the system releases when the process dies, however it dies. It works between machines
as far as their file system carries flock to the others (NFS does, Lustre where it is mounted with `flock`).
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import logging
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from .checkpoints import (
    LATEST,
    LoadedCheckpoint,
    encode_checkpoint,
    find_checkpoint,
    saved_steps,
    step_file,
    write_checkpoint,
)
from .outage_log import OutageLog

logger = logging.getLogger(__name__)

Rank = Callable[[Mapping[str, Any]], "int | None"]
"""How well a state suits this run, 0 best; None for one that it cannot go on from."""
LOCK = "lock"
DELIVERED = "delivered"
"""The file that holds the number of the newest group that run-api got."""
CLOSE_TIMEOUT_S = 30.0


class Saved(Enum):
    """What became of a save."""

    WRITTEN = "written"
    SKIPPED = "skipped"
    """A newer one was waiting already, and took its place."""
    FAILED = "failed"
    """The log says why."""


@dataclass(frozen=True)
class _Save:
    number: int
    step: int
    state: Callable[[], Mapping[str, Any]] = field(repr=False)
    latest: bool
    result: Future[Saved]


class Slot:
    """A folder that this process holds until `close`, or until its end. Made by `open_slot`.

    `number` is the folder's, which is another than the environment's when the folder was adopted.
    """

    def __init__(self, folder: Path, number: int, lock: int) -> None:
        self.folder = folder
        self.number = number
        self._lock = lock
        self._saves: SimpleQueue[_Save | int | None] = SimpleQueue()
        self._newest = 0
        self._closed = False
        self._trouble = OutageLog(logger)
        # A daemon, so that a disk that hangs cannot keep the process from ending.
        self._thread = threading.Thread(target=self._work, name="checkpoint-writer", daemon=True)
        self._thread.start()

    def save(self, state: Callable[[], Mapping[str, Any]], step: int, *, latest: bool = False) -> Future[Saved]:
        """Save a state under its step, and as the latest; or only as the latest, to be replaced by the next save.

        A thread calls `state`, makes text of what it gives and writes it, in order; nobody may change that meanwhile.
        The future does not raise: trouble is logged, and over when a later save is written. Raises RuntimeError after
        `close`.
        """
        if self._closed:
            raise RuntimeError(f"{self.folder} is closed")
        save = _Save(self._newest + 1, step, state, latest, Future())
        self._newest = save.number
        self._saves.put(save)
        return save.result

    def note_delivered(self, number: int) -> None:
        """Keep the number of the newest group that was delivered, for `delivered` of a later process.

        A thread writes it, after what was to be saved before; nothing is synced, as it is to outlast the process only.
        """
        if not self._closed:
            self._saves.put(number)

    def delivered(self) -> int:
        """The number that was kept last, in this process or an earlier one; 0 when there is none."""
        try:
            return int((self.folder / DELIVERED).read_bytes())
        except (OSError, ValueError):
            return 0

    def load(self, step: int, *, prefer_latest: bool = False) -> LoadedCheckpoint | None:
        """What to go on from at `step`: the newest sound checkpoint that is not after it, or None.

        Where both the step's own file and the latest state are of that step, the latter with `prefer_latest`.

        Says in the log which damaged files were passed over and what is used in their place, and when it is of an
        older step.
        """
        search = find_checkpoint(self.folder, step, prefer_latest=prefer_latest)
        found = search.checkpoint
        for error in search.damaged:
            logger.warning("%s; %s", error, f"{found.path} is used in its place" if found else "it is passed over")
        if found is None:
            logger.warning("%s holds no usable checkpoint of step %d or of one before it", self.folder, step)
        elif found.step < step:
            logger.info("%s holds no checkpoint of step %d; that of step %d is used", self.folder, step, found.step)
        return found

    def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Write what is left, waiting for it at most `timeout_s`, and release the folder; safe to call twice.

        A folder that is still being written to after that time is not released before the end of the process.
        """
        if not self._closed:
            self._closed = True
            self._saves.put(None)
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            logger.error("%s was not written within %.1f s; is the disk hanging?", self.folder, timeout_s)

    def _work(self) -> None:
        while (save := self._saves.get()) is not None:
            if isinstance(save, int):
                self._write_delivered(save)
            elif save.latest and save.number < self._newest:
                save.result.set_result(Saved.SKIPPED)
            else:
                save.result.set_result(self._write(save))
        os.close(self._lock)

    def _write(self, save: _Save) -> Saved:
        try:
            state = save.state()
            self._keep()
            write_checkpoint(self.folder, LATEST, encode_checkpoint(save.step, state))
            if not save.latest:
                write_checkpoint(self.folder, step_file(save.step), encode_checkpoint(save.step, state))
        except Exception as error:  # what cannot be saved now must not keep later saves from being tried
            self._trouble.note(
                f"the environment's state cannot be saved to {self.folder} ({type(error).__name__}: {error})"
            )
            return Saved.FAILED
        self._trouble.over(f"the environment's state is saved to {self.folder} again")
        return Saved.WRITTEN

    def _write_delivered(self, number: int) -> None:
        # In place, so that a kill leaves the old number or the new one; what troubles the folder is told by saves.
        with contextlib.suppress(OSError):
            file = os.open(self.folder / DELIVERED, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                os.pwrite(file, b"%020d" % number, 0)
            finally:
                os.close(file)

    def _keep(self) -> None:
        """Make the folder and its lock again when they were removed. Raises OSError."""
        if _in_place(self._lock, self.folder):
            return
        lock = _lock(self.folder)
        if lock is None:
            raise OSError("it was removed, and another process has made it again")
        os.close(self._lock)
        self._lock = lock


def open_slot(root: Path, base: str, number: int, *, step: int, rank: Rank, adopt: bool) -> Slot | None:
    """The folder in `root` that the environment `{base}_{number}` holds from now on.

    Its own, `{root}/{base}_{number}`, comes first. With `adopt`, for a run that is past its first step, it comes first
    only when it holds checkpoints up to `step`, be they damaged; then comes a folder `{base}_{other}` of a process that
    is gone, the one that `rank` puts lowest and, of equals, with the newest checkpoint up to `step`: an environment
    that was restarted alone got a new number, and goes on in its predecessor's place. When others hold all of these,
    the next higher number that is free is taken; with `adopt`, one without checkpoints. Without `adopt` a new run
    begins, and what an earlier one left in the folder is put aside.

    Reads and locks files, so it belongs in a thread. None, with a warning, where that is not possible at all: the
    environment then runs without checkpoints.
    """
    path = root / base
    try:
        for candidate in _candidates(path, number, step, rank if adopt else None):
            folder = _folder(path, candidate.number)
            lock = _lock(folder)
            if lock is not None:
                if candidate.number != number:
                    logger.info("checkpoints are kept in %s: %s", folder, candidate.reason)
                if not adopt:
                    _put_aside(folder)
                return Slot(folder, candidate.number, lock)
    except OSError as error:
        logger.warning("no checkpoints can be kept in %s (%s); the environment runs without them", root, error)
    return None


def claim_number(folder: Path, wanted: int) -> tuple[int, int]:
    """The first number from `wanted` on that no living process has claimed, and the descriptor that holds the claim.

    Raises OSError where that cannot be told.
    """
    for number in itertools.count(wanted):
        lock = _lock(folder / str(number))
        if lock is not None:
            return number, lock
    raise AssertionError("numbers have no end")


@dataclass(frozen=True)
class _Candidate:
    number: int
    reason: str


def _candidates(base: Path, number: int, step: int, rank: Rank | None) -> Iterator[_Candidate]:
    """What to try, in this order and without end; without `rank`, nobody's state is gone on with.

    Nothing is locked to look at it: whoever came by meanwhile would take its process for a living one.
    """
    own = _Candidate(number, "its own")
    if rank is None:
        yield own
    else:
        search = find_checkpoint(_folder(base, number), step, prefer_latest=True)
        if search.checkpoint is not None or search.damaged:
            yield own
        for predecessor in _predecessors(base, step, rank):
            yield _Candidate(predecessor, "this environment takes the place of one whose process is gone")
        yield own
    for higher in itertools.count(number + 1):
        if rank is None or not _has_checkpoints(_folder(base, higher)):
            yield _Candidate(higher, "another process holds the folder of this environment's number")


def _predecessors(base: Path, step: int, rank: Rank) -> list[int]:
    """The numbers of folders whose newest checkpoint up to `step` can be gone on from, the best first."""
    order: dict[int, tuple[int, int, int]] = {}
    for folder in base.parent.iterdir() if base.parent.is_dir() else ():
        name = re.fullmatch(re.escape(base.name) + "_(0|[1-9][0-9]*)", folder.name)
        # One of another user cannot be taken over.
        if name is not None and os.access(folder, os.W_OK):
            found = find_checkpoint(folder, step, prefer_latest=True).checkpoint
            ranked = None if found is None else rank(found.state)
            if found is not None and ranked is not None:
                order[int(name[1])] = (ranked, -found.step, int(name[1]))
    return sorted(order, key=lambda number: order[number])


def _put_aside(folder: Path) -> None:
    """Move an earlier run's checkpoints out of the way of the new run's, into a folder of their own."""
    earlier = [file for file in folder.iterdir() if file.suffix == ".json"]
    if earlier:
        aside = next(path for path in (folder / f"earlier-{n}" for n in itertools.count(1)) if not path.exists())
        aside.mkdir()
        for file in earlier:
            file.replace(aside / file.name)
        logger.info("checkpoints of an earlier run are put aside in %s", aside)


def _has_checkpoints(folder: Path) -> bool:
    return (folder / LATEST).exists() or bool(saved_steps(folder))


def _folder(base: Path, number: int) -> Path:
    return base.with_name(f"{base.name}_{number}")


def _lock(folder: Path) -> int | None:
    """The descriptor of the folder's lock, taken; None when another process holds it. Raises OSError."""
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        # Children do not inherit it: one that outlived this process would go on to hold the lock.
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        held = False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held = _in_place(lock, folder)
        except BlockingIOError:
            return None
        finally:
            if not held:
                os.close(lock)
        if held:
            return lock


def _in_place(lock: int, folder: Path) -> bool:
    """Whether the folder's lock is the one that was taken, and not one that was made after that was removed."""
    try:
        return os.path.samestat(os.fstat(lock), os.stat(folder / LOCK))
    except (FileNotFoundError, NotADirectoryError):
        return False
