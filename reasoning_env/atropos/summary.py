"""The tables of tasks and evaluations at the end of a command."""

from __future__ import annotations

from collections.abc import Sequence
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
