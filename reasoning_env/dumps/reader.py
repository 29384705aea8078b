"""Read groups from files, one group at a time, so that memory does not grow with the files.

Three kinds of files contain groups: dumps, the file that `process` writes, and `samples.jsonl` of an evaluation.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from ..errors import ReasoningEnvError
from ..runtime.text import pluralize, printable
from ..storage.reading import Malformed, read_values, require_regular
from ..storage.values import describe
from .format import DumpedGroup, as_group, derived_files

logger = logging.getLogger(__name__)


class DumpFormatError(ReasoningEnvError):
    """A line is not a group, or a file cannot be read.

    The message names the file, the line (from 1) and the fault. `line` is None for a fault of the whole file.
    """

    def __init__(self, path: Path, line: int | None, problem: str, *, strict: bool = False) -> None:
        place = printable(str(path)) if line is None else f"{printable(str(path))}, line {line}"
        remedy = "repair the file, or read with strict=False to skip damaged lines" if strict else None
        super().__init__(problem, setting=place, remedy=remedy)
        self.path = path
        self.line = line


OnDamage = Callable[[DumpFormatError], None]


class SeenGroups:
    """Recognizes groups that were read before, so that copies count once.

    Groups with a `key` are compared within a file. Groups of dumps are compared across files, as dumps may be copied.
    """

    def __init__(self) -> None:
        self._identities: set[object] = set()

    def add(self, group: DumpedGroup, file: Path) -> bool:
        """Add a group; return False if it was added before. A group with neither `key` nor `time` counts as new."""
        identity = group.digest() if group.key is None else (str(file), group.key)
        if identity is None:
            return True
        number = len(self._identities)
        self._identities.add(identity)
        return len(self._identities) > number


def _warn(error: DumpFormatError) -> None:
    logger.warning("did not read all rollouts: %s", error)


def stream_groups(
    path: Path | str, *, strict: bool = True, on_damage: OnDamage = _warn, seen: SeenGroups | None = None
) -> Iterator[DumpedGroup]:
    """Return the groups of a file, or of a folder's `.jsonl` and `.jsonl.gz` files in name order.

    Empty lines, a torn last line, and groups already in `seen` are skipped. With `strict=False`, other malformed
    lines, unreadable files and the rest of a damaged `.gz` file are skipped too. After each file, `on_damage` is called
    with an error for damaged lines, and with another error for repeated groups.

    Raises:
        OSError: The path cannot be read, or is not a regular file.
        DumpFormatError: A line is malformed, a file cannot be read, or a `.gz` file is damaged (not with
            `strict=False`).
    """
    known = SeenGroups() if seen is None else seen
    return (
        group
        for file in list_files(Path(path))
        for _, group in read_lines(file, strict=strict, on_damage=on_damage, seen=known)
    )


LINES = (".jsonl", ".jsonl.gz")
"""Suffixes of files that contain groups."""


def list_files(path: Path, ends: tuple[str, ...] = LINES, *, besides: Path | None = None) -> list[Path]:
    """Return the files at a path: the path itself, or a folder's files (see `folders_of_files` and `files_in`).

    Raises OSError if the path cannot be read, or is neither a folder nor a regular file.
    """
    if path.is_dir():
        return [file for folder in folders_of_files(path, ends, besides=besides) for file in files_in(folder, ends)]
    require_regular(path)  # raise at the call instead of at the first group
    return [path]


def folders_of_files(path: Path, ends: tuple[str, ...] = LINES, *, besides: Path | None = None) -> list[Path]:
    """Return the folder `path`, or the folder's subfolders if no file in the folder has one of the suffixes `ends`.

    This ignores the file `besides`. Subfolders are sorted by name. Raises OSError if the folder cannot be read.
    """
    if any(besides is None or os.path.realpath(file) != os.path.realpath(besides) for file in files_in(path, ends)):
        return [path]
    return sorted(folder for folder in path.iterdir() if folder.is_dir())


def files_in(folder: Path, ends: tuple[str, ...] = LINES) -> list[Path]:
    """Return the files in a folder whose names end in one of `ends`, sorted by name.

    Files that `process` derived from another file are omitted, because both files have the same completions. Raises
    OSError if the folder cannot be read.
    """
    files = sorted(file for file in folder.iterdir() if file.name.endswith(ends) and not file.is_dir())
    beside = {path for file in files for path in derived_files(file)}
    return [file for file in files if file not in beside]


def read_lines(
    path: Path, *, strict: bool = True, on_damage: OnDamage = _warn, seen: SeenGroups | None = None
) -> Iterator[tuple[Mapping[str, object], DumpedGroup]]:
    """Yield each line of a file with its group; skip lines as `stream_groups` does. Raises DumpFormatError."""
    known = SeenGroups() if seen is None else seen
    read = repeated = left_out = 0
    first = ""
    try:
        for number, value in read_values(path):
            group = _as_group(value)
            if isinstance(group, Malformed):
                if strict and not group.torn:
                    raise DumpFormatError(path, number, group.problem, strict=True)
                left_out += 1
                first = first or f"line {number}: {group.problem}"
                continue
            read += 1
            if known.add(group, path):
                assert isinstance(value, dict), "internal error: a group is not a JSON object"
                yield value, group
            else:
                repeated += 1
    except OSError as error:
        damage = DumpFormatError(path, None, f"cannot be read ({describe(error)})", strict=strict)
        if strict:
            raise damage from error
        on_damage(damage)
    if left_out:
        unread = "contains no groups of rollouts that this version can read"
        what = f"skipped {pluralize(left_out, 'line')}" if read else unread
        on_damage(DumpFormatError(path, None, f"{what}; {first}"))
    if repeated:
        what = f"skipped {pluralize(repeated, 'group')} that an earlier line or file already has"
        on_damage(DumpFormatError(path, None, what))


def _as_group(value: object) -> DumpedGroup | Malformed:
    if isinstance(value, Malformed):
        return value
    try:
        return as_group(value)
    except ValueError as error:
        return Malformed(describe(error))
