"""The files of one kind of a run: a commit of lines is on the disk when `append` returns, or none of it is.

No locks are needed: a file is created with O_EXCL under a name that carries the run's uuid, and a number that is taken
is passed over, so each file has one writer and none is ever overwritten.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from io import FileIO
from itertools import count
from pathlib import Path

from .format import DumpKind

logger = logging.getLogger(__name__)

_SYNC_NOT_SUPPORTED = {errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL}


class DumpFiles:
    """Appends lines to the files of one kind, `groups_per_file` to each.

    `written` counts the lines on the disk. One thread owns the object; `written` may be read by all.
    """

    def __init__(self, folder: Path, kind: DumpKind, run_uuid: str) -> None:
        self.written = 0
        self._next_number = 0
        self._folder = folder
        self._kind = kind
        self._run_uuid = run_uuid
        self._file: FileIO | None = None
        self._path = folder
        self._inode = 0
        self._lines = self._size_bytes = 0

    @property
    def room(self) -> int:
        """How many lines the next `append` may have."""
        return self._kind.groups_per_file - self._lines

    def append(self, lines: Sequence[bytes]) -> None:
        """Bring whole lines to the disk; when it raises OSError, none of them counts, and the call may be repeated."""
        file = self._sound_file()
        data = b"".join(lines)
        end = self._size_bytes + len(data)
        try:
            write_all(file, data)
            _sync(file.fileno())
        except OSError:
            # Readers must not find lines that will be written again. What cannot be cut off now, the next call cuts.
            with suppress(OSError):
                self._cut_back(file)
            raise
        self._size_bytes = end
        self._lines += len(lines)
        self.written += len(lines)
        if not self.room:
            self.close()

    def close(self) -> None:
        """Close the open file, if any; the next line begins a new one."""
        if self._lines:
            logger.info("%s is finished, with %d groups", self._path, self._lines)
        if self._file is not None:
            with suppress(OSError):  # everything in it was synced
                self._file.close()
        self._file = None
        self._lines = self._size_bytes = 0

    def _sound_file(self) -> FileIO:
        """The open file, cut back to its last commit; a new one when none is open or ours is no longer there."""
        if self._file is not None:
            if self._is_there():
                self._cut_back(self._file)
                return self._file
            logger.warning(
                "%s, with %d groups, was moved, removed or cut by another process; rollouts go on in a new file",
                *(self._path, self._lines),
            )
            self._lines = 0
            self.close()
        return self._new_file()

    def _cut_back(self, file: FileIO) -> None:
        if os.fstat(file.fileno()).st_size > self._size_bytes:
            file.truncate(self._size_bytes)

    def _is_there(self) -> bool:
        """Whether the path leads to the open file still, with all that was committed to it."""
        with suppress(FileNotFoundError, NotADirectoryError):
            found = os.stat(self._path)
            return found.st_ino == self._inode and found.st_size >= self._size_bytes
        return False

    def _new_file(self) -> FileIO:
        self._folder.mkdir(parents=True, exist_ok=True)
        for number in count(self._next_number):
            path = self._kind.path(self._folder, self._run_uuid, number)
            with suppress(FileExistsError):
                file = open(path, "ab", buffering=0, opener=_open_exclusively)  # noqa: SIM115
                break
        self._file, self._path, self._next_number = file, path, number + 1
        self._inode = os.fstat(file.fileno()).st_ino
        _sync_folder(self._folder)
        logger.debug("rollouts go to %s", path)
        return file


def _open_exclusively(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_EXCL, 0o666)


def write_all(file: FileIO, data: bytes) -> None:
    """Write every byte: on a disk that fills up the system takes a part and refuses only the next call."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def _sync(fd: int) -> None:
    """Wait until what was written is on the disk, on file systems that can tell."""
    try:
        getattr(os, "fdatasync", os.fsync)(fd)  # macOS has no fdatasync
    except OSError as error:
        if error.errno not in _SYNC_NOT_SUPPORTED:
            raise


def _sync_folder(folder: Path) -> None:
    """Let the names in the folder outlast a power failure, where that can be done."""
    with suppress(OSError):  # a disk in trouble refuses the lines too, and those errors are told
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
