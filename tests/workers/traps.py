"""Traps that show whether a hostile answer was executed."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path


class Traps:
    """Files, a port, a process name and environment variables that an executed answer would touch."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="trap"))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self.port = self._listener.getsockname()[1]
        self.sleep_s = f"86400{self.port}"
        self._environment = dict(os.environ)
        self._marks = 0

    def arm(self, payload: str) -> str:
        """Return the payload with the addresses of the traps, including a unique file name."""
        self._marks += 1
        letters = "".join(chr(ord("a") + int(digit)) for digit in str(self._marks))
        mark = str(self.folder / f"mark{letters}")
        return payload.replace("MARK", mark).replace("PORT", str(self.port)).replace("SLEEP", self.sleep_s)

    def sprung(self) -> list[str]:
        """Return the traps that were touched since the last call, and end started processes."""
        events = []
        for mark in self.folder.glob("mark*"):
            events.append(f"wrote {mark.name}")
            mark.unlink()
        with contextlib.suppress(BlockingIOError):
            while True:
                self._listener.accept()[0].close()
                events.append("connected")
        for pid in _processes_with(self.sleep_s):
            events.append(f"started process {pid}")
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if dict(os.environ) != self._environment:
            events.append("changed a variable")
        return events

    def bait(self, text: str) -> str:
        """Return the path of a file whose content must not be read, such as a right answer."""
        self._marks += 1
        path = self.folder / f"bait{self._marks}"
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        return str(path)

    def close(self) -> None:
        self.sprung()
        self._listener.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def _processes_with(argument: str) -> Iterator[int]:
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if argument.encode() in command.read_bytes().split(b"\0"):
                yield int(command.parent.name)
