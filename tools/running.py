"""Run a tool's `main` with one-line errors, and generate problems of the tasks that its options select."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from reasoning_env.errors import ReasoningEnvError
from reasoning_env.problems.selection import match_tasks
from reasoning_env.records import TaskInfo
from reasoning_env.seeds import hash_int
from reasoning_env.tasks import COMPOSITE, TASKS, Task
from reasoning_env.workers.faster import FasterGenerators
from reasoning_env.workers.library import Library


def run_tool(main: Callable[[], int | None]) -> None:
    """Exit with the status of `main`. For an error that a user can fix, print a line to stderr and exit with 2."""
    try:
        status = main()
    except ReasoningEnvError as error:
        print(f"{Path(sys.argv[0]).stem}: {error}", file=sys.stderr)
        status = 2
    except subprocess.CalledProcessError as error:
        print(
            f"{Path(sys.argv[0]).stem}: a run in another environment ended with status {error.returncode}",
            file=sys.stderr,
        )
        status = 2
    sys.exit(status)


def choose_tasks(patterns: str) -> tuple[str, ...]:
    """Return the library's tasks that match comma-separated patterns. Raises ConfigError if a pattern matches none."""
    known = [TaskInfo(task.name, task.category) for task in TASKS.values()]
    return match_tasks(known, [pattern.strip() for pattern in patterns.split(",")], "--tasks")


def draw_parser(description: str | None, count: int) -> argparse.ArgumentParser:
    """Return the parser of a tool that generates `count` problems by default; see `drawn_tasks`."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default="*", metavar="NAME,NAME", help="patterns of tasks (default: all)")
    parser.add_argument("--count", type=int, default=count, help="problems of each task (default: %(default)s)")
    parser.add_argument("--level", type=float, help="a level from 0 to 1 (default: the library's defaults)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the problems (default: %(default)s)")
    return parser


def fast_library() -> Library:
    """Install the faster generators in this process, and return the installed library."""
    library = Library(None)
    FasterGenerators(library.module, library.tasks).install()
    return library


def drawn_tasks(library: Library, options: argparse.Namespace, tool: str) -> Iterator[tuple[Task, list[int]]]:
    """Yield the tasks that match the options of `draw_parser` and have the level, each with seeds for this tool."""
    for name in choose_tasks(options.tasks):
        if name != COMPOSITE and (options.level is None or library.tasks[name].has_levels):
            numbers = range(options.count)
            yield TASKS[name], [hash_int(tool, options.seed, name, number) % (1 << 31) for number in numbers]
