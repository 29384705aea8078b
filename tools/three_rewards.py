"""Print how strict, plain and library rewards differ, by task: `python -m tools.three_rewards --count 100`.

Generates problems of each task as `strict` and `plain` serve them, and as `library` does. Prints a table: the share of
rejected draws by cause, the shares of problems with a corrected answer and with a clarified question, other
parameters, and the nonsense that the library's verifier rewards (with `plain` and `library` too). At the end, prints
the tasks without a difference in one line.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import replace

from reasoning_env.records import ProblemRequest
from reasoning_env.tasks import Task
from reasoning_env.workers.library import Library

from .running import draw_parser, drawn_tasks, fast_library, run_tool

COLUMNS = (
    "task",
    "share of rejected problems, by cause",
    "corrected answers",
    "clarified questions",
    "other parameters",
    "the library's verifier rewards",
)


def main(argv: Sequence[str] | None = None) -> int:
    options = draw_parser(__doc__, count=100).parse_args(argv)
    library = fast_library()
    print(f"| {' | '.join(COLUMNS)} |", "| --- " * len(COLUMNS) + "|", sep="\n")
    same = []
    for task, seeds in drawn_tasks(library, options, "three rewards"):
        with redirect_stdout(sys.stderr):  # the library prints warnings
            cells = _cells(library, task, seeds, options.level)
        if any(cells):
            print(f"| `{task.name}` | {' | '.join(cells)} |", flush=True)
        else:
            same.append(f"`{task.name}`")
    print(f"\nNo difference in {len(same)} tasks: {', '.join(same)}.")
    return 0


def _cells(library: Library, task: Task, seeds: Sequence[int], level: float | None) -> list[str]:
    """Return the cells of a task's row. A cell is empty if nothing differs."""
    rejected = corrected = clarified = ""
    if task.rejected or task.failure is not None:
        flawed = Counter[str]()
        for seed in seeds:
            flawed.update(library.generate(ProblemRequest(task.name, seed, {}, level)).flawed)
        draws = len(seeds) + flawed.total()
        rejected = ", ".join(f"{count / draws:.2f} {cause}" for cause, count in flawed.most_common())
    if task.right_answer is not None or task.clarification is not None:
        answers = questions = 0
        for seed in seeds:
            request = ProblemRequest(task.name, seed, {}, level, exact_seed=True)
            ours, own = library.generate(request), library.generate(replace(request, uncorrected=True))
            answers += ours.answer != own.answer
            questions += ours.question != own.question
        corrected = f"{answers / len(seeds):.2f}" if answers else ""
        clarified = f"{questions / len(seeds):.2f}" if questions else ""
    moved = ", ".join(f"`{name}` {value}" for name, value in task.served_params.items())
    return [rejected, corrected, clarified, moved, task.verifier_flaw]


if __name__ == "__main__":
    run_tool(main)
