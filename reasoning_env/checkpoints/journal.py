"""The journal of groups that wait for delivery, beside the checkpoints, which name them by their numbers.

Each group is one record: its number, the length of its body, a checksum, the body. A group is written once, however
many checkpoints are saved while it waits. A kill can leave one record cut off, of a group that no checkpoint names.
"""

from __future__ import annotations

import logging
import os
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

from .files import replace_file

logger = logging.getLogger(__name__)

JOURNAL = "undelivered.journal"
_HEADER = struct.Struct(">QQI")

Entry = tuple[int, bytes]
"""A group's number, and its body as it is to be delivered."""


class Journal:
    """Writes the journal of a folder. What an earlier process left in it goes with the first `update`."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / JOURNAL
        self._newest: int | None = None
        """The newest group in the file, 0 for none; None where the file must be written anew."""
        self._size = 0

    def update(self, waiting: Sequence[Entry]) -> None:
        """Make the journal hold all of `waiting`, whose numbers ascend from call to call. Raises OSError.

        New groups are appended. Where less than half of the file would still be of use, or the last call failed, it is
        written anew.
        """
        newest, self._newest = self._newest, None
        size = sum(_HEADER.size + len(body) for _, body in waiting)
        if newest is None or 2 * size < self._size:
            replace_file(self._path, (_record(*entry) for entry in waiting))
            self._size = size
        elif appended := [entry for entry in waiting if entry[0] > newest]:
            with self._path.open("r+b") as file:
                file.seek(self._size)
                file.writelines(_record(*entry) for entry in appended)
                file.flush()
                os.fsync(file.fileno())
                self._size = file.tell()
        self._newest = waiting[-1][0] if waiting else 0


def read_journal(folder: Path) -> dict[int, bytes]:
    """Read the groups of a folder's journal by their numbers; warns where it is damaged, and ends there."""
    path = folder / JOURNAL
    entries: dict[int, bytes] = {}
    try:
        content = path.read_bytes() if path.exists() else b""
        position = 0
        while position < len(content):
            number, length, _ = _HEADER.unpack_from(content, position)
            end = position + _HEADER.size + length
            body = content[position + _HEADER.size : end]
            if content[position:end] != _record(number, body):
                raise ValueError("a checksum does not fit")
            entries[number], position = body, end
    except (OSError, ValueError, struct.error) as error:
        logger.warning("%s cannot be read beyond its first %d groups (%s)", path, len(entries), error)
    return entries


def _record(number: int, body: bytes) -> bytes:
    return _HEADER.pack(number, len(body), zlib.crc32(body, zlib.crc32(number.to_bytes(8)))) + body
