"""Shows a running demo: a panel that is redrawn in place on a terminal, plain lines anywhere else."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table

from .progress import Progress
from .toy_trainer import BatchRecord

REFRESHES_PER_S = 4
SCORES_SHOWN = 8
QUIET_S = 5.0
"""Without a terminal, a line about the environment is printed when there was none for so long."""


class Display:
    """What the user sees while the demo runs. A context manager; `batches` is how many are to come."""

    def __init__(self, batches: int) -> None:
        self._batches = batches
        self._records: list[BatchRecord] = []
        self._progress = Progress()
        self._start = time.monotonic()
        self._console = Console(file=sys.stdout, highlight=False, soft_wrap=not sys.stdout.isatty())
        self._last_line_s = 0.0
        self._live: Live | None = None
        if sys.stdout.isatty() and not self._console.is_dumb_terminal:
            self._live = Live(console=self._console, get_renderable=self._panel, refresh_per_second=REFRESHES_PER_S)

    def __enter__(self) -> Display:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the display was made."""
        return time.monotonic() - self._start

    def say(self, text: str) -> None:
        """Print a line of text, with the time that has passed."""
        self._last_line_s = self.elapsed_s
        self._console.print(f"[{self.elapsed_s:5.1f} s] {text}", markup=False)

    def show_progress(self, progress: Progress) -> None:
        """Take over what the environment says about itself."""
        news = progress.groups != self._progress.groups
        self._progress = progress
        if news and not self._live and self.elapsed_s - self._last_line_s >= QUIET_S:
            self.say(self._counts())

    def show_batch(self, record: BatchRecord) -> None:
        """Take over a batch that the trainer received and found sound."""
        self._records.append(record)
        if not self._live:
            self.say(
                f"batch {record.number}/{self._batches}: {record.sequences} sequences in {record.groups} groups,"
                f" mean score {record.mean_score:.2f}, {record.tokens} tokens; {self._counts()}"
            )

    def summary(self) -> str:
        """Return what came of the run, in one paragraph."""
        counts = self._progress
        sequences = sum(record.sequences for record in self._records)
        mean_score = sum(record.mean_score * record.sequences for record in self._records) / max(1, sequences)
        return (
            f"{len(self._records)} batches with {sequences} sequences reached the trainer, and every one passed its"
            f" checks; their mean score is {mean_score:.2f}.\n"
            f"{counts.groups} groups from {counts.tasks} tasks were scored, mean {counts.mean_score:.2f}:"
            f" {counts.kept} kept, {counts.dropped} dropped because all their rollouts did equally well"
            f" ({counts.all_right} all right, {counts.all_wrong} all wrong, {counts.all_equal} in between),"
            f" {counts.failed} failed.\n"
            f"It took {self.elapsed_s:.0f} s."
        )

    def _counts(self) -> str:
        counts = self._progress
        return (
            f"groups so far: {counts.groups} ({counts.kept} kept, {counts.all_right} all right, {counts.all_wrong} all"
            f" wrong), tasks seen: {counts.tasks}"
        )

    def _panel(self) -> RenderableType:
        sequences = sum(record.sequences for record in self._records)
        scores = " ".join(f"{record.mean_score:.2f}" for record in self._records[-SCORES_SHOWN:])
        table = Table.grid(padding=(0, 2))
        table.add_row("trainer", f"{len(self._records)} of {self._batches} batches, {sequences} sequences")
        table.add_row("", f"mean score of each batch: {scores}")
        table.add_row("environment", self._counts())
        bar = ProgressBar(total=self._batches, completed=len(self._records))
        return Panel(Group(table, bar), title=f"reasoning-gym -> Atropos, {self.elapsed_s:.0f} s", title_align="left")
