"""Calls of commands that are killed in the middle of their work."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from reasoning_env.commands.main import main
from reasoning_env.data.store import unfinished_path
from tests.e2e.processes import REPOSITORY

LASTING_ROWS = 50
"""Rows that are lasting when a call is killed; ten more are lost."""
KILL = f"""
import os, signal, sys
from pathlib import Path
from reasoning_env.commands.main import main
from reasoning_env.data.store import RowStore

def commit_if_due(store):
    if len(store) == {LASTING_ROWS}:
        store.commit()
    if len(store) == {LASTING_ROWS + 10}:
        os.kill(os.getpid(), signal.SIGKILL)

RowStore.commit_if_due = commit_if_due
main(sys.argv[1:], {{}}, environment_file=Path("reasoning_gym_environment.py"))
"""


def kill_in_the_middle(words: Sequence[str], out: Path) -> None:
    """Run a call of a command that is killed with some of its rows lasting, and some not."""
    call = subprocess.run([sys.executable, "-c", KILL, *words], cwd=REPOSITORY, check=False)
    assert call.returncode == -signal.SIGKILL
    with closing(sqlite3.connect(unfinished_path(out))) as database:
        assert database.execute("SELECT COUNT(*) FROM rows").fetchone() == (LASTING_ROWS,)


def finish(words: Sequence[str]) -> None:
    assert main(list(words), {}, environment_file=REPOSITORY / "reasoning_gym_environment.py") == 0
