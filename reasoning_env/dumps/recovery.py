"""Cut torn last lines off files of dumps, which a killed process or a power failure leaves behind.

Needs no locks beside writers that are alive. A line is torn for the moment of its writing only, so a torn file that has
not changed for a minute has no living writer.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from .format import is_dump, is_torn

MIN_AGE_S = 60.0
"""How long a file must not have changed before its writer counts as gone."""


@dataclass(frozen=True)
class TornFile:
    """A file with a torn end of `torn_bytes`, and whether it was cut off.

    It is left alone while a writer may be at work on it, and when the system refuses: `problem` says why. A file that
    cannot be read counts as torn by 0 bytes.
    """

    path: Path
    torn_bytes: int
    cut: bool
    problem: str | None = None


def recover_folder(folder: Path) -> list[TornFile]:
    """Cut torn last lines off a folder's dumps; returns the torn files in name order.

    Files that changed within MIN_AGE_S are left alone. Raises OSError when the folder cannot be listed.
    """
    paths = sorted(path for path in folder.iterdir() if is_dump(path) and path.is_file())
    return [torn for path in paths if (torn := recover_file(path, min_age_s=MIN_AGE_S))]


def recover_file(path: Path, *, min_age_s: float | None = None) -> TornFile | None:
    """Cut the torn end off a file that has no writer; returns None when nothing is torn."""
    try:
        read_bytes = whole_bytes = 0
        with path.open("rb") as lines:
            for line in lines:
                read_bytes += len(line)
                if not is_torn(line):
                    whole_bytes = read_bytes
            found = os.fstat(lines.fileno())
    except OSError as error:
        return TornFile(path, 0, cut=False, problem=error.strerror)
    torn_bytes = read_bytes - whole_bytes
    if not torn_bytes:
        return None
    young = min_age_s is not None and time.time() - found.st_mtime < min_age_s
    if young or found.st_size != read_bytes:
        return TornFile(path, torn_bytes, cut=False)
    try:
        os.truncate(path, whole_bytes)
    except OSError as error:
        return TornFile(path, torn_bytes, cut=False, problem=error.strerror)
    return TornFile(path, torn_bytes, cut=True)
