"""Write files that stay readable even if the process is killed or the disk is full.

`KeyedFile` stores the rows that a resumable command writes. The file has one JSON object per line, in any order. Each
line begins with the row's `key`, which is unique in the file. The file `{name}.header` beside it stores the settings
that determine the rows. If the command is run again with the same settings, it adds the missing rows.

If the process is killed, at most the last line is incomplete, and the next run removes it with a warning. A power
failure may lose the lines that the system had not written to the disk.
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
from ..runtime.text import printable
from ..settings import changed_settings
from .reading import read_json, require_regular
from .values import describe

logger = logging.getLogger(__name__)


class LineFile:
    """A file of lines that one process appends to. Use it from one thread at a time.

    `size_bytes` is the length of all complete lines. An incomplete last line is cut off before the next write. When
    `append` returns, the operating system has the line, so the line survives a kill of this process.
    """

    def __init__(self, path: Path, file: FileIO) -> None:
        self.path = path
        self.size_bytes = 0
        self._file = file

    @classmethod
    def create(cls, path: Path) -> LineFile:
        """Make a new file. Raises FileExistsError if the path exists, and OSError for other errors."""
        return cls(path, open(path, "ab", buffering=0, opener=_open_exclusively))

    @classmethod
    def take(cls, path: Path) -> LineFile | None:
        """Open or make a file, and lock it. Return None if another process has locked the file. Raises OSError.

        Call `read` before `append`, because `read` finds the end of the complete lines.
        """
        with suppress(FileNotFoundError):
            require_regular(path)  # opening a FIFO would wait for a reader
        file = open(path, "ab", buffering=0)  # noqa: SIM115
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
        except OSError:  # the file system has no locks
            pass
        return cls(path, file)

    def read(self) -> Iterator[bytes]:
        """Yield the complete lines from the beginning, up to the first incomplete line."""
        self.size_bytes = 0
        with open(self.path, "rb") as lines:
            for line in lines:
                if not line.endswith(b"\n") or b"\0" in line:  # a power failure leaves zero bytes, which JSON never has
                    return
                self.size_bytes += len(line)
                yield line

    def append(self, *pieces: bytes | memoryview) -> None:
        """Append `pieces`, which together are complete lines. Raises OSError; then nothing is appended."""
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
        """Cut off an incomplete last line. Return True if there was such a line. Raises OSError."""
        torn = os.fstat(self._file.fileno()).st_size > self.size_bytes
        if torn:
            self._file.truncate(self.size_bytes)
        return torn

    def in_place(self) -> bool:
        """Return False if the file was moved, deleted or truncated. Raises OSError if this cannot be checked."""
        with suppress(FileNotFoundError, NotADirectoryError):
            at_path = os.stat(self.path)
            return os.path.samestat(at_path, os.fstat(self._file.fileno())) and at_path.st_size >= self.size_bytes
        return False

    def close(self) -> None:
        """Close the file. Safe to call twice."""
        self._file.close()


def replace_file(path: Path, pieces: Iterable[bytes], *, mode: int = 0o600) -> None:
    """Replace a file by `pieces`, whole or not at all. Raises OSError, and any error that `pieces` raises."""
    with replacing(path, mode=mode) as file:
        file.writelines(pieces)


@contextmanager
def replacing(path: Path, *, mode: int = 0o600) -> Iterator[BinaryIO]:
    """Yield a temporary file, which replaces the file at `path` after the block. After an error, the old file stays.

    By default, only the owner can read the file. Raises OSError.
    """
    part = path.with_name(f"{path.name}.part")
    part.unlink(missing_ok=True)  # otherwise opening a FIFO would block, and a link would be followed
    try:
        with open(part, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # otherwise, a power failure may leave an empty file under the new name
        part.replace(path)
    except BaseException:
        # Delete the temporary file, because it takes space on a disk that may be full.
        with suppress(OSError):
            part.unlink()
        raise


def write_all(file: FileIO, data: bytes) -> None:
    """Write all of `data`. On a full disk, a system call may write only a part; then the next call fails."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def _open_exclusively(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_EXCL, 0o666)


# ---------------------------------------------------------------------------- rows by key

_KEY = re.compile(rb'(?:\xef\xbb\xbf)?\{"key": ("(?:[^"\\]|\\.)*"), ')


class InUseError(ConfigError):
    """Another process is writing to the file."""


class OtherSettingsError(ConfigError):
    """The file has rows that were made with other settings."""


class OutputError(ReasoningEnvError):
    """The file cannot be written, for example because the disk is full. Rows that were written before are intact."""


MAKE_ROOM = "make room on the disk, then run the same command again"
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
"""Errors of a full disk or an exhausted quota."""


@contextmanager
def output_errors(path: Path, kept: str) -> Iterator[None]:
    """Convert an OSError of the `with` block to OutputError. The message says that `path` cannot be written.

    `kept` is the end of the message: which rows or groups are safe, and where.
    """
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"{printable(str(path))} cannot be written ({describe(error)}); {printable(kept)}",
            remedy=MAKE_ROOM if error.errno in DISK_FULL else "remove the cause, then run the same command again",
        ) from error


