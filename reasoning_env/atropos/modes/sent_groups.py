"""The file of the groups that `serve` sends: a line a group, with Atropos' own fields alone."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from ...storage.files import LineFile
from ..wire import encode_members
from .group_file import check_path, numbered_paths

logger = logging.getLogger(__name__)


class BackgroundWriter:
    """Writes each group as a line, in order and on a thread; the first group makes the file.

    If the file exists, the name gets a number, as in Atropos. Raises ConfigError if no file can be made at the path.
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
            logger.info("groups that are sent go to %s", candidate)
            return file
    raise AssertionError("numbers have no end")


def _log_error(written: Future[None]) -> None:
    error = written.exception()
    if error is not None:
        logger.error("a group could not be written and is dropped: %s: %s", type(error).__name__, error)
