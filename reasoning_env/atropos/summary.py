"""What `serve` and `process` show on a terminal while they run, and what commands say at their end."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..dumps.chat import chat_path, write_chat
from ..evaluations.table import print_results
from ..metrics.recorder import MetricsRecorder, TaskTotals
from ..runtime.terminal import Table, print_json
from .config import RunMode

if TYPE_CHECKING:
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


# ---------------------------------------------------------------------------- while it runs


def shows_panel() -> bool:
    """Tell whether stderr is a terminal on which log lines of the level INFO are shown."""
    handlers = logging.getLogger().handlers
    return sys.stderr.isatty() and any(handler.level <= logging.INFO for handler in handlers)


def panel_lines(run: Run) -> list[str]:
    """Return how far a run has come: rates of the last minute, totals, and the tasks with the lowest scores."""
    progress, tasks = run.progress(), run.session.metrics.tasks

    def figures(*names: str) -> str:
        values = {name: progress[name] for name in names if name in progress}
        shown = {name: "-" if value == "nan" else value for name, value in values.items()}
        return "   ".join(f"{name.replace('_', ' ')} {value}" for name, value in shown.items())

    lines = [
        "",
        f"{run.mode.value}: {_how_far(run)}{progress['groups_per_s']} groups/s   {progress['tokens_per_s']} tokens/s",
        f"{figures('groups', 'with_signal')}{_share_with_signal(progress)}   {figures('failed', 'step')}",
        figures("mean_score", "recent_score", "share_correct", "level"),
        figures("in_flight", "ready", "waiting", "quarantined", "dump_dropped"),
    ]
    scored = sorted((totals.score.mean, name) for name, totals in tasks.items() if totals.score.mean is not None)
    if scored:
        lines += ["", f"{f'worst of {len(scored)} tasks':30}  groups  score  right  level"]
    for score, name in scored[:5]:
        totals = tasks[name]
        level = "-" if totals.last_level is None else f"{totals.last_level:.2f}"
        lines.append(f"{name:30}  {totals.groups:6}  {score:.3f}  {totals.correct.mean or 0.0:.3f}  {level:>5}")
    return lines


def _how_far(run: Run) -> str:
    if not run.wanted_groups or run.group_file is None:
        return ""
    return f"{run.group_file.lines:,} of {run.wanted_groups:,} groups   "


def _share_with_signal(progress: Mapping[str, object]) -> str:
    groups, with_signal = progress["groups"], progress["with_signal"]
    if not isinstance(groups, int) or not isinstance(with_signal, int) or groups == 0:
        return ""
    return f" ({with_signal / groups:.0%})"
