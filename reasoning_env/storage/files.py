"""Write files so that neither a kill nor a full disk leaves half a line before others, or half a file."""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from io import FileIO
from itertools import count
from pathlib import Path

from .reading import require_regular

logger = logging.getLogger(__name__)


class LineFile:
    """A file of lines that one process appends to; used by one thread at a time.

    `size_bytes` is the length of the whole lines. A torn line behind them is cut off before the next line is written.
    When `append` returns, the system has the line, so that the line outlasts a kill of this process. A power failure
    may cost lines that the system had not written to the disk.
    """

    def __init__(self, path: Path, file: FileIO) -> None:
        self.path = path
        self.size_bytes = 0
        self._file = file

    @classmethod
    def create(cls, path: Path) -> LineFile:
        """Make a file. Raises FileExistsError if the path exists, and OSError."""
        return cls(path, open(path, "ab", buffering=0, opener=_open_exclusively))

    @classmethod
    def take(cls, path: Path) -> LineFile | None:
        """Open or make a file and lock it; None if another process holds the lock. Raises OSError.

        The lock ends with the process. Call `read` before `append`: `read` finds the end of the whole lines.
        """
        with suppress(FileNotFoundError):
            require_regular(path)  # opening a FIFO would wait for a reader
        file = open(path, "ab", buffering=0)  # noqa: SIM115
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
        except OSError:  # a file system without locks
            pass
        return cls(path, file)

    def read(self) -> Iterator[bytes]:
        """Yield the whole lines from the beginning, up to the first torn line."""
        self.size_bytes = 0
        with open(self.path, "rb") as lines:
            for line in lines:
                if not line.endswith(b"\n") or b"\0" in line:  # a power failure leaves zero bytes, which JSON never has
                    return
                self.size_bytes += len(line)
                yield line

    def append(self, *pieces: bytes | memoryview) -> None:
        """Write whole lines, given in pieces, by one write. Raises OSError, and then leaves nothing of them.

        If a torn line cannot be cut off after a failure, the next call cuts it off first.
        """
        lines = b"".join(pieces)
        self.cut()
        try:
            write_all(self._file, lines)
        except OSError:
            with suppress(OSError):
                self.cut()
            raise
        self.size_bytes += len(lines)

    def cut(self) -> bool:
        """Cut off a torn line behind the whole lines; return whether there was one. Raises OSError."""
        torn = os.fstat(self._file.fileno()).st_size > self.size_bytes
        if torn:
            self._file.truncate(self.size_bytes)
        return torn

    def in_place(self) -> bool:
        """Tell whether the path still names this file, with all whole lines. Raises OSError."""
        with suppress(FileNotFoundError, NotADirectoryError):
            at_path = os.stat(self.path)
            return os.path.samestat(at_path, os.fstat(self._file.fileno())) and at_path.st_size >= self.size_bytes
        return False

    def close(self) -> None:
        """Close the file. Safe to call twice."""
        self._file.close()


class NumberedFiles:
    """New files of `lines_per_file` lines each; `path_of` returns the path of file 0, 1, 2, ...

    Numbers of existing files are passed over. `written` counts the lines. One thread owns the object; every thread may
    read `written`.
    """

    def __init__(self, path_of: Callable[[int], Path], lines_per_file: int) -> None:
        self.written = 0
        self._path_of = path_of
        self._lines_per_file = lines_per_file
        self._next_number = 0
        self._file: LineFile | None = None
        self._lines = 0

    def append(self, line: bytes) -> None:
        """Write a line. Raises OSError, and then leaves nothing of the line, so that the call may be repeated."""
        if self._file is not None and not self._file.in_place():
            logger.warning(
                "%s, with %d groups, was moved, removed or cut by another process; rollouts go on in a new file",
                self._file.path,
                self._lines,
            )
            self.close()
        if self._file is None:
            self._file = self._create()
        self._file.append(line)
        self._lines += 1
        self.written += 1
        if self._lines == self._lines_per_file:
            logger.debug("%s is finished, with %d groups", self._file.path, self._lines)
            self.close()

    def close(self) -> None:
        """Close the open file, if any; the next line begins a new file."""
        if self._file is not None:
            with suppress(OSError):  # the system has every line
                self._file.close()
        self._file = None
        self._lines = 0

    def _create(self) -> LineFile:
        for number in count(self._next_number):
            path = self._path_of(number)
            path.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                file = LineFile.create(path)
                self._next_number = number + 1
                return file
        raise AssertionError("numbers have no end")


def replace_file(path: Path, pieces: Iterable[bytes], *, mode: int = 0o600) -> None:
    """Write a file beside its path, sync and rename it; a failure leaves the old file.

    By default only the owner can read the file, because most of these files hold settings. Raises OSError, and any
    error of `pieces`.
    """
    part = path.with_name(f"{path.name}.part")
    part.unlink(missing_ok=True)  # a FIFO would never open, and a link would be followed
    try:
        with open(part, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())  # or a power failure may leave an empty file under the new name
        part.replace(path)
    except Exception:
        # On a full disk, its space is missing elsewhere.
        with suppress(OSError):
            part.unlink()
        raise


def write_all(file: FileIO, data: bytes) -> None:
    """Write every byte. On a disk that fills up, the system writes a part, and only the next call fails."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def _open_exclusively(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_EXCL, 0o666)
