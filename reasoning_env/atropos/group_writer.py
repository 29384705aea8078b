"""Work of Atropos' own that takes too long for the event loop, in forms that a thread can do."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

logger = logging.getLogger(__name__)


class LineWriter(Protocol):
    """Writes one object as one line."""

    def write(self, obj: Any) -> Any: ...

    def close(self) -> Any: ...


class BackgroundWriter:
    """Has one thread write to another writer, in order; `close` waits for it."""

    def __init__(self, writer: LineWriter) -> None:
        self._writer = writer
        self._writing = threading.Lock()
        self._frozen = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="group-writer")
        self._closed = False

    def write(self, obj: Mapping[str, Any]) -> None:
        # A copy, because the caller goes on to add keys to its own.
        self._thread.submit(self._write, dict(obj)).add_done_callback(_report)

    def close(self) -> None:
        """Write what is left and close; safe to call twice."""
        if not self._closed:
            self._closed = True
            self._thread.shutdown(wait=True)
            self._writer.close()

    def freeze(self, timeout_s: float) -> None:
        """Let the line that is being written become whole, and write no other: the process ends at once."""
        self._frozen = True
        self._writing.acquire(timeout=timeout_s)

    def _write(self, obj: Mapping[str, Any]) -> None:
        with self._writing:
            if not self._frozen:
                self._writer.write(obj)


def _report(written: Future[Any]) -> None:
    error = written.exception()
    if error is not None:
        logger.error("a group could not be written and is lost: %s: %s", type(error).__name__, error)


def encode_group(group: Mapping[str, Any]) -> bytes:
    """JSON of a group of rollouts, made one sequence at a time.

    One call for the whole of it would keep other threads out for tens of milliseconds when completions are long.
    """
    parts = []
    for key, value in group.items():
        if isinstance(value, list):
            text = "[" + ",".join(json.dumps(item) for item in value) + "]"
        else:
            text = json.dumps(value)
        parts.append(f"{json.dumps(key)}:{text}")
    return ("{" + ",".join(parts) + "}").encode()
