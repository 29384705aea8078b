"""Report on a run: metrics for wandb and Prometheus, and progress in the log."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ..metrics.metric import Kind, Metric, Reading, for_wandb, read
from ..metrics.outcomes import Sums
from ..metrics.progress import ProgressReader, progress_line
from ..metrics.recorder import MetricsRecorder
from ..metrics.stats import DELIVERY, DUMPS, DeliveryStats
from ..runtime.terminal import PROGRESS_INTERVAL_S, Table

if TYPE_CHECKING:
    from .run import Run

logger = logging.getLogger(__name__)


class RunReport:
    """Reads a run's metrics for the log, wandb and Prometheus."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._progress = ProgressReader(run.session.metrics)

    def serve_metrics(self) -> contextlib.AbstractAsyncContextManager[None]:
        """Return a context manager that serves `/metrics` if a port is set. Raises ConfigError for a port in use."""
        address = self._run.config.metrics_address
        if address is None:
            return contextlib.nullcontext()
        from .prometheus import MetricsServer  # import Prometheus' package only if it is used

        session = self._run.session
        metrics = MetricsServer(
            lambda: self._readings(session.metrics.by_task), lambda: session.library if session.has_started else None
        )
        self._run.time_step = metrics.time
        return metrics.serve(address)

    def interval(self) -> dict[str, float]:
        """Return the metrics since the last report; {} before the session has started."""
        session = self._run.session
        return for_wandb(self._readings(session.metrics.take_interval())) if session.has_started else {}

    def _readings(self, groups: Mapping[str, Sums]) -> Iterator[Reading]:
        """Yield the values of all metrics. `groups` maps each task to the totals of its groups (see `Sums`)."""
        yield from self._run.session.readings(groups)
        yield from read(RUN, self._run)
        if self.delivery is not None:
            yield from read(DELIVERY, self.delivery)
        if self._run.dumper is not None:
            yield from read(DUMPS, self._run.dumper.stats())

    def progress_line(self) -> str:
        """Return the progress of the run as a log line."""
        return progress_line(self.progress())

    def progress(self) -> dict[str, object]:
        """Return the numbers of the progress line, each by its name."""
        dumps = None if self._run.dumper is None else self._run.dumper.stats()
        return self._progress.read(self._run.session.stats, dumps, self.delivery, step=self._run.step())

    @property
    def delivery(self) -> DeliveryStats | None:
        """Counts of delivered and waiting groups; None if there is no trainer."""
        return self._run.queue.stats if self._run.mode.has_trainer else None

    async def log_progress(self) -> None:
        """Log the progress every PROGRESS_INTERVAL_S. Without progress, log how long no group was scored or dropped.

        While all inference requests fail, log nothing, because the inference code logs the failure.
        """
        last: object = None
        moved_at = time.monotonic()
        while True:
            await asyncio.sleep(PROGRESS_INTERVAL_S)
            progress = self.progress()
            moved = (progress["groups"], progress["failed"], progress.get("step"))
            if moved != last:
                logger.info("%s", progress_line(progress))
                last, moved_at = moved, time.monotonic()
            elif not self._run.inference.outage_s:
                lasted_s, in_flight = time.monotonic() - moved_at, self._run.session.in_flight
                logger.info("no group scored or dropped for %.0f s; groups in flight: %d", lasted_s, in_flight)


RUN: Sequence[Metric[Run]] = (
    Metric("trainer/step", Kind.NOW, "the trainer's step; missing until the trainer registers", lambda run: run.step()),
    Metric(
        "inference/outage_s",
        Kind.NOW,
        "seconds for which all inference requests have failed; 0 after a success",
        lambda run: run.inference.outage_s,
    ),
    Metric(
        "inference/ended/WORD",
        Kind.COUNT,
        "groups dropped because of an aborted completion, per `finish_reason`; `other`: all reasons after the first 32",
        lambda run: run.inference.ended,
    ),
)


def print_summary(metrics: MetricsRecorder) -> None:
    """Print a row for each task with scored groups, the lowest score first, and a row for all tasks."""
    by_task, levels = metrics.by_task, metrics.last_level
    if not by_task:
        return
    columns = {"TASK": "", "GROUPS": "d", "ROLLOUTS": "d", "MEAN SCORE": ".3f", "RIGHT": ".3f", "NO ANSWER": ".3f"}
    if any(level is not None for level in levels.values()):
        columns["LAST LEVEL"] = ".2f"
    tasks = sorted(by_task.items(), key=lambda item: (item[1].score.mean or 0.0, item[0]))
    rows = [_summary_row(name, sums, levels[name]) for name, sums in tasks]
    rows.append(_summary_row("all", metrics.total, None))
    Table(columns, [row[: len(columns)] for row in rows]).print()


def _summary_row(name: str, sums: Sums, level: float | None) -> Sequence[object]:
    means = (sums.score.mean, sums.correct.mean, sums.unanswered.mean)
    return name, sums.groups.total(), sums.score.count, *means, level
