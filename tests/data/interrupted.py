"""Calls of commands that are killed in the middle of their work."""

from __future__ import annotations

import os
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
from tests.waiting import wait_until

SAVE_OFTEN = """
import sys
from pathlib import Path
from reasoning_env.commands.main import main
from reasoning_env.data import store
store.COMMIT_S = 0.01
main(sys.argv[1:], {}, environment_file=Path("reasoning_gym_environment.py"))
"""


def kill_in_the_middle(words: Sequence[str], out: Path) -> int:
    """Kill a call of a command when some of its rows are lasting; return their number, above 0."""
    call = subprocess.Popen([sys.executable, "-c", SAVE_OFTEN, *words], cwd=REPOSITORY)
    wait_until(lambda: _lasting_rows(out) > 0 or call.poll() is not None, "the first rows")
    os.kill(call.pid, signal.SIGKILL)
    call.wait()
    rows = _lasting_rows(out)
    assert rows > 0
    return rows


def finish(words: Sequence[str]) -> None:
    assert main(list(words), {}, environment_file=REPOSITORY / "reasoning_gym_environment.py") == 0


def _lasting_rows(out: Path) -> int:
    """Count the lasting rows of a call under way, in a copy: the call holds the lock."""
    unfinished = unfinished_path(out)
    copy = out.with_name("copy.db")
    for end in ("", "-wal"):
        source = unfinished.with_name(unfinished.name + end)
        if source.exists():
            copy.with_name(copy.name + end).write_bytes(source.read_bytes())
    try:
        with closing(sqlite3.connect(copy)) as database:
            return int(database.execute("SELECT COUNT(*) FROM rows").fetchone()[0])
    except sqlite3.Error:
        return 0
