"""Start processes, each with its own folder. No process outlives its starter, even if the starter is killed."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Self

GRACE_S = 10.0
TIMEOUT_S = 300.0
"""Default time limit, in seconds. It is long, so that tests pass on busy machines."""
POLL_INTERVAL_S = 0.05
TAIL_LINES = 15
LAUNCHER = Path(__file__).with_name("launcher.py")
ISOLATED_VARIABLES = ("PATH", "LANG", "LC_ALL", "COVERAGE_PROCESS_START", "PYTHONDONTWRITEBYTECODE")


class ProcessError(Exception):
    """A process ended unexpectedly or exceeded a time limit. The message has the last lines of the process's output."""


def wait_until(condition: Callable[[], object], timeout_s: float, what: str) -> None:
    """Wait until `condition()` is true. Raises TimeoutError with `what` if this takes more than `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not happen within {timeout_s:g} s")
        time.sleep(POLL_INTERVAL_S)


PRELOADED: list[str] = []
"""Modules to import once for all Python processes. Set this before the first process starts."""
_starting = threading.Lock()


@cache
def _launcher() -> socket.socket:
    """Start the launcher, which lives as long as this process, and return the socket for requests to it."""
    control, its_end = socket.socketpair()
    flags = ["-P"] if PRELOADED else ["-I", "-S"]
    words = [sys.executable, *flags, str(LAUNCHER), *PRELOADED]
    with its_end:
        process = subprocess.Popen(words, stdin=its_end.fileno(), stdout=subprocess.DEVNULL, start_new_session=True)

    def end() -> None:
        """End the launcher, because Python warns of sockets and processes that are left at its end."""
        control.close()
        with contextlib.suppress(subprocess.TimeoutExpired):  # another process may still use the launcher
            process.wait(5.0)

    atexit.register(end)
    return control


class Process:
    """A process with a folder for `stdout.log` and `stderr.log`. `pid` is the process that runs the command."""

    def __init__(self, name: str, folder: Path, **request: Any) -> None:
        self.name = name
        self.folder = folder
        self._reading = threading.Lock()
        self._exit_status: int | None = None
        self._supervisor, its_end = socket.socketpair()
        self._lines = self._supervisor.makefile()
        with its_end, _starting:
            socket.send_fds(_launcher(), [b"+"], [its_end.fileno()])
        self._supervisor.sendall(json.dumps({"folder": str(folder), **request}).encode() + b"\n")
        started = self._lines.readline()
        if not started:
            self._close()
            raise self.error("could not be started")
        self.pid: int = json.loads(started)["pid"]

    @property
    def stdout(self) -> str:
        return (self.folder / "stdout.log").read_text(errors="replace")

    @property
    def stderr(self) -> str:
        return (self.folder / "stderr.log").read_text(errors="replace")

    @property
    def exit_status(self) -> int | None:
        """Exit status; 128 + N after signal N, None while the process runs."""
        return self._wait(0.0)

    def _wait(self, timeout_s: float) -> int | None:
        with self._reading:
            if self._exit_status is None and select.select([self._supervisor], [], [], timeout_s)[0]:
                told = self._lines.readline()
                self._exit_status = json.loads(told)["exit_status"] if told else 128 + signal.SIGKILL
                self._close()
            return self._exit_status

    def _close(self) -> None:
        self._lines.close()
        self._supervisor.close()

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process, but not to its group."""
        os.kill(self.pid, number)

    def end(self, number: signal.Signals | None = None, timeout_s: float = TIMEOUT_S) -> int:
        """Send a signal, if given, then wait for the exit status. Raises ProcessError after `timeout_s`."""
        if number is not None:
            self.send(number)
        status = self._wait(timeout_s)
        if status is None:
            raise self.error(f"still runs after {timeout_s:g} s")
        return status

    def release(self) -> None:
        """End the process and its process group, as `launcher` describes, without waiting."""
        with contextlib.suppress(OSError):  # the process has ended
            self._supervisor.shutdown(socket.SHUT_WR)

    def check(self) -> bool:
        """Return True while the process runs. Raises ProcessError if it has ended."""
        if self.exit_status is not None:
            raise self.error(f"ended by itself with exit status {self.exit_status}")
        return True

    def announcement(self, timeout_s: float = TIMEOUT_S) -> dict[str, Any]:
        """Wait for the first printed line and return its JSON object; raises ProcessError if the process ends."""
        wait_until(lambda: "\n" in self.stdout or not self.check(), timeout_s, f"the announcement of {self.name}")
        announced: dict[str, Any] = json.loads(self.stdout.partition("\n")[0])
        return announced

    def error(self, what: str) -> ProcessError:
        """Return an error about this process, with the last lines of its output."""
        name, text = ("stderr", self.stderr) if self.stderr else ("stdout", self.stdout)
        lines = text.splitlines()[-TAIL_LINES:] or ["(it wrote nothing)"]
        return ProcessError("\n  | ".join([f"{self.name} {what}. {self.folder / name}.log ends with:", *lines]))


class Processes:
    """Starts processes, each in its own folder under `folder`; all end with the `with` block.

    The processes inherit the environment variables of this process, plus `variables`. With `isolated`, they inherit
    nothing, and their home and temporary folders are inside their own folders. A process that still runs at the end of
    the block gets SIGTERM and, `grace_s` later, SIGKILL.
    """

    def __init__(
        self,
        folder: Path,
        variables: Mapping[str, str] | None = None,
        *,
        isolated: bool = False,
        grace_s: float = GRACE_S,
    ) -> None:
        self.folder = folder
        self._variables = {name: os.environ[name] for name in ISOLATED_VARIABLES if name in os.environ}
        if not isolated:
            self._variables = dict(os.environ)
        self._variables |= {"HF_HUB_OFFLINE": "1", **(variables or {})}
        self._isolated = isolated
        self._grace_s = grace_s
        self._started: list[Process] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        python: bool = False,
        variables: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Process:
        """Start a command in its own session, so that a Ctrl-C for this process does not reach it.

        `name` must be new: it names the folder, which is the working directory unless `cwd` is given. With `python`,
        the command is a script, or `-m` and a module, with arguments. If modules are PRELOADED, it then runs in a fork
        of a Python that has imported them, unless `variables` configure Python.
        """
        folder = self.folder / name
        (folder / "tmp").mkdir(parents=True)
        own: dict[str, str] = {}
        if self._isolated:
            own = {"HOME": str(folder), "TMPDIR": str(folder / "tmp"), "COLUMNS": "120"}
        given = variables or {}
        fork = python and bool(PRELOADED) and not any(name.startswith("PYTHON") for name in given)
        words = [str(word) for word in command]
        if python and not fork:
            words.insert(0, sys.executable)
        process = Process(
            name,
            folder,
            command=words,
            fork=fork,
            cwd=str(cwd or folder),
            variables={**self._variables, **own, **given},
            grace_s=self._grace_s,
        )
        self._started.append(process)
        return process

    def stop(self) -> None:
        """End all processes at once, and return when they have ended.

        This method is no coroutine, so that a cancellation cannot interrupt it half-way.
        """
        for process in self._started:
            process.release()
        for process in self._started:
            process.end(timeout_s=self._grace_s + TIMEOUT_S)
