"""Calls of commands that are killed in the middle of their work."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from reasoning_env.commands.main import main
from reasoning_env.data.output import unfinished_path
from tests.e2e.processes import REPOSITORY

LASTING_ROWS = 50
"""Rows that are there when a call is killed."""
KILL = f"""
import os, signal, sys
from pathlib import Path
from reasoning_env.commands.main import main
from reasoning_env.storage.files import KeyedFile

append = KeyedFile.append

def append_or_die(file, key, *pieces):
    append(file, key, *pieces)
    if len(file.keys) == {LASTING_ROWS}:
        os.kill(os.getpid(), signal.SIGKILL)

KeyedFile.append = append_or_die
main(sys.argv[1:], {{}}, environment_file=Path("reasoning_gym_environment.py"))
"""


def kill_in_the_middle(words: Sequence[str], out: Path) -> None:
    """Run a call of a command that is killed with some of its rows lasting."""
    call = subprocess.run([sys.executable, "-c", KILL, *words], cwd=REPOSITORY, check=False)
    assert call.returncode == -signal.SIGKILL
    assert unfinished_path(out).read_bytes().count(b"\n") == LASTING_ROWS


def finish(words: Sequence[str]) -> None:
    assert main(list(words), {}, environment_file=REPOSITORY / "reasoning_gym_environment.py") == 0
