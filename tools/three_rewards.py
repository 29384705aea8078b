"""Tell what differs between strict, plain and library rewards, by task: `python -m tools.three_rewards --count 100`.

Draws problems of each task as `strict` and `plain` serve them, and as `library` does. Prints a table: which share of
draws is rejected and why, the shares of problems with a corrected answer and with a clarified question, which
parameters move, and what the library's verifier pays, which `plain` and `library` pay too. Tasks without any
difference follow in one line.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import replace

from reasoning_env.records import ProblemRequest
from reasoning_env.seeds import hash_int
from reasoning_env.tasks import COMPOSITE, Task, find_task
from reasoning_env.workers.faster import FasterGenerators
from reasoning_env.workers.library import Library

from .running import choose_tasks, run_tool

COLUMNS = (
    "task",
    "draws rejected, by cause",
    "answers corrected",
    "questions clarified",
    "parameters moved",
    "the library's verifier pays for",
)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default="*", metavar="NAME,NAME", help="patterns of tasks (default: all)")
    parser.add_argument("--count", type=int, default=100, help="problems of each task (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="another seed draws other problems (default: %(default)s)")
    options = parser.parse_args(argv)
    library = Library(None)
    FasterGenerators(library.module, library.tasks).install()
    print(f"| {' | '.join(COLUMNS)} |", "| --- " * len(COLUMNS) + "|", sep="\n")
    same = []
    for task in choose_tasks(options.tasks):
        if task == COMPOSITE:
            continue
        seeds = [hash_int("three rewards", options.seed, task, number) % (1 << 31) for number in range(options.count)]
        with redirect_stdout(sys.stderr):  # the library prints warnings
            cells = _cells(library, find_task(task), seeds)
        if any(cells):
            print(f"| `{task}` | {' | '.join(cells)} |", flush=True)
        else:
            same.append(f"`{task}`")
    print(f"\nNo difference in {len(same)} tasks: {', '.join(same)}.")
    return 0


def _cells(library: Library, task: Task, seeds: Sequence[int]) -> list[str]:
    """Return the cells of a task's row, empty where nothing differs."""
    rejected = corrected = clarified = ""
    if task.rejected or task.failure is not None:
        flawed = Counter[str]()
        for seed in seeds:
            flawed.update(library.generate(ProblemRequest(task.name, seed)).flawed)
        draws = len(seeds) + flawed.total()
        rejected = ", ".join(f"{count / draws:.2f} {cause}" for cause, count in flawed.most_common())
    if task.right_answer is not None or task.clarification is not None:
        answers = questions = 0
        for seed in seeds:
            request = ProblemRequest(task.name, seed, as_is=True)
            ours, own = library.generate(request), library.generate(replace(request, as_published=True))
            answers += ours.answer != own.answer
            questions += ours.question != own.question
        corrected = f"{answers / len(seeds):.2f}" if answers else ""
        clarified = f"{questions / len(seeds):.2f}" if questions else ""
    moved = ", ".join(f"`{name}` {value}" for name, value in task.served_params.items())
    return [rejected, corrected, clarified, moved, task.pays_for]


if __name__ == "__main__":
    run_tool(main)
