"""Completes the files that a killed writer left behind, without touching those of one that lives.

Safe to run at any time and in any number, beside each other and beside writers: see the rules in `parts`.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO

from .parts import UNLOCKED_AGE_S, BatchName, Lock, claim, lies_at, parse_part, sync_data, sync_folder, take_lock


class Outcome(StrEnum):
    """What became of a `.part`."""

    COMPLETED = "completed"
    DELETED = "deleted"
    """It held no whole line."""
    IN_USE = "in use"
    """A living writer has it, or another recovery; or there are no locks, and it is too young to be sure."""
    FAILED = "failed"


@dataclass(frozen=True)
class PartReport:
    """One `.part` after recovery: `target` is the finished file, `torn_bytes` was cut off its end."""

    part: Path
    outcome: Outcome
    target: Path | None = None
    groups: int = 0
    torn_bytes: int = 0
    problem: str | None = None


def recover_folder(folder: Path) -> list[PartReport]:
    """Complete every `.part` of this environment whose writer is dead, in the order of their names.

    What follows the last whole line is cut off; the file gets its final name, or the next free one where that is
    taken; one without a line is deleted. Raises OSError when the folder cannot be listed; trouble with one file is told
    in its report.
    """
    found = (parse_part(path) for path in sorted(folder.iterdir()))
    reports = (_recover(name) for name in found if name and name.part.is_file() and not name.part.is_symlink())
    return [report for report in reports if report is not None]


def _recover(name: BatchName) -> PartReport | None:
    """The report of one `.part`; None when whoever held it finished it first."""
    try:
        with name.part.open("rb+") as file:
            lock = take_lock(file.fileno())
            if not lies_at(file.fileno(), name.part):
                return None
            if lock is Lock.ANOTHERS or (lock is Lock.NOT_SUPPORTED and _age_s(file) < UNLOCKED_AGE_S):
                return PartReport(name.part, Outcome.IN_USE)
            return _complete(file, name)
    except FileNotFoundError:
        return None
    except OSError as error:
        return PartReport(name.part, Outcome.FAILED, problem=error.strerror or str(error))


def _age_s(file: BinaryIO) -> float:
    return time.time() - os.fstat(file.fileno()).st_mtime


def _complete(file: BinaryIO, name: BatchName) -> PartReport:
    groups, size_bytes = _whole_lines(file)
    torn_bytes = os.fstat(file.fileno()).st_size - size_bytes
    if torn_bytes:
        file.truncate(size_bytes)
    if not groups:
        name.part.unlink()
        return PartReport(name.part, Outcome.DELETED, torn_bytes=torn_bytes)
    sync_data(file.fileno())
    target = _give_final_name(name)
    return PartReport(name.part, Outcome.COMPLETED, target, groups, torn_bytes)


def _whole_lines(file: BinaryIO) -> tuple[int, int]:
    """How many lines of a file are whole, and the bytes that they take.

    A line is whole when it ends. At the end of the file it must also be JSON: a power failure can leave blocks of a
    file empty that had not been synced.
    """
    ends = [0]
    for line in file:
        if line.endswith(b"\n"):
            ends.append(ends[-1] + len(line))
    while len(ends) > 1:
        file.seek(ends[-2])
        if _is_json(file.read(ends[-1] - ends[-2])):
            break
        ends.pop()
    return len(ends) - 1, ends[-1]


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _give_final_name(name: BatchName) -> Path:
    """Rename a `.part` whose lock is ours; returns its new path."""
    if not name.target.exists():
        os.rename(name.part, name.target)
        sync_folder(name.folder)
        return name.target
    claimed = claim(name.folder, name.prefix, name.batch + 1)
    with claimed.file:
        # By way of the number's own `.part`, because only who has that may look for the target and then rename.
        os.rename(name.part, claimed.name.part)
        os.rename(claimed.name.part, claimed.name.target)
    sync_folder(name.folder)
    return claimed.name.target
