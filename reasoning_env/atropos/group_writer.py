"""Write groups to the file that Atropos' `data_path_to_save_groups` names, in a thread."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

import jsonlines

from ..dumps.writer import FREEZE_TIMEOUT_S

logger = logging.getLogger(__name__)


class LineWriter(Protocol):
    """Writes one object as one line; `close` is safe to call twice."""

    def write(self, obj: Any) -> Any: ...

    def close(self) -> Any: ...


def write_in_background(writer: LineWriter | None, path: str | None) -> BackgroundWriter | None:
    """Return a writer to `path` in place of Atropos' own, whose buffer would tear a line when the process is killed."""
    if writer is None:
        return None
    writer.close()
    return BackgroundWriter(jsonlines.open(str(path), "w", flush=True))


class BackgroundWriter:
    """Has one thread write to another writer, in order."""

    def __init__(self, writer: LineWriter) -> None:
        self._writer = writer
        self._writing = threading.Lock()
        self._frozen = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="group-writer")

    def write(self, obj: Mapping[str, Any]) -> None:
        # A copy, because the caller goes on to add keys to its own.
        self._thread.submit(self._write, dict(obj)).add_done_callback(_log_error)

    def close(self) -> None:
        """Write what is left and close; safe to call twice."""
        self._thread.shutdown(wait=True)
        self._writer.close()

    def freeze(self, timeout_s: float = FREEZE_TIMEOUT_S) -> None:
        """Finish the line that is being written and write no other: the process ends at once."""
        self._frozen = True
        self._writing.acquire(timeout=timeout_s)

    def _write(self, obj: Mapping[str, Any]) -> None:
        with self._writing:
            if not self._frozen:
                self._writer.write(obj)


def _log_error(written: Future[Any]) -> None:
    error = written.exception()
    if error is not None:
        logger.error("a group could not be written and is dropped: %s: %s", type(error).__name__, error)
