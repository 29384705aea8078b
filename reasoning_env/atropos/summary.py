"""What a command says at its end, however it ended."""

from __future__ import annotations

from typing import Any

from ..dumps.chat import chat_path, write_chat
from ..evaluations.table import print_results
from ..metrics import MetricsRecorder, TaskTotals
from ..terminal import Table, print_json
from .config import RunMode
from .run import Run


def print_summary(run: Run, keep: str | None = None, *, as_json: bool = False) -> None:
    """Print a table of the tasks, worst first, and where the groups of `process` or the results of `evaluate` are.

    With `keep`, make chat data of the groups; `as_json` prints results as JSON in place of all else. Prints nothing for
    a run that has scored nothing.
    """
    if run.mode is RunMode.EVALUATE and run.results is not None:
        if as_json:
            print_json(run.results)
        else:
            print_results(run.results)
            print(f"\n{run.evaluation_end()}", flush=True)
        return
    if run.session.metrics.tasks:
        print_tasks(run.session.metrics)
    file = run.group_file
    if file is None or not file.lines:
        return
    if file.lines > run.session.metrics.total.groups:
        print("\nThe table is of this run alone.")
    print(f"\n{file.lines} groups are in {file.path}; look at them with the command `report {file.path}`")
    if keep is not None:
        print(f"{write_chat(file.path, keep)} conversations are in {chat_path(file.path, keep)}")


def print_tasks(metrics: MetricsRecorder) -> None:
    """Print a row for each task that groups were scored of, and one for all of them."""
    columns = {"TASK": "", "GROUPS": "d", "ROLLOUTS": "d", "MEAN SCORE": ".3f", "RIGHT": ".3f", "NO ANSWER": ".3f"}
    tasks = sorted(metrics.tasks.items(), key=lambda item: (item[1].score.mean or 0.0, item[0]))
    Table(columns, [_row(*item) for item in [*tasks, ("all", metrics.total)]]).print()


def _row(name: str, totals: TaskTotals) -> tuple[Any, ...]:
    means = (totals.score.mean, totals.correct.mean, totals.unanswered.mean)
    return name, totals.groups, totals.rollouts, *means
