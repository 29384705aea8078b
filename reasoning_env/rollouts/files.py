"""One stream's files: lines go to a `.part` beside the target, which is renamed when it is full or the stream ends.

A line has been handed to the operating system when `append` returns, and is on the disk when the next `sync` does.
Several writers may share a folder, even under one prefix: `parts` says how. A number that is taken is passed over, so
no file is ever overwritten. One thread owns a `BatchFiles`; only `next_batch` and `finished` may be read by others.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from io import FileIO
from pathlib import Path

from .parts import BatchName, Claim, claim, lies_at, sync_data, sync_folder

logger = logging.getLogger(__name__)

PROGRESS_EVERY_GROUPS = 10
_COPY_BYTES = 1 << 20


class BatchFiles:
    """Appends lines to `{prefix}_{batch:04d}.jsonl` in `folder`, `capacity` lines a file, from number `first` on.

    Every method may raise OSError; the same call may then be made again, and no line is torn or doubled by it.
    `finished` counts the files that have their final name; `next_batch` is the number that the next file tries first.
    """

    def __init__(self, folder: Path, prefix: str, capacity: int, first: int = 0) -> None:
        self.finished = 0
        self.next_batch = first
        self._folder = folder
        self._prefix = prefix
        self._capacity = capacity
        self._claim: Claim | None = None
        self._unlocked_told = False
        self._groups = self._size_bytes = 0
        self._synced_groups = self._synced_bytes = 0

    @property
    def name(self) -> BatchName:
        """The paths of the file that is being filled, or of the next one when none is."""
        return self._claim.name if self._claim else BatchName(self._folder, self._prefix, self.next_batch)

    @property
    def full(self) -> bool:
        return self._groups >= self._capacity

    @property
    def room(self) -> int:
        """How many lines the next `append` may have."""
        return self._capacity if self.full else self._capacity - self._groups

    def append(self, *lines: bytes) -> None:
        """Write lines, each of which ends in a newline; a full file that could not be finished is finished first.

        All of them or none: what a failed call wrote is cut off by the next one.
        """
        if self.full:
            self.finish()
        file = self._sound_file()
        file.seek(self._size_bytes)
        data = b"".join(lines)
        _write_all(file, data)
        tens = self._groups // PROGRESS_EVERY_GROUPS
        self._size_bytes += len(data)
        self._groups += len(lines)
        if self._groups // PROGRESS_EVERY_GROUPS > tens:
            logger.info("%d of %d groups toward %s", self._groups, self._capacity, self.name.target)

    def sync(self) -> None:
        """Wait until the lines since the last `sync` are on the disk. When it raises they count as never appended."""
        if self._claim is None or self._size_bytes == self._synced_bytes:
            return
        try:
            sync_data(self._claim.file.fileno())
        except OSError:
            # The system may have dropped what it could not write, and would not tell a second time: the lines have to
            # be written again.
            self._groups, self._size_bytes = self._synced_groups, self._synced_bytes
            raise
        self._synced_groups, self._synced_bytes = self._groups, self._size_bytes

    def finish(self) -> None:
        """Give the open file its final name, however many lines it has; nothing to do when none is open."""
        if self._claim is None:
            return
        self.sync()
        file = self._sound_file()
        name = self.name
        if self._groups:
            os.rename(name.part, name.target)
            sync_folder(self._folder)
            logger.info("finished %s with %d groups", name.target, self._groups)
            self.finished += 1
        else:
            name.part.unlink()
        self._claim = None
        self._groups = self._size_bytes = self._synced_groups = self._synced_bytes = 0
        file.close()  # last, because the lock goes with it

    def release(self) -> int:
        """Close the open file, leaving the `.part` as it is; returns how many groups went with it: 0 when it is there.

        For the end of a stream whose last file cannot be finished, or is not to be.
        """
        if self._claim is None:
            return 0
        with self._claim.file as file:
            return 0 if lies_at(file.fileno(), self.name.part) else self._groups

    def _sound_file(self) -> FileIO:
        """The open file, at its path and without what a failed write left behind its last whole line."""
        if self._claim is None:
            self._claim = self._new_file(self.next_batch)
            return self._claim.file
        file = self._claim.file
        if os.fstat(file.fileno()).st_size > self._size_bytes:
            file.truncate(self._size_bytes)
        if not lies_at(file.fileno(), self.name.part):
            self._claim = self._restore(file)
        return self._claim.file

    def _new_file(self, batch: int) -> Claim:
        claimed = claim(self._folder, self._prefix, batch)
        self.next_batch = claimed.name.batch + 1
        if not claimed.locked and not self._unlocked_told:
            self._unlocked_told = True
            logger.warning("files cannot be locked in %s: a run that is killed is recovered late", self._folder)
        return claimed

    def _restore(self, gone: FileIO) -> Claim:
        """A new `.part` with the lines of one that was removed or moved, which its open descriptor still reads."""
        claimed = self._new_file(self.name.batch)
        try:
            gone.seek(0)
            while chunk := gone.read(_COPY_BYTES):
                _write_all(claimed.file, chunk)
            sync_data(claimed.file.fileno())
        except OSError:
            with claimed.file, suppress(OSError):
                claimed.name.part.unlink()
            raise
        # Emptied, because one that was only moved would hold every group a second time.
        with suppress(OSError):
            gone.truncate(0)
        gone.close()
        logger.warning(
            "the open file was gone: its %d groups were written again to %s", self._groups, claimed.name.part
        )
        return claimed


def _write_all(file: FileIO, data: bytes) -> None:
    """Write every byte: on a disk that fills up the system takes a part and refuses only the next call."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]
