"""One stream's files: lines go to a `.part` beside the target, which is renamed when it is full or the stream ends.

Each line is handed to the operating system before `append` returns, so the end of the process loses nothing; `fsync`
comes once a file, when it is finished. Several writers may share a folder, even under one prefix: a number belongs to
whoever created its `.part`, and a number that is taken is passed over, so no file is ever overwritten. One thread owns
a `BatchFiles`; it is not thread-safe.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from io import FileIO
from pathlib import Path

logger = logging.getLogger(__name__)

PART_SUFFIX = ".part"
PROGRESS_EVERY_GROUPS = 10
_COPY_BYTES = 1 << 20


class BatchFiles:
    """Appends lines to `{prefix}_{batch:04d}.jsonl` in `folder`, `capacity` lines a file.

    Every method may raise OSError; the same call may then be made again, and no line is torn or doubled by it.
    `finished` counts the files that have their final name.
    """

    def __init__(self, folder: Path, prefix: str, capacity: int) -> None:
        self.finished = 0
        self._folder = folder
        self._prefix = prefix
        self._capacity = capacity
        self._batch = 0
        self._file: FileIO | None = None
        self._groups = 0
        self._size_bytes = 0

    @property
    def target(self) -> Path:
        """The final path of the file that is being filled."""
        return self._folder / f"{self._prefix}_{self._batch:04d}.jsonl"

    @property
    def part(self) -> Path:
        """Where the lines of `target` lie until it is finished."""
        return self.target.with_name(self.target.name + PART_SUFFIX)

    @property
    def full(self) -> bool:
        return self._groups >= self._capacity

    def append(self, line: bytes) -> None:
        """Write one line, which ends in a newline; a full file that could not be finished before is finished first."""
        if self.full:
            self.finish()
        file = self._sound_file()
        file.seek(self._size_bytes)
        _write_all(file, line)
        self._size_bytes += len(line)
        self._groups += 1
        if self._groups % PROGRESS_EVERY_GROUPS == 0:
            logger.info("%d of %d groups toward %s", self._groups, self._capacity, self.target)

    def finish(self) -> None:
        """Give the open file its final name, however many lines it has; nothing to do when none is open."""
        if self._file is None:
            return
        file = self._sound_file()
        if self._groups:
            os.fsync(file.fileno())
            os.rename(self.part, self.target)
            logger.info("finished %s with %d groups", self.target, self._groups)
            self.finished += 1
        else:
            self.part.unlink()
        self._file, self._groups, self._size_bytes = None, 0, 0
        self._batch += 1
        file.close()

    def release(self) -> int:
        """Close the open file, leaving the `.part` as it is; returns how many groups went with it: 0 when it is there.

        For the end of a stream whose last file cannot be finished.
        """
        if self._file is None:
            return 0
        with self._file as file:
            return 0 if self._in_place(file) else self._groups

    def _sound_file(self) -> FileIO:
        """The open file, at its path and without what a failed write left behind its last whole line."""
        if self._file is None:
            self._file = self._create()
            return self._file
        if os.fstat(self._file.fileno()).st_size > self._size_bytes:
            self._file.truncate(self._size_bytes)
        if not self._in_place(self._file):
            self._file = self._restore(self._file)
        return self._file

    def _in_place(self, file: FileIO) -> bool:
        try:
            return os.path.samestat(os.fstat(file.fileno()), os.stat(self.part))
        except (FileNotFoundError, NotADirectoryError):
            return False

    def _create(self) -> FileIO:
        """A new `.part` under the first free number, in a folder that is made when it is missing."""
        self._folder.mkdir(parents=True, exist_ok=True)
        while True:
            try:
                file = FileIO(self.part, "x+")
            except FileExistsError:
                self._batch += 1
                continue
            # Looked up only now: while this `.part` is ours, nobody else can bring the target into being.
            if not self.target.exists():
                return file
            file.close()
            self.part.unlink()
            self._batch += 1

    def _restore(self, gone: FileIO) -> FileIO:
        """A new `.part` with the lines of one that was removed or moved, which its open descriptor still reads."""
        file = self._create()
        try:
            gone.seek(0)
            while chunk := gone.read(_COPY_BYTES):
                _write_all(file, chunk)
        except OSError:
            file.close()
            self.part.unlink(missing_ok=True)
            raise
        # Emptied, because one that was only moved would hold every group a second time.
        with suppress(OSError):
            gone.truncate(0)
        gone.close()
        logger.warning("the open file was gone: its %d groups were written again to %s", self._groups, self.part)
        return file


def _write_all(file: FileIO, data: bytes) -> None:
    """Write every byte: on a disk that fills up the system takes a part and refuses only the next call."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]