class KeyedFile:
    """A file of rows. Until the file is closed or the process ends, no other process can append to it.

    All methods block, and any thread may call them.

    Args:
        path: The file. The file and its folder are made if they are missing.
        made_with: The settings that determine the rows; None if the caller stores these settings.
        setting: The name of the setting that chooses the file, for error messages.
        on_line: Called with the key and the bytes of each existing line. A line for which `on_line` raises ValueError
            is ignored, and stays in the file.

    Raises:
        InUseError: Another process has the file open.
        OtherSettingsError: The rows were made with other settings.
        ConfigError: The file cannot be opened.
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
        """Number of lines that were in the file when it was opened and are not valid rows."""
        self._places: dict[str, int] = {}  # offset of each key's line, in bytes
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = _open_locked(path, made_with, setting)
            try:
                self._read(on_line)
                if made_with is not None and not self._places:
                    replace_file(header_path(path), [json.dumps({"made_with": made_with}).encode()])
            except BaseException:
                self._file.close()
                raise
        except OSError as error:
            raise ConfigError(
                f"{printable(str(path))} cannot be used ({describe(error)})",
                setting=setting,
                remedy=MAKE_ROOM if error.errno in DISK_FULL else None,
            ) from error

    @property
    def keys(self) -> KeysView[str]:
        """The keys of all rows, including the rows that were in the file when it was opened."""
        return self._places.keys()

    def append(self, key: str, *pieces: bytes) -> None:
        """Write a row as one line, unless the file has a row with this `key`. `pieces`: the row's JSON without `"key"`.

        Raises OutputError if the file cannot be written. The row is then not in the file.
        """
        with self._lock:
            if key in self._places:
                return
            place = self._file.size_bytes
            with output_errors(self.path, f"the {len(self._places)} earlier lines are intact"):
                self._file.append(f'{{"key": {json.dumps(key)}, '.encode(), memoryview(pieces[0])[1:], *pieces[1:])
            self._places[key] = place

    def append_row(self, key: str, row: Mapping[str, object]) -> None:
        """Write a row of one or more columns, as `append` does. All values must be JSON values."""
        self.append(key, json.dumps(row).encode("ascii") + b"\n")

    def rows(self, keys: Iterable[str]) -> Iterator[dict[str, object]]:
        """Yield the row of each key, in the given order."""
        with open(self.path, "rb") as lines:
            for key in keys:
                lines.seek(self._places[key])
                yield json.loads(lines.readline())

    def close(self) -> None:
        """Close the file. Safe to call twice."""
        with self._lock:
            self._file.close()

    def remove(self) -> None:
        """Close the file, then delete the file and its `.header` file."""
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
            logger.warning("the last line of %s was incomplete and is removed", self.path)


def header_path(rows: Path) -> Path:
    """Return the path of the header of a file of rows."""
    return rows.with_name(f"{rows.name}.header")


def read_made_with(rows: Path) -> dict[str, object]:
    """Return the settings with which a file of rows was made; {} if the file has no header."""
    with suppress(OSError, ValueError):
        header = read_json(header_path(rows))
        if isinstance(header, dict) and isinstance(header.get("made_with"), dict):
            return dict(header["made_with"])
    return {}


def remove_rows(path: Path) -> None:
    """Delete a file of rows and its `.header` file, if they exist."""
    path.unlink(missing_ok=True)
    header_path(path).unlink(missing_ok=True)


def _open_locked(path: Path, made_with: Mapping[str, object] | None, setting: str) -> LineFile:
    """Make or open a file of rows, and lock the file.

    Raises:
        OtherSettingsError: The rows were made with settings other than `made_with`.
        InUseError: Another process has the file open.
    """
    if made_with is not None and path.exists() and path.stat().st_size:
        changed = changed_settings(read_made_with(path), made_with)
        if changed:
            raise other_settings(path, changed, setting)
    file = LineFile.take(path)
    if file is None:
        raise InUseError(
            f"another process is writing to {printable(str(path))}",
            setting=setting,
            remedy="wait until the process ends, or use another file",
        )
    return file


def other_settings(path: Path, changed: Iterable[str], setting: str) -> OtherSettingsError:
    """Return the error for a file that was made with other values of the settings named in `changed`."""
    return OtherSettingsError(
        f"{printable(str(path))} was made with other settings ({printable(', '.join(sorted(changed)))})",
        setting=setting,
        remedy="use another file, or remove this file",
    )


def _key_of(line: bytes) -> str:
    """Return the key at the beginning of a line. Raises ValueError if the line begins without a key."""
    # Parse only the key, because the rest may be megabytes of tokens.
    beginning = _KEY.match(line)
    if beginning is None:
        raise ValueError("the line does not begin with the field `key`")
    return str(json.loads(beginning[1]))
