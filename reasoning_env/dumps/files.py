"""A run's files of one kind: when `append` returns, its lines are on the disk; if it raises, none is.

No locks are needed: a file is created with O_EXCL under a name that carries the run's uuid, and a number that is taken
is passed over, so each file has one writer and none is ever overwritten.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path

from ..files import LineFile, sync_folder
from .format import DumpKind

logger = logging.getLogger(__name__)


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
        self._file: LineFile | None = None
        self._lines = 0

    @property
    def room(self) -> int:
        """How many lines the next `append` may have."""
        return self._kind.groups_per_file - self._lines

    def append(self, lines: Sequence[bytes]) -> None:
        """Bring whole lines to the disk; after an OSError none of them counts, and the call may be repeated."""
        self._sound_file().append(b"".join(lines), sync=True)
        self._lines += len(lines)
        self.written += len(lines)
        if not self.room:
            self.close()

    def close(self) -> None:
        """Close the open file, if any; the next line begins a new one."""
        if self._file is not None:
            if self._lines:
                logger.info("%s is finished, with %d groups", self._file.path, self._lines)
            with suppress(OSError):  # everything in it was synced
                self._file.close()
        self._file = None
        self._lines = 0

    def _sound_file(self) -> LineFile:
        """Return the open file; a new one when none is open or ours is no longer there."""
        if self._file is not None:
            if self._file.in_place():
                return self._file
            logger.warning(
                "%s, with %d groups, was moved, removed or cut by another process; rollouts go on in a new file",
                *(self._file.path, self._lines),
            )
            self._lines = 0
            self.close()
        return self._new_file()

    def _new_file(self) -> LineFile:
        self._folder.mkdir(parents=True, exist_ok=True)
        for number in count(self._next_number):
            with suppress(FileExistsError):
                self._file = LineFile.create(self._kind.path(self._folder, self._run_uuid, number))
                break
        assert self._file is not None
        self._next_number = number + 1
        sync_folder(self._folder)
        logger.debug("rollouts go to %s", self._file.path)
        return self._file
