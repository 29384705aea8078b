"""Child processes of a test: started with a log file each, watched through /proc, never left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.process_table import ProcessId, descendants, is_alive

REPOSITORY = Path(__file__).parents[2]
SCRIPT = REPOSITORY / "reasoning_gym_environment.py"
TOKENIZER = REPOSITORY / "demo" / "tokenizer"
KEPT_VARIABLES = ("PATH", "LANG", "LC_ALL", "COVERAGE_PROCESS_START", "PYTHONDONTWRITEBYTECODE")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(condition: Callable[[], object], timeout_s: float, what: str) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen within {timeout_s:g} s"
        time.sleep(0.05)


@dataclass
class Run:
    """A process with a folder of its own: working directory, home and temporary files lie in there."""

    folder: Path
    process: subprocess.Popen[bytes]
    seen: set[ProcessId] = field(default_factory=set)

    @property
    def stdout(self) -> str:
        return (self.folder / "stdout.log").read_text(errors="replace")

    @property
    def stderr(self) -> str:
        return (self.folder / "stderr.log").read_text(errors="replace")

    @property
    def error_lines(self) -> list[str]:
        """What was printed on stderr, but for the lines of the log, of warnings and of progress bars."""
        return [line for line in self.stderr.splitlines() if line.startswith("reasoning_gym_environment ")]

    @property
    def left_behind(self) -> list[str]:
        """Temporary folders of the workers that are still there."""
        return [path.name for path in (self.folder / "tmp").glob("reasoning-env-*")]

    def see_descendants(self) -> set[ProcessId]:
        self.seen |= descendants(self.process.pid)
        return self.seen

    def end(self, number: signal.Signals | None = None, timeout_s: float = 60.0) -> int:
        """Send the signal, if any, and wait for the end; returns the exit status."""
        if number is not None:
            self.process.send_signal(number)
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            message = f"still running after {timeout_s:g} s; the log ends with\n{self.stderr[-3000:]}"
            raise AssertionError(message) from None


class Runs:
    """Starts processes under a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: list[Run] = []

    def start(
        self,
        name: str,
        command: Sequence[str | Path],
        variables: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Run:
        """Start a command with an environment that holds nothing of the user's: no account, no network."""
        folder = self.folder / name
        (folder / "tmp").mkdir(parents=True)
        inherited = {key: os.environ[key] for key in KEPT_VARIABLES if key in os.environ}
        own = {"HOME": str(folder), "TMPDIR": str(folder / "tmp"), "HF_HUB_OFFLINE": "1", "COLUMNS": "120"}
        with (folder / "stdout.log").open("wb") as out, (folder / "stderr.log").open("wb") as err:
            process = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=cwd or folder,
                env={**inherited, **own, **(variables or {})},
                start_new_session=True,
            )
        run = Run(folder, process)
        self._started.append(run)
        return run

    def start_environment(self, name: str, *arguments: str | Path, variables: Mapping[str, str] | None = None) -> Run:
        """Start the environment by its script, from a working directory that is not the project's."""
        return self.start(name, [sys.executable, SCRIPT, *arguments], variables)

    def stop(self) -> None:
        for run in self._started:
            run.see_descendants()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(run.process.pid, signal.SIGKILL)
            run.process.wait()
            for child in run.seen:
                if is_alive(child):
                    os.kill(child.pid, signal.SIGKILL)


@contextlib.contextmanager
def runs_under(folder: Path) -> Iterator[Runs]:
    runs = Runs(folder)
    try:
        yield runs
    finally:
        runs.stop()


def server_flags(port: int, server_type: str = "openai") -> list[str]:
    """The options that point an environment to an inference server, and to the shipped tokenizer."""
    return [
        *("--env.tokenizer_name", str(TOKENIZER)),
        *("--openai.server_type", server_type),
        *("--openai.base_url", f"http://127.0.0.1:{port}/v1"),
        *("--openai.model_name", "scripted-policy"),
        *("--openai.api_key", "x"),
    ]
