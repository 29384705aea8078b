"""`.part` files: their names, their locks, and how a number is claimed.

A file of dumps is filled as `NAME.jsonl.part` and renamed to `NAME.jsonl` when it is finished. Whoever has the `.part`
open holds an exclusive flock on it, so that a free lock says that its writer is dead. Three rules let any number of
writers and recoverers, in any number of processes, work in one folder and neither lose nor double a line:

- A number belongs to whoever holds the lock of the file that lies at its `.part` path. A path can change hands between
  opening and locking, so after locking one looks whether the path still leads to the file that is locked, and leaves it
  alone if not.
- A `.part` is only ever created, never overwritten, and only its holder renames or deletes it, before the lock goes.
- Only the holder of a number's `.part` brings its final name into being, so one that looked for it may rename.

The system frees a lock when its process ends, however it ends. Python's descriptors are not passed on to programs that
the process starts; a process that forks and does not exec would keep the lock for as long as the child lives.

Where locks do not exist or do not work (no `fcntl` module, or a file system that refuses them) files are written all
the same, and recovery takes only those that have not changed for UNLOCKED_AGE_S. A network file system whose locks hold
on one machine only (NFS with `local_lock`, Lustre with `localflock`) cannot be told from one whose locks work: there,
machines should not share a folder.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from io import FileIO
from itertools import count
from pathlib import Path

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

PART_SUFFIX = ".part"
PASSED_PREFIX = "reasoning_gym_environment_rollouts"
FAILED_PREFIX = "reasoning_gym_environment_FAILED_rollouts"
UNLOCKED_AGE_S = 15 * 60.0
"""How long a `.part` must not have changed before it counts as left behind, where there are no locks to tell."""

_PART_NAME = re.compile(
    rf"((?:{PASSED_PREFIX}|{FAILED_PREFIX})_.+)_(\d{{4,}})\.jsonl{re.escape(PART_SUFFIX)}", re.DOTALL
)
_NOT_SUPPORTED = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL}


class Lock(Enum):
    """What came of an attempt to lock a file."""

    OURS = "ours"
    ANOTHERS = "another's"
    NOT_SUPPORTED = "not supported"


@dataclass(frozen=True)
class BatchName:
    """The paths of one file: number `batch` under `prefix`."""

    folder: Path
    prefix: str
    batch: int

    @property
    def target(self) -> Path:
        """The final path."""
        return self.folder / f"{self.prefix}_{self.batch:04d}.jsonl"

    @property
    def part(self) -> Path:
        """Where its lines lie until it is finished."""
        return self.target.with_name(self.target.name + PART_SUFFIX)


@dataclass(frozen=True)
class Claim:
    """A number that is ours, with its open `.part`; closing `file` gives up the lock."""

    name: BatchName
    file: FileIO
    locked: bool


def parse_part(path: Path) -> BatchName | None:
    """The name behind the path of a `.part` of this environment; None for any other file."""
    match = _PART_NAME.fullmatch(path.name)
    name = BatchName(path.parent, match[1], int(match[2])) if match else None
    return name if name and name.part == path else None


def claim(folder: Path, prefix: str, batch: int) -> Claim:
    """Create and lock the `.part` of the first free number from `batch` on, in a folder that is made when missing.

    Raises OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for number in count(batch):
        name = BatchName(folder, prefix, number)
        try:
            file = FileIO(name.part, "x+")
        except FileExistsError:
            continue
        try:
            lock = take_lock(file.fileno())
            # Not ours: before it was locked, a recoverer took it for one that was left behind, and deletes it.
            ours = lock is not Lock.ANOTHERS and lies_at(file.fileno(), name.part)
            # Looked up only now: while this `.part` is ours, nobody else can bring the target into being.
            if ours and not name.target.exists():
                sync_folder(folder)
                return Claim(name, file, locked=lock is Lock.OURS)
            if ours:
                name.part.unlink()
        except OSError:
            file.close()
            raise
        file.close()
    raise AssertionError("numbers do not end")


def take_lock(fd: int) -> Lock:
    """Lock an open file without waiting; held until the file is closed. Raises OSError for trouble with the disk."""
    if fcntl is None:
        return Lock.NOT_SUPPORTED
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return Lock.ANOTHERS
    except OSError as error:
        if error.errno in _NOT_SUPPORTED:
            return Lock.NOT_SUPPORTED
        raise
    return Lock.OURS


def lies_at(fd: int, path: Path) -> bool:
    """Whether the path leads to the open file, and not to nothing or to another one."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except (FileNotFoundError, NotADirectoryError):
        return False


def sync_data(fd: int) -> None:
    """Wait until what was written is on the disk, on file systems that can tell. Raises OSError when it cannot be."""
    try:
        if sys.platform == "darwin":
            os.fsync(fd)
        else:
            os.fdatasync(fd)
    except OSError as error:
        if error.errno not in _NOT_SUPPORTED:
            raise


def sync_folder(folder: Path) -> None:
    """Have the names in the folder outlast a power failure, where that can be done."""
    with suppress(OSError):  # a disk in trouble refuses the lines too, and what they raise is not passed over
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
