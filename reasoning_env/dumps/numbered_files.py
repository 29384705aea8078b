"""Append lines to new files with increasing numbers.

File names contain the run's uuid, and no number is used twice. So each file has one writer, no file is overwritten, no
line is appended after a torn line, and no locks are needed.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from itertools import count
from pathlib import Path

from ..storage.files import LineFile
from .format import DumpKind

logger = logging.getLogger(__name__)


class NumberedFiles:
    """Writes lines to new files of one kind of dump, with increasing numbers in the file names.

    `written` counts the lines of all files, and any thread may read this number. Call methods on one thread only.
    """

    def __init__(self, kind: DumpKind, folder: Path, run_uuid: str) -> None:
        self.written = 0
        self._kind = kind
        self._folder = folder
        self._run_uuid = run_uuid
        self._next_number = 0
        self._file: LineFile | None = None
        self._lines = 0

    def append(self, line: bytes) -> None:
        """Write a line. If this raises OSError, no part of the line was written, and the caller can try again."""
        if self._file is not None and not self._file.in_place():
            logger.warning(
                "another process moved, removed or truncated %s, which had %d groups; continuing in a new file",
                self._file.path,
                self._lines,
            )
            self.close()
        if self._file is None:
            self._file = self._create()
        self._file.append(line)
        self._lines += 1
        self.written += 1
        if self._lines == self._kind.groups_per_file:
            logger.debug("finished %s with %d groups", self._file.path, self._lines)
            self.close()

    def close(self) -> None:
        """Close the file that is open, if any. The next line starts a new file."""
        if self._file is not None:
            with suppress(OSError):  # an error loses no line: all were already handed to the operating system
                self._file.close()
        self._file = None
        self._lines = 0

    def _create(self) -> LineFile:
        for number in count(self._next_number):
            path = self._kind.path(self._folder, self._run_uuid, number)
            path.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                file = LineFile.create(path)
                self._next_number = number + 1
                return file
        raise AssertionError("internal error: the loop over file numbers ended")
