"""Rows that a later call with the same settings goes on with: the one store of everything that resumes.

A file has a JSON line for each row. A line begins with the row's `key`, which is unique in the file, and lines come in
any order. Beside the file, `{name}.header` holds the settings that made the rows, as `made_with`.

The file itself tells what is done, however the earlier call ended. A line is written whole by one write, so that a kill
leaves whole lines, and at most one torn line behind them, which the next call cuts off and tells. A power failure may
cost the lines that the system had not written to the disk. On a full disk nothing is left of a line.
"""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator, KeysView, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..errors import ConfigError, ReasoningEnvError
from ..runtime.text import visible
from .files import LineFile, replace_file
from .reading import describe, read_json

logger = logging.getLogger(__name__)

_KEY = re.compile(rb'\{"key": ("(?:[^"\\]|\\.)*"), ')


class InUseError(ConfigError):
    """Another process writes to the file."""


class OtherSettingsError(ConfigError):
    """The file holds rows of other settings."""


class OutputError(ReasoningEnvError):
    """The disk takes no more rows. Written rows stay, and the same command goes on later."""


class KeyedFile:
    """A file of rows that only this process appends to, until it is closed or the process ends.

    All methods block; any thread may call them.

    Args:
        path: The file, which is made if it is missing; its folder exists.
        made_with: The settings that decide the rows. None where the caller keeps them.
        setting: Names the file in errors.
        on_line: Called with the key and the bytes of each existing line; raises ValueError for a line that is no row.
            Such a line stays in the file and does not count.

    Raises InUseError, OtherSettingsError, or ConfigError if the file cannot be opened.
    """

    def __init__(
        self,
        path: Path,
        made_with: Mapping[str, object] | None,
        *,
        setting: str,
        on_line: Callable[[str, bytes], object] = lambda key, line: None,
    ) -> None:
        self.path = path
        self.unusable_lines = 0
        """How many existing lines are no rows."""
        self._places: dict[str, int] = {}  # where the line of a key begins
        self._lock = threading.Lock()
        try:
            self._file = _take(path, made_with, setting)
            try:
                self._read(on_line)
                if made_with is not None and not self._places:
                    replace_file(header_path(path), [json.dumps({"made_with": made_with}).encode()])
            except BaseException:
                self._file.close()
                raise
        except OSError as error:
            raise ConfigError(f"{visible(str(path))} cannot be used ({describe(error)})", setting=setting) from error

    @property
    def keys(self) -> KeysView[str]:
        """The keys of all rows, those of earlier calls included."""
        return self._places.keys()

    def append(self, key: str, *pieces: bytes) -> None:
        """Write a row, a line of JSON without its key, given in pieces. A row with an existing key is not written.

        Raises OutputError, and then nothing of the row is left.
        """
        with self._lock:
            if key in self._places:
                return
            place = self._file.size_bytes
            try:
                self._file.append(f'{{"key": {json.dumps(key)}, '.encode(), memoryview(pieces[0])[1:], *pieces[1:])
            except OSError as error:
                raise OutputError(
                    f"{visible(str(self.path))} cannot be written ({error.strerror}); its {len(self._places)} lines "
                    "are intact",
                    remedy="make room on the disk, then give the same command again",
                ) from error
            self._places[key] = place

    def append_row(self, key: str, row: Mapping[str, object]) -> None:
        """Write a row of JSON values that has a column at least. Raises OutputError."""
        self.append(key, json.dumps(row).encode("ascii") + b"\n")

    def rows(self, keys: Iterable[str]) -> Iterator[dict[str, Any]]:
        """Yield the rows of keys, in the order of the keys."""
        with open(self.path, "rb") as lines:
            for key in keys:
                lines.seek(self._places[key])
                yield json.loads(lines.readline())

    def close(self) -> None:
        """Close the file. Safe to call twice."""
        with self._lock:
            self._file.close()

    def remove(self) -> None:
        """Close and remove the file: its rows are written elsewhere."""
        self.close()
        remove_rows(self.path)

    def _read(self, on_line: Callable[[str, bytes], object]) -> None:
        place = 0
        for line in self._file.read():
            try:
                key = _key_of(line)
                if key not in self._places:
                    on_line(key, line)
                    self._places[key] = place
            except ValueError:
                self.unusable_lines += 1
            place += len(line)
        if self.unusable_lines:
            logger.warning("%s: %d unreadable lines are ignored, and stay in the file", self.path, self.unusable_lines)
        if self._file.cut():
            logger.warning("the torn last line of %s is cut off", self.path)


def header_path(rows: Path) -> Path:
    """Return the path of the settings that made a file of rows."""
    return rows.with_name(f"{rows.name}.header")


def read_made_with(rows: Path) -> dict[str, Any]:
    """Return the settings that made a file of rows; empty without a header."""
    with suppress(OSError, ValueError):
        header = read_json(header_path(rows))
        if isinstance(header, dict) and isinstance(header.get("made_with"), dict):
            return dict(header["made_with"])
    return {}


def changed_settings(before: Mapping[str, object], now: Mapping[str, object]) -> list[str]:
    """Return the names of the settings that were others, or not there, when something was made.

    A setting of before that is no setting now decides nothing. Values are compared as JSON reads them back.
    """
    as_read: dict[str, object] = json.loads(json.dumps(now))
    return [name for name, value in as_read.items() if name not in before or before[name] != value]


def remove_rows(path: Path) -> None:
    """Remove a file of rows and its header, if they are there."""
    path.unlink(missing_ok=True)
    header_path(path).unlink(missing_ok=True)


def _take(path: Path, made_with: Mapping[str, object] | None, setting: str) -> LineFile:
    """Open and lock a file that is missing, empty or of these settings. Raises OtherSettingsError and InUseError."""
    if made_with is not None and path.exists() and path.stat().st_size:
        changed = changed_settings(read_made_with(path), made_with)
        if changed:
            raise other_settings(path, changed, setting)
    file = LineFile.take(path)
    if file is None:
        raise InUseError(
            f"another process writes to {visible(str(path))}",
            setting=setting,
            remedy="wait for it, or name another file",
        )
    return file


def other_settings(path: Path, changed: Iterable[str], setting: str) -> OtherSettingsError:
    """Return the error of a file that was made with other settings, with the names of these settings."""
    return OtherSettingsError(
        f"{visible(str(path))} was made with other settings ({visible(', '.join(sorted(changed)))})",
        setting=setting,
        remedy="name another file, or remove this one",
    )


def _key_of(line: bytes) -> str:
    """Return the key that a line begins with; raises ValueError for a line without a key."""
    # Reading only the key saves decoding megabytes of tokens.
    beginning = _KEY.match(line)
    if beginning is None:
        raise ValueError("the line has no key")
    return str(json.loads(beginning[1]))
