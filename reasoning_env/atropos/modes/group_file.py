"""The files that `process` and `serve` write groups to: one line a group.

A line of `process` holds Atropos' own fields and the facts of a dump line, and lines are in the order of the problems.
Beside the file lies a record of the settings that decide its content, and of what the run has learnt. The file itself
says how far the run has come: whatever ended it, the next one cuts a torn last line off, and goes on behind the last
whole one. Groups that were done before one in front of them wait in a third file for their turn. `serve` writes
Atropos' own fields alone, of the groups that it sends, to a new file each time.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from ...dumps.format import encode_group, record_path
from ...errors import ConfigError, ReasoningEnvError
from ...files import LineFile, replace_file
from ...records import Group
from ..packing import encode_members

SETTING = "env.data_path_to_save_groups"

logger = logging.getLogger(__name__)


class OutputError(ReasoningEnvError):
    """The disk takes no more groups; what is written stays, and the same command goes on later."""


def check_place(path: str | None) -> Path:
    """Return the path if the file and its folder can be made; raises ConfigError otherwise."""
    if not path:
        raise ConfigError(f"{SETTING}: this needs the name of a file")
    place = Path(path)
    if place.is_dir():
        raise ConfigError(f"{SETTING}: {path} is a folder; name a file in it")
    parent = next(folder for folder in place.absolute().parents if folder.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise ConfigError(f"{SETTING}: {path} cannot be made, because {parent} is no folder that can be written to")
    return place


def encode_line(fields: Mapping[str, Any], group: Group) -> bytes:
    """Return a group's line: `fields` are Atropos' own. Takes some 0.4 ms per 1000 tokens."""
    return b"{" + encode_members(fields) + b"," + encode_group(group)[1:]


class GroupFile:
    """The file of one set of settings, `made_with`, which this process alone writes to.

    Where `path` holds groups of other settings, the file is `path` with the first number that does not. Nothing is made
    before `open`. All methods may block, and are to be called by one thread at a time.
    """

    def __init__(self, path: Path, made_with: Mapping[str, Any]) -> None:
        self.path = path
        self.lines = 0
        self.last_index = -1
        self.source: dict[str, Any] = {}
        """What the source of problems had learnt, as `save` was told."""
        self.ahead: dict[int, bytes] = {}
        """Lines that still wait for one before them, as `keep_ahead` was told, by an earlier run or by this one."""
        self._made_with = json.loads(json.dumps(made_with))
        self._file: LineFile | None = None

    def open(self) -> None:
        """Find or make the file; raises ConfigError where that fails, and where another process writes to it."""
        wanted = self.path
        try:
            wanted.parent.mkdir(parents=True, exist_ok=True)
            for self.path in numbered(wanted):
                known = self._known()
                if known is not None or not self.path.exists() or not self.path.stat().st_size:
                    break
            self._file = LineFile.take(self.path)
        except OSError as error:
            raise ConfigError(f"{SETTING}: {self.path} cannot be made ({error.strerror})") from error
        if self.path != wanted:
            others = self._record_of(wanted).get("made_with", {})
            names = sorted(self._made_with.keys() | others.keys())
            changed = [name for name in names if self._made_with.get(name) != others.get(name)]
            logger.warning(
                "%s holds groups of other settings (%s); these go to %s", wanted, ", ".join(changed), self.path
            )
        if self._file is None:
            raise ConfigError(f"{SETTING}: another process writes to {self.path}")
        self.source = (known or {}).get("source", {})
        self._read(self._file)

    def append(self, lines: Sequence[tuple[int, bytes]]) -> None:
        """Write lines, each with the position of its problem.

        When it raises OutputError, the lines that are in the file are whole.
        """
        assert self._file is not None, "open() comes first"
        for index, line in lines:
            try:
                self._file.append(line)
            except OSError as error:
                raise self._no_room(error) from error
            self.lines += 1
            self.last_index = index

    def save(self, source: Mapping[str, Any]) -> None:
        """Keep what a later run goes on from, in a file that is written again as a whole; raises OutputError."""
        record = {"made_with": self._made_with, "source": source}
        try:
            replace_file(record_path(self.path), [json.dumps(record).encode()])
        except OSError as error:
            raise self._no_room(error) from error

    def keep_ahead(self, lines: Mapping[int, bytes]) -> None:
        """Keep lines that cannot be appended yet, by problem position, in place of those before; raises OutputError."""
        try:
            if lines:
                replace_file(_beside(self.path, "ahead"), lines.values())
            else:
                _beside(self.path, "ahead").unlink(missing_ok=True)
        except OSError as error:
            raise self._no_room(error) from error
        self.ahead = dict(lines)

    def close(self) -> None:
        """Safe to call twice."""
        if self._file is not None:
            self._file.close()

    def _no_room(self, error: OSError) -> OutputError:
        return OutputError(
            f"{self.path} cannot be written ({error.strerror}); the {self.lines} groups in it are whole, and the same "
            "command goes on once there is room"
        )

    def _known(self) -> dict[str, Any] | None:
        """Return the record of the file at `path`, or None where it is not of these settings."""
        record = self._record_of(self.path)
        return record if record.get("made_with") == self._made_with else None

    @staticmethod
    def _record_of(path: Path) -> dict[str, Any]:
        with suppress(OSError, ValueError):
            record = json.loads(record_path(path).read_bytes())
            return record if isinstance(record, dict) else {}
        return {}

    def _read(self, file: LineFile) -> None:
        """Find out how far the file goes, and cut a torn line off."""
        last = b""
        for line in file.read():
            self.lines, last = self.lines + 1, line
        if file.cut():
            logger.warning("the torn last line of %s is cut off", self.path)
        self.last_index = json.loads(last)["index"] if last else -1
        with suppress(OSError), open(_beside(self.path, "ahead"), "rb") as ahead:
            self.ahead = {index: line for line in ahead if (index := json.loads(line)["index"]) > self.last_index}


def numbered(path: Path) -> Iterator[Path]:
    """Yield the path, then the path with each number behind its name, as Atropos numbers files."""
    yield path
    yield from (path.with_stem(f"{path.stem}_{number}") for number in count(1))


def _beside(path: Path, what: str) -> Path:
    return path.with_name(f"{path.name}.{what}")


class BackgroundWriter:
    """Has one thread write each group as a line, in order, to a file that the first of them makes.

    Where there is such a file already, the name gets a number, as with Atropos. Raises ConfigError for a place where no
    file can be made.
    """

    def __init__(self, path: str) -> None:
        self._path = check_place(path)
        self._file: LineFile | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="group-writer")

    def write(self, obj: Mapping[str, Any]) -> None:
        # A copy, because the caller goes on to add keys to its own.
        self._thread.submit(self._write, dict(obj)).add_done_callback(_log_error)

    def close(self) -> None:
        """Write what is left and close; safe to call twice."""
        self._thread.shutdown(wait=True)
        if self._file is not None:
            self._file.close()

    def _write(self, obj: Mapping[str, Any]) -> None:
        line = b"{" + encode_members(obj) + b"}\n"
        self._file = self._file or _make(self._path)
        self._file.append(line)


def _make(path: Path) -> LineFile:
    path.parent.mkdir(parents=True, exist_ok=True)
    for candidate in numbered(path):
        with suppress(FileExistsError):
            file = LineFile.create(candidate)
            break
    logger.info("groups that are sent go to %s", candidate)
    return file


def _log_error(written: Future[Any]) -> None:
    error = written.exception()
    if error is not None:
        logger.error("a group could not be written and is dropped: %s: %s", type(error).__name__, error)
