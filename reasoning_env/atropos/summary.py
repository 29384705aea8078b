"""The panel of `serve` and `process` on a terminal, and the table of tasks at the end of a command."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ..evaluations.scores import EvaluationScores
from ..metrics.recorder import MetricsRecorder, TaskTotals
from ..runtime.terminal import Table


def print_tasks(metrics: MetricsRecorder) -> None:
    """Print a row for each task with scored groups, the lowest score first, and a row for all tasks."""
    columns = {"TASK": "", "GROUPS": "d", "ROLLOUTS": "d", "MEAN SCORE": ".3f", "RIGHT": ".3f", "NO ANSWER": ".3f"}
    if any(totals.last_level is not None for totals in metrics.tasks.values()):
        columns["LAST LEVEL"] = ".2f"
    tasks = sorted(metrics.tasks.items(), key=lambda item: (item[1].score.mean or 0.0, item[0]))
    rows = [_row(name, totals, totals.last_level) for name, totals in tasks]
    rows.append(_row("all", metrics.total, None))
    Table(columns, [row[: len(columns)] for row in rows]).print()


def _row(name: str, totals: TaskTotals, level: float | None) -> tuple[Any, ...]:
    means = (totals.score.mean, totals.correct.mean, totals.unanswered.mean)
    return name, totals.groups, totals.rollouts, *means, level


def print_evaluations(scores: Sequence[EvaluationScores]) -> None:
    """Print a row for each of the last ten evaluations: step, score, interval, change since the evaluation before."""
    columns = {"EVALUATED AT STEP": "d", "MEAN SCORE": ".3f", "95 %": "", "CHANGE": "+.3f"}
    rows = []
    for one in scores[-10:]:
        low, high = one.interval
        rows.append((one.step, one.overall.score, f"{low:.2f}-{high:.2f}", one.overall.change))
    Table(columns, rows).print()


# ---------------------------------------------------------------------------- while it runs


def shows_panel() -> bool:
    """Tell whether stderr is a terminal on which log lines of the level INFO are shown."""
    handlers = logging.getLogger().handlers
    return sys.stderr.isatty() and any(handler.level <= logging.INFO for handler in handlers)


def panel_lines(title: str, progress: Mapping[str, object], tasks: Mapping[str, TaskTotals]) -> list[str]:
    """Return the lines of the panel: rates of the last minute, totals, and the tasks with the lowest scores.

    Args:
        title: Begins the first line: the mode, and how far it has come.
        progress: What `MetricsRecorder.progress` returns.
        tasks: Totals by task.
    """

    def figures(*names: str) -> str:
        values = {name: progress[name] for name in names if name in progress}
        shown = {name: "-" if value == "nan" else value for name, value in values.items()}
        return "   ".join(f"{name.replace('_', ' ')} {value}" for name, value in shown.items())

    lines = [
        "",
        f"{title}{progress['groups_per_s']} groups/s   {progress['tokens_per_s']} tokens/s",
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


def _share_with_signal(progress: Mapping[str, object]) -> str:
    groups, with_signal = progress["groups"], progress["with_signal"]
    if not isinstance(groups, int) or not isinstance(with_signal, int) or groups == 0:
        return ""
    return f" ({with_signal / groups:.0%})"
