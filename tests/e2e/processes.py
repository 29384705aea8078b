"""Helpers of end-to-end tests: start the script, options for an inference server, and files that a run leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from reasoning_gym_testing import TOKENIZER, Process, Processes, server_settings
from tests.preloaded_library import FRESH_VARIABLE
from tests.waiting import PATIENCE_S

needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
REPOSITORY = Path(__file__).parents[2]
SCRIPT = REPOSITORY / "reasoning_gym_environment.py"


def start_script(processes: Processes, name: str, *arguments: str | Path, has_children: bool = False) -> Process:
    """Start the script in a working directory outside the project.

    With `has_children`, the process table must list its workers as descendants.
    """
    variables = {FRESH_VARIABLE: "1"} if has_children else {}
    return processes.start(name, [SCRIPT, *arguments], python=True, variables=variables)


def server_flags(url: str, server_type: str = "openai") -> list[str]:
    """Return the options for an inference server and for the test tokenizer."""
    settings = server_settings(url, server_type)
    flags = [word for name, value in settings.items() for word in (f"--openai.{name}", value)]
    return ["--env.tokenizer_name", TOKENIZER, "--env.scoring_deadline_s", str(PATIENCE_S), *flags]


def error_lines(process: Process) -> list[str]:
    """Return the lines on stderr, except for log lines, warnings and progress bars.

    An error line begins with the command that was called: the script, or the recorded environment.
    """
    return [line for line in process.stderr.splitlines() if line.startswith("python ")]


def left_behind(process: Process) -> list[str]:
    """Return the temporary worker folders that still exist."""
    return [path.name for path in (process.folder / "tmp").glob("reasoning-env-*")]
