"""The file that `process` writes: one line a group, in the order of the problems, and what a later run goes on from.

A line holds Atropos' own fields and the facts of a dump line. Beside the file lies a record of the settings that decide
its content, and of what the run has learnt. The file itself says how far the run has come: whatever ended it, the next
one cuts a torn last line off, and goes on behind the last whole one. Groups that were done before one in front of them
wait in a third file for their turn.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from io import FileIO
from itertools import count
from pathlib import Path
from typing import Any

from ..checkpoints.files import replace_file
from ..dumps.format import encode_group
from ..dumps.writer import FREEZE_TIMEOUT_S
from ..errors import ConfigError, ReasoningEnvError
from ..records import Group
from .group_json import encode_members

SETTING = "env.data_path_to_save_groups"

logger = logging.getLogger(__name__)


class OutputError(ReasoningEnvError):
    """The disk takes no more groups; what is written stays, and the same command goes on later."""


def check_place(path: str | None) -> Path:
    """Return the path of a file that can be made, with its folder; raises ConfigError for one that cannot."""
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
    """Return a group's line: `fields` are Atropos' own. Takes milliseconds, and is to be called in a thread."""
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
        """Lines of an earlier run that still wait for one before them, as `keep_ahead` was told."""
        self._made_with = json.loads(json.dumps(made_with))
        self._size_bytes = 0
        self._file: FileIO | None = None
        self._writing = threading.Lock()

    def open(self) -> None:
        """Find or make the file; raises ConfigError where another process writes to it, and OSError."""
        wanted = self.path
        wanted.parent.mkdir(parents=True, exist_ok=True)
        for self.path in numbered(wanted):
            known = self._known()
            if known is not None or not self.path.exists() or not self.path.stat().st_size:
                break
        if self.path != wanted:
            logger.warning("%s holds groups of other settings; these go to %s", wanted, self.path)
        self._file = open(self.path, "ab", buffering=0)  # noqa: SIM115
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            raise ConfigError(f"{SETTING}: another process writes to {self.path}") from error
        self._read(known or {})

    def append(self, lines: Sequence[tuple[int, bytes]]) -> None:
        """Write lines, each with the position of its problem.

        When it raises OutputError, the lines that are in the file are whole.
        """
        assert self._file is not None, "open() comes first"
        with self._writing:
            for index, line in lines:
                try:
                    write_all(self._file, line)
                except OSError as error:
                    with suppress(OSError):
                        self._file.truncate(self._size_bytes)
                    raise OutputError(
                        f"{self.path} cannot be written ({error.strerror}); the {self.lines} groups in it are whole, "
                        "and the same command goes on once there is room"
                    ) from error
                self._size_bytes += len(line)
                self.lines += 1
                self.last_index = index

    def save(self, source: Mapping[str, Any]) -> None:
        """Keep what a later run goes on from; the file is written again as a whole."""
        record = {
            "made_with": self._made_with,
            "file": {"lines": self.lines, "last_index": self.last_index, "size_bytes": self._size_bytes},
            "source": source,
        }
        replace_file(_beside(self.path, "state"), [json.dumps(record).encode()])

    def keep_ahead(self, lines: Mapping[int, bytes]) -> None:
        """Keep lines, by the positions of their problems, that cannot be appended yet; earlier ones are forgotten."""
        if lines:
            replace_file(_beside(self.path, "ahead"), lines.values())
        else:
            _beside(self.path, "ahead").unlink(missing_ok=True)

    def close(self) -> None:
        """Safe to call twice."""
        if self._file is not None:
            self._file.close()

    def freeze(self, timeout_s: float = FREEZE_TIMEOUT_S) -> None:
        """Let the lines under way become whole and no other begin: the process ends at once."""
        self._writing.acquire(timeout=timeout_s)

    def _known(self) -> dict[str, Any] | None:
        """Return the record of the file at `path`, or None where it is not of these settings."""
        with suppress(OSError, ValueError):
            record = json.loads(_beside(self.path, "state").read_bytes())
            if record["made_with"] == self._made_with:
                return dict(record)
        return None

    def _read(self, known: Mapping[str, Any]) -> None:
        """Find out how far the file goes, from where the record says on, and cut a torn line off."""
        assert self._file is not None
        end = os.fstat(self._file.fileno()).st_size
        counted = known.get("file", {})
        if counted and counted["size_bytes"] <= end:
            self.lines, self.last_index = counted["lines"], counted["last_index"]
            self._size_bytes = counted["size_bytes"]
        self.source = known.get("source", {})
        with open(self.path, "rb") as file:
            file.seek(self._size_bytes)
            for index, line in _whole_lines(file):
                self.lines, self.last_index = self.lines + 1, index
                self._size_bytes += len(line)
        if self._size_bytes < end:
            logger.warning("the torn last line of %s is cut off", self.path)
            self._file.truncate(self._size_bytes)
        with suppress(OSError), open(_beside(self.path, "ahead"), "rb") as file:
            self.ahead = {index: line for index, line in _whole_lines(file) if index > self.last_index}


def numbered(path: Path) -> Iterator[Path]:
    """Yield the path, then the path with each number behind its name, as Atropos numbers files."""
    yield path
    yield from (path.with_stem(f"{path.stem}_{number}") for number in count(1))


def _beside(path: Path, what: str) -> Path:
    return path.with_name(f"{path.name}.{what}")


def _whole_lines(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield each line with the position of its problem, up to the first that is not whole."""
    for line in lines:
        try:
            index = json.loads(line)["index"]
        except (ValueError, KeyError, TypeError):
            return
        if not line.endswith(b"\n"):
            return
        yield index, line


def write_all(file: FileIO, data: bytes) -> None:
    """Write every byte: a disk that fills up takes a part, and refuses only the next call."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]
