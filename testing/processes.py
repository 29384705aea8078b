"""Processes with a folder for each, none of which outlives the process that started it, however that ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

GRACE_S = 10.0
TIMEOUT_S = 60.0
POLL_INTERVAL_S = 0.05
TAIL_LINES = 15
SUPERVISOR = Path(__file__).with_name("supervisor.py")
ISOLATED_VARIABLES = ("PATH", "LANG", "LC_ALL", "COVERAGE_PROCESS_START", "PYTHONDONTWRITEBYTECODE")


class ProcessError(Exception):
    """A process ended by itself or did not do in time what it was waited for; the message ends with its last lines."""


def wait_until(condition: Callable[[], object], timeout_s: float, what: str) -> None:
    """Return once the condition holds. Raises TimeoutError, which names `what`, if it does not in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not happen within {timeout_s:g} s")
        time.sleep(POLL_INTERVAL_S)


class Process:
    """A process with a folder for its output, `stdout.log` and `stderr.log`. `pid` is the command's own."""

    def __init__(self, name: str, folder: Path, command: Sequence[str], grace_s: float, **options: Any) -> None:
        self.name = name
        self.folder = folder
        self._hold, its_end = socket.socketpair()
        words = [sys.executable, "-I", "-S", str(SUPERVISOR), str(grace_s), *command]
        with its_end, (folder / "stdout.log").open("wb") as out, (folder / "stderr.log").open("wb") as err:
            self._supervisor: subprocess.Popen[bytes] = subprocess.Popen(
                words, stdin=its_end.fileno(), stdout=out, stderr=err, start_new_session=True, **options
            )
        started = self._hold.makefile().readline()
        if not started:
            self._supervisor.wait()
            self._hold.close()
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
        """None while it runs, 128 + N if signal N ended it."""
        return self._supervisor.poll()

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process alone."""
        os.kill(self.pid, number)

    def end(self, number: signal.Signals | None = None, timeout_s: float = TIMEOUT_S) -> int:
        """Send the signal, if any, wait for the end and return the exit status. Raises ProcessError."""
        if number is not None:
            self.send(number)
        try:
            status = self._supervisor.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise self.error(f"still runs after {timeout_s:g} s") from None
        self._hold.close()
        return status

    def release(self) -> None:
        """End it with all that runs in its process group, as `supervisor` describes, without waiting for that."""
        self._hold.close()

    def check(self) -> bool:
        """Return True while it runs. Raises ProcessError once it has ended."""
        if self.exit_status is not None:
            raise self.error(f"ended by itself with exit status {self.exit_status}")
        return True

    def announcement(self, timeout_s: float = TIMEOUT_S) -> dict[str, Any]:
        """Return the JSON object that is the first line it prints, once that is there. Raises ProcessError."""
        wait_until(lambda: "\n" in self.stdout or not self.check(), timeout_s, f"the announcement of {self.name}")
        announced: dict[str, Any] = json.loads(self.stdout.partition("\n")[0])
        return announced

    def error(self, what: str) -> ProcessError:
        """Return an error about this process that shows the end of what it wrote."""
        name, text = ("stderr", self.stderr) if self.stderr else ("stdout", self.stdout)
        lines = text.splitlines()[-TAIL_LINES:] or ["(it wrote nothing)"]
        return ProcessError("\n  | ".join([f"{self.name} {what}. {self.folder / name}.log ends with:", *lines]))


class Processes:
    """Starts processes, each in a folder of its own under `folder`; as a context manager, it leaves none behind.

    `variables` come on top of this process's environment. With `isolated`, nothing of the user's reaches the processes,
    whose homes and temporary files then lie in their folders. What still runs at the end gets SIGTERM and, `grace_s`
    later, SIGKILL.
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
        variables: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Process:
        """Start a command in a session of its own, where a Ctrl-C meant for this process does not reach it.

        `name` must be new: it names the folder, in which the command runs unless `cwd` says otherwise.
        """
        folder = self.folder / name
        (folder / "tmp").mkdir(parents=True)
        own = {"HOME": str(folder), "TMPDIR": str(folder / "tmp"), "COLUMNS": "120"} if self._isolated else {}
        environment = {**self._variables, **own, **(variables or {})}
        words = [str(word) for word in command]
        process = Process(name, folder, words, self._grace_s, cwd=cwd or folder, env=environment)
        self._started.append(process)
        return process

    def stop(self) -> None:
        """End all that still run, at once, and return when they have ended.

        Blocks on purpose: nothing can interrupt it half-way.
        """
        for process in self._started:
            process.release()
        for process in self._started:
            process.end(timeout_s=self._grace_s + TIMEOUT_S)
