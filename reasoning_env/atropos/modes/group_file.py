"""The file that `process` writes groups to: one line a group, in the order in which groups are scored.

A line holds Atropos' own fields and the fields of a dump line; its key is the position of the problem. The header, a
file beside, holds the settings that decide the content.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from ...data.tables import JSON_LINES, PARQUET, check_name
from ...dumps.format import encode_group, header_path
from ...errors import ConfigError, ReasoningEnvError
from ...records import Group
from ...storage.files import KeyedFile, replace_file
from ...storage.folders import check_writable
from ...storage.reading import read_json
from ..wire import encode_members

SETTING = "env.data_path_to_save_groups"

logger = logging.getLogger(__name__)


class OutputError(ReasoningEnvError):
    """The disk takes no more groups. Written groups stay, and the same command resumes later."""


def check_path(name: str | None) -> Path:
    """Return the path of the file; raises ConfigError if the file, or its folder, cannot be made."""
    if not name:
        raise ConfigError("must be the name of a file", setting=SETTING)
    path = Path(name)
    if path.is_dir():
        raise ConfigError(f"{path} is a folder", setting=SETTING, remedy="name a file in it")
    if path.suffix == PARQUET:
        check_name(path, SETTING)
        if path.exists() and not header_path(path.with_suffix(JSON_LINES)).exists():
            raise ConfigError(
                f"{path} exists, and `process` did not write it", setting=SETTING, remedy="name another file"
            )
    if not path.exists():
        check_writable(path.absolute().parent, SETTING)
    return path


def encode_line(fields: Mapping[str, Any], group: Group) -> list[bytes]:
    """Return the line of a group in pieces; `fields` are Atropos' own. Takes about 0.4 ms for 1000 tokens."""
    return [b"{", *encode_members(fields.items()), b",", encode_group(group)[1:]]


def count_lines(path: Path) -> int:
    """Return the number of lines of a file; 0 without a file that can be read."""
    with suppress(OSError), path.open("rb") as lines:
        return sum(1 for _ in lines)
    return 0


class GroupFile:
    """A file of groups made with the settings `made_with`; only this process writes to the file.

    If `path` holds groups of other settings, the name gets the first number without such groups. `open` makes the file.
    All methods block; any thread may call them.
    """

    def __init__(self, path: Path, made_with: Mapping[str, Any]) -> None:
        self.path = path
        self._made_with = json.loads(json.dumps(made_with))
        self._file: KeyedFile | None = None

    @property
    def lines(self) -> int:
        """Number of groups in the file."""
        return 0 if self._file is None else len(self._file.keys)

    @property
    def positions(self) -> frozenset[int]:
        """Positions of the problems with a group in the file."""
        return frozenset() if self._file is None else frozenset(map(int, self._file.keys))

    def open(self, on_line: Callable[[bytes], None] = lambda line: None) -> None:
        """Open or make the file; `on_line` is called with each line of the file, and may raise ValueError.

        Raises ConfigError if that fails, or if another process writes to the file.
        """
        configured = self.path
        try:
            configured.parent.mkdir(parents=True, exist_ok=True)
            self.path = next(path for path in numbered_paths(configured) if self._is_free(path))
            self._file = KeyedFile.take(self.path, partial(_use_line, on_line))
            if self._file is None:
                raise ConfigError(
                    f"another process writes to {self.path}", setting=SETTING, remedy="name another file, or wait"
                )
            if not self._file.keys:
                header = json.dumps({"made_with": self._made_with}).encode()
                replace_file(header_path(self.path), [header])
        except OSError as error:
            raise ConfigError(f"{self.path} cannot be made ({error.strerror})", setting=SETTING) from error
        if self.path != configured:
            others = _read_header(configured)
            names = sorted(self._made_with.keys() | others.keys())
            changed = ", ".join(name for name in names if self._made_with.get(name) != others.get(name))
            logger.warning("%s holds groups of other settings (%s); new ones go to %s", configured, changed, self.path)

    def is_of_these_settings(self) -> bool:
        """Tell whether `path` holds groups of these settings."""
        return bool(_read_header(self.path) == self._made_with)

    def append(self, position: int, *pieces: bytes) -> None:
        """Write the group of a problem, a line in pieces; raises OutputError, and then no part of the line is left."""
        assert self._file is not None, "call open() first"
        try:
            self._file.append(str(position), *pieces)
        except OSError as error:
            raise OutputError(
                f"{self.path} cannot be written ({error.strerror}); its {self.lines} groups are intact",
                remedy="free disk space, then run the same command again",
            ) from error

    def close(self) -> None:
        """Safe to call twice."""
        if self._file is not None:
            self._file.close()

    def _is_free(self, path: Path) -> bool:
        """Tell whether the file at the path is missing, empty or of these settings."""
        return not path.exists() or not path.stat().st_size or _read_header(path) == self._made_with


def _use_line(on_line: Callable[[bytes], None], key: str, line: bytes) -> None:
    """Call `on_line` for a line of a position; raises ValueError for another line."""
    int(key)
    on_line(line)


def _read_header(path: Path) -> dict[str, Any]:
    """Return the settings of a file from its header; empty without a header."""
    with suppress(OSError, ValueError):
        header = read_json(header_path(path))
        if isinstance(header, dict) and isinstance(header.get("made_with"), dict):
            return dict(header["made_with"])
    return {}


def numbered_paths(path: Path) -> Iterator[Path]:
    """Yield the path, then the path with 1, 2, 3 ... behind its name, as Atropos numbers files."""
    yield path
    yield from (path.with_stem(f"{path.stem}_{number}") for number in count(1))
