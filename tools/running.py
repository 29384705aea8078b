"""Run a tool's `main`, with a user's mistake as one line."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from reasoning_env.errors import ReasoningEnvError
from reasoning_env.problems.selection import match_tasks
from reasoning_env.records import TaskInfo
from reasoning_env.tasks import TASKS


def run_tool(main: Callable[[], int | None]) -> None:
    """Exit with the status of `main`; with 2, and a line on stderr, for an error that a user can mend."""
    try:
        status = main()
    except ReasoningEnvError as error:
        print(f"{Path(sys.argv[0]).stem}: {error}", file=sys.stderr)
        status = 2
    except subprocess.CalledProcessError as error:
        print(f"{Path(sys.argv[0]).stem}: a run in other surroundings ended with {error.returncode}", file=sys.stderr)
        status = 2
    sys.exit(status)


def choose_tasks(patterns: str) -> tuple[str, ...]:
    """Return the library's tasks that match patterns joined by commas. Raises ConfigError for another pattern."""
    known = [TaskInfo(task.name, task.category) for task in TASKS.values()]
    return match_tasks(known, [pattern.strip() for pattern in patterns.split(",")], "--tasks")
