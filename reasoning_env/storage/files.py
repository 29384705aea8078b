"""Write files so that neither a kill nor a full disk leaves half a line before others, or half a file.

`KeyedFile` is the one store of everything that resumes: rows that a later call with the same settings goes on with. It
has a JSON line for each row. A line begins with the row's `key`, which is unique in the file, and lines come in any
order. Beside the file, `{name}.header` holds the settings that made the rows, as `made_with`. The file itself tells
what is done, however the earlier call ended: a kill leaves whole lines, and at most one torn line behind them, which
the next call cuts off and tells. A power failure may cost the lines that the system had not written to the disk.
"""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, KeysView, Mapping
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import BinaryIO

from ..errors import ConfigError, ReasoningEnvError
from ..runtime.text import visible
from ..settings import changed_settings
from .reading import read_json, require_regular
from .values import describe

logger = logging.getLogger(__name__)


class LineFile:
    """A file of lines that one process appends to; used by one thread at a time.

    `size_bytes` is the length of the whole lines. A torn line behind them is cut off before the next line is written.
    When `append` returns, the system has the line, so that the line outlasts a kill of this process. A power failure
    may cost lines that the system had not written to the disk.
    """

    def __init__(self, path: Path, file: FileIO) -> None:
        self.path = path
        self.size_bytes = 0
        self._file = file

    @classmethod
    def create(cls, path: Path) -> LineFile:
        """Make a file. Raises FileExistsError if the path exists, and OSError."""
        return cls(path, open(path, "ab", buffering=0, opener=_open_exclusively))

    @classmethod
    def take(cls, path: Path) -> LineFile | None:
        """Open or make a file and lock it; None if another process holds the lock. Raises OSError.

        The lock ends with the process. Call `read` before `append`: `read` finds the end of the whole lines.
        """
        with suppress(FileNotFoundError):
            require_regular(path)  # opening a FIFO would wait for a reader
        file = open(path, "ab", buffering=0)  # noqa: SIM115
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
        except OSError:  # a file system without locks
            pass
        return cls(path, file)

    def read(self) -> Iterator[bytes]:
        """Yield the whole lines from the beginning, up to the first torn line."""
        self.size_bytes = 0
        with open(self.path, "rb") as lines:
            for line in lines:
                if not line.endswith(b"\n") or b"\0" in line:  # a power failure leaves zero bytes, which JSON never has
                    return
                self.size_bytes += len(line)
                yield line

    def append(self, *pieces: bytes | memoryview) -> None:
        """Write whole lines, given in pieces, by one write. Raises OSError, and then leaves nothing of them.

        If a torn line cannot be cut off after a failure, the next call cuts it off first.
        """
        lines = b"".join(pieces)
        self.cut()
        try:
            write_all(self._file, lines)
        except OSError:
            with suppress(OSError):
                self.cut()
            raise
        self.size_bytes += len(lines)

    def cut(self) -> bool:
        """Cut off a torn line behind the whole lines; return whether there was one. Raises OSError."""
        torn = os.fstat(self._file.fileno()).st_size > self.size_bytes
        if torn:
            self._file.truncate(self.size_bytes)
        return torn

    def in_place(self) -> bool:
        """Tell whether the path still names this file, with all whole lines. Raises OSError."""
        with suppress(FileNotFoundError, NotADirectoryError):
            at_path = os.stat(self.path)
            return os.path.samestat(at_path, os.fstat(self._file.fileno())) and at_path.st_size >= self.size_bytes
        return False

    def close(self) -> None:
        """Close the file. Safe to call twice."""
        self._file.close()


def replace_file(path: Path, pieces: Iterable[bytes], *, mode: int = 0o600) -> None:
    """Write a file of pieces as `replacing` does. Raises OSError, and any error of `pieces`."""
    with replacing(path, mode=mode) as file:
        file.writelines(pieces)


@contextmanager
def replacing(path: Path, *, mode: int = 0o600) -> Iterator[BinaryIO]:
    """Yield a file beside the path, which is synced and renamed after the block; a failure leaves the old file.

    By default only the owner can read the file, because most of these files hold settings. Raises OSError.
    """
    part = path.with_name(f"{path.name}.part")
    part.unlink(missing_ok=True)  # a FIFO would never open, and a link would be followed
    try:
        with open(part, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # or a power failure may leave an empty file under the new name
        part.replace(path)
    except BaseException:
        # On a full disk, its space is missing elsewhere.
        with suppress(OSError):
            part.unlink()
        raise


def write_all(file: FileIO, data: bytes) -> None:
    """Write every byte. On a disk that fills up, the system writes a part, and only the next call fails."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def _open_exclusively(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_EXCL, 0o666)


# ---------------------------------------------------------------------------- rows by key

_KEY = re.compile(rb'(?:\xef\xbb\xbf)?\{"key": ("(?:[^"\\]|\\.)*"), ')


class InUseError(ConfigError):
    """Another process writes to the file."""


class OtherSettingsError(ConfigError):
    """The file holds rows of other settings."""


class OutputError(ReasoningEnvError):
    """The disk takes no more. Written rows stay, and the same command goes on later."""


MAKE_ROOM = "make room on the disk, then give the same command again"
FULL = (errno.ENOSPC, errno.EDQUOT)
"""Errors of a disk, or of a user's part of the disk, that is full."""


@contextmanager
def output_errors(path: Path, kept: str) -> Iterator[None]:
    """Raise OutputError for an OSError of the block, which writes `path`; `kept` says what is safe, and where."""
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"{visible(str(path))} cannot be written ({describe(error)}); {visible(kept)}",
            remedy=MAKE_ROOM if error.errno in FULL else "remove the cause, then give the same command again",
        ) from error


class KeyedFile:
    """A file of rows that only this process appends to, until it is closed or the process ends.

    All methods block; any thread may call them.

    Args:
        path: The file, which is made with its folder if it is missing.
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
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = _take(path, made_with, setting)
            try:
                self._read(on_line)
                if made_with is not None and not self._places:
                    replace_file(header_path(path), [json.dumps({"made_with": made_with}).encode()])
            except BaseException:
                self._file.close()
                raise
        except OSError as error:
            raise ConfigError(
                f"{visible(str(path))} cannot be used ({describe(error)})",
                setting=setting,
                remedy=MAKE_ROOM if error.errno in FULL else None,
            ) from error

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
            with output_errors(self.path, f"its {len(self._places)} lines are intact"):
                self._file.append(f'{{"key": {json.dumps(key)}, '.encode(), memoryview(pieces[0])[1:], *pieces[1:])
            self._places[key] = place

    def append_row(self, key: str, row: Mapping[str, object]) -> None:
        """Write a row of JSON values that has a column at least. Raises OutputError."""
        self.append(key, json.dumps(row).encode("ascii") + b"\n")

    def rows(self, keys: Iterable[str]) -> Iterator[dict[str, object]]:
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


def read_made_with(rows: Path) -> dict[str, object]:
    """Return the settings that made a file of rows; empty without a header."""
    with suppress(OSError, ValueError):
        header = read_json(header_path(rows))
        if isinstance(header, dict) and isinstance(header.get("made_with"), dict):
            return dict(header["made_with"])
    return {}


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
