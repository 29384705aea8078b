from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import pytest

from reasoning_gym_environment import ReasoningGymEnv
from reasoning_gym_testing import Processes

COMMANDS = ("serve", "process", "evaluate")


@dataclass(frozen=True)
class Result:
    status: int
    stdout: str
    stderr: str

    @property
    def complaint(self) -> str:
        """Return the only line on stderr."""
        lines = self.stderr.splitlines()
        assert len(lines) == 1, f"expected one line on stderr, got:\n{self.stderr}"
        return lines[0]


Cli = Callable[..., Result]


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    """Starts processes, and ends the remaining ones after the module's tests."""
    with Processes(tmp_path_factory.mktemp("processes"), isolated=True, grace_s=0.0) as started:
        yield started


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Cli:
    """Runs a command line in a working directory of its own."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str | Path) -> Result:
        argv = list(map(str, words))
        if argv[:1] and argv[0] in COMMANDS and not any(word.startswith("--env.startup_timeout_s") for word in argv):
            argv += ["--env.startup_timeout_s=0.2"]  # a command that wrongly passes its checks fails soon
        monkeypatch.setattr(sys, "argv", ["reasoning_gym_environment.py", *argv])
        with pytest.raises(SystemExit) as end:
            ReasoningGymEnv.cli()
        captured = capsys.readouterr()
        assert isinstance(end.value.code, int)
        return Result(end.value.code, captured.out, captured.err)

    return run
