"""Write the groups that `serve` sends to the file that Atropos' `data_path_to_save_groups` names, in a thread."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any

from ..dumps.writer import FREEZE_TIMEOUT_S
from .group_file import check_place, numbered, write_all
from .group_json import encode_members

logger = logging.getLogger(__name__)


class BackgroundWriter:
    """Has one thread write each group as a line, in order, to a file that the first of them makes.

    Where there is such a file already, the name gets a number, as with Atropos. Raises ConfigError for a place where no
    file can be made.
    """

    def __init__(self, path: str) -> None:
        self._path = check_place(path)
        self._file: FileIO | None = None
        self._writing = threading.Lock()
        self._frozen = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="group-writer")

    def write(self, obj: Mapping[str, Any]) -> None:
        # A copy, because the caller goes on to add keys to its own.
        self._thread.submit(self._write, dict(obj)).add_done_callback(_log_error)

    def close(self) -> None:
        """Write what is left and close; safe to call twice."""
        self._thread.shutdown(wait=True)
        if self._file is not None:
            self._file.close()

    def freeze(self, timeout_s: float = FREEZE_TIMEOUT_S) -> None:
        """Finish the line that is being written and write no other: the process ends at once."""
        self._frozen = True
        self._writing.acquire(timeout=timeout_s)

    def _write(self, obj: Mapping[str, Any]) -> None:
        line = b"{" + encode_members(obj) + b"}\n"
        with self._writing:
            if not self._frozen:
                self._file = self._file or _make(self._path)
                write_all(self._file, line)


def _make(path: Path) -> FileIO:
    path.parent.mkdir(parents=True, exist_ok=True)
    for candidate in numbered(path):
        with suppress(FileExistsError):
            file = open(candidate, "xb", buffering=0)  # noqa: SIM115
            break
    logger.info("groups that are sent go to %s", candidate)
    return file


def _log_error(written: Future[Any]) -> None:
    error = written.exception()
    if error is not None:
        logger.error("a group could not be written and is dropped: %s: %s", type(error).__name__, error)
