"""Files of groups, one group per line, for `process` and `serve`.

`process` writes groups in the order of scoring. Its lines have Atropos' fields, the fields of a dumped group, and
`key`: the position of the group's problem. Lines of `serve` have only Atropos' fields.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path

from ...data.tables import JSON_LINES, PARQUET, check_name
from ...dumps.format import encode_group
from ...errors import ConfigError
from ...records import Group
from ...runtime.text import error_text
from ...storage.files import KeyedFile, LineFile, OtherSettingsError, header_path
from ...storage.folders import check_writable
from ..wire import encode_members

SETTING = "env.data_path_to_save_groups"

logger = logging.getLogger(__name__)


def check_path(name: str | None) -> Path:
    """Return the path of the file; raises ConfigError if the file or its folder cannot be created."""
    if not name:
        raise ConfigError("must be a file name", setting=SETTING)
    path = Path(name)
    if path.is_dir():
        raise ConfigError(f"{path} is a folder", setting=SETTING, remedy="name a file")
    if path.suffix == PARQUET:
        check_name(path, SETTING)
        if path.exists() and not header_path(path.with_suffix(JSON_LINES)).exists():
            raise ConfigError(
                f"{path} exists, but `process` did not write it", setting=SETTING, remedy="choose another file"
            )
    if not path.exists():
        check_writable(path.absolute().parent, SETTING)
    return path


def encode_line(fields: Mapping[str, object], group: Group) -> list[bytes]:
    """Return the pieces of a group's line in the file. `fields` is the group in Atropos' format."""
    return [b"{", *encode_members(fields.items()), b",", encode_group(group)[1:]]


def open_groups(
    path: Path, made_with: Mapping[str, object], on_line: Callable[[bytes], object] = lambda line: None
) -> KeyedFile:
    """Open or create a file for groups with the settings `made_with`.

    If the file has groups of other settings, append a number to the name. `on_line` gets each line of an existing file,
    and raises ValueError for an invalid line.

    Raises ConfigError if the file cannot be opened.
    """

    def use(key: str, line: bytes) -> None:
        int(key)
        on_line(line)

    for candidate in numbered_paths(path):
        try:
            file = KeyedFile(candidate, made_with, setting=SETTING, on_line=use)
        except OtherSettingsError as error:
            logger.warning("%s", error.problem)
        else:
            if candidate != path:
                logger.warning("writing new groups to %s instead", candidate)
            return file
    raise AssertionError("internal error: no numbered name is free for the file")


def numbered_paths(path: Path) -> Iterator[Path]:
    """Yield the path, then the path with _1, _2, _3 ... before the suffix. Atropos names files in the same way."""
    yield path
    yield from (path.with_stem(f"{path.stem}_{number}") for number in count(1))


# ---- groups that `serve` sends


class BackgroundWriter:
    """Appends each group as a line to a file, in order, on a thread. The first group creates the file.

    If `path` exists already, the new file gets a number after its name, as in Atropos. Raises ConfigError if `path` is
    not writable.
    """

    def __init__(self, path: str) -> None:
        self._path = check_path(path)
        self._file: LineFile | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="group-writer")

    def write(self, obj: Mapping[str, object]) -> None:
        # A copy: the caller adds keys to the group later.
        self._thread.submit(self._write, dict(obj)).add_done_callback(_log_error)

    def close(self) -> None:
        """Write waiting groups and close the file. Safe to call twice."""
        self._thread.shutdown(wait=True)
        if self._file is not None:
            self._file.close()

    def _write(self, obj: Mapping[str, object]) -> None:
        pieces = [b"{", *encode_members(obj.items()), b"}\n"]
        if self._file is None:
            self._file = _make(self._path)
        self._file.append(*pieces)


def _make(path: Path) -> LineFile:
    path.parent.mkdir(parents=True, exist_ok=True)
    for candidate in numbered_paths(path):
        with suppress(FileExistsError):
            file = LineFile.create(candidate)
            logger.info("writing a copy of each sent group to %s", candidate)
            return file
    raise AssertionError("internal error: no numbered name is free for the file")


def _log_error(written: Future[None]) -> None:
    error = written.exception()
    if error is not None:
        logger.error(
            "a sent group is missing in the file, because its copy could not be written: %s", error_text(error)
        )
