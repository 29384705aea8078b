"""Child processes with a log file each, that end when they are told to, and also when this process is killed."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

GRACE_S = 10.0
"""How long a child may take to end after it was asked to, before it is killed."""
POLL_INTERVAL_S = 0.05
TAIL_LINES = 15
TAIL_BYTES = 64 * 1024
TETHER = Path(__file__).with_name("tether.py")


class ChildError(Exception):
    """A child ended by itself or did not do in time what it was waited for; the message ends with its last lines."""


@dataclass(frozen=True)
class Child:
    """A running child: what it is called, the tether that holds it, and the file with all that it prints."""

    name: str
    process: subprocess.Popen[bytes]
    log_path: Path

    def log_end(self) -> str:
        """Return the newest part of the log, at most 64 KiB of it."""
        with self.log_path.open("rb") as file:
            file.seek(max(0, self.log_path.stat().st_size - TAIL_BYTES))
            return file.read().decode("utf-8", errors="replace")

    def error(self, what: str) -> ChildError:
        """Return an error about this child that shows the end of its log."""
        lines = self.log_end().splitlines()[-TAIL_LINES:] or ["(it printed nothing)"]
        return ChildError("\n  | ".join([f"{self.name} {what}. Its log, {self.log_path}, ends with:", *lines]))


class Children:
    """The children of one run. As a context manager, it leaves none behind.

    Args:
        log_folder: existing folder for the log files; also the children's working directory.
        environment: variables that children get on top of this process's own.
    """

    def __init__(self, log_folder: Path, environment: Mapping[str, str]) -> None:
        self._log_folder = log_folder
        self._environment = {**os.environ, **environment}
        self._running: list[Child] = []

    def __enter__(self) -> Children:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop(*self._running)

    def start(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        *,
        grace_s: float = GRACE_S,
    ) -> Child:
        """Start a command in a session of its own, where a Ctrl-C meant for this process does not reach it."""
        log_path = self._log_folder / f"{name.replace(' ', '-')}.log"
        with log_path.open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(TETHER), str(grace_s), *command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._log_folder,
                env={**self._environment, **(environment or {})},
                start_new_session=True,
            )
        child = Child(name, process, log_path)
        self._running.append(child)
        return child

    def stop(self, *children: Child) -> None:
        """Ask children to end, all at once, and return when they have; see `tether` for those that do not want to.

        Blocks on purpose: nothing can interrupt it half-way, and when it runs there is nothing else left to do.
        """
        for child in children:
            if child.process.stdin:
                child.process.stdin.close()
        for child in children:
            child.process.wait()
        self._running = [child for child in self._running if child not in children]

    def check(self) -> None:
        """Raise ChildError if a child ended without having been told to."""
        for child in self._running:
            status = child.process.poll()
            if status is not None:
                raise child.error(f"ended by itself with exit status {status}")

    async def watch(self) -> None:
        """Wait until a child ends by itself, and raise ChildError then."""
        while True:
            self.check()
            await asyncio.sleep(POLL_INTERVAL_S)

    async def wait_for_line(self, child: Child, pattern: str, timeout_s: float) -> re.Match[str]:
        """Return the first match of a pattern in a child's log; raises ChildError if it ends or takes too long."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if match := re.search(pattern, child.log_end()):
                return match
            self.check()
            await asyncio.sleep(POLL_INTERVAL_S)
        raise child.error(f"was not ready within {timeout_s:.0f} s")
