"""Show a running demo: on a terminal a panel that is redrawn in place, otherwise plain lines."""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table

import reasoning_gym_testing as rig

from .rollouts import Rollouts

SCORES_SHOWN = 8
QUIET_S = 5.0
"""Without a terminal, print a line about the environment after this many seconds without output."""


class Display:
    """Output of the demo while it runs and at the end. The trainer takes `batches` batches."""

    def __init__(self, batches: int, trainer: rig.Trainer, rollouts: Rollouts) -> None:
        self._batches = batches
        self._trainer = trainer
        self._rollouts = rollouts
        self._start = time.monotonic()
        self._console = Console(file=sys.stdout, highlight=False, soft_wrap=not sys.stdout.isatty())
        self._on_terminal = sys.stdout.isatty() and not self._console.is_dumb_terminal
        self._batches_said = 0
        self._groups_said = 0
        self._said_at = 0.0

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._start

    def live(self) -> AbstractContextManager[Any]:
        """Return a context manager that shows the panel."""
        if not self._on_terminal:
            return nullcontext()
        return Live(console=self._console, get_renderable=self._panel)

    def print_line(self, text: str) -> None:
        """Print a line of text with the elapsed time."""
        self._said_at = self.elapsed_s
        self._console.print(f"[{self.elapsed_s:5.1f} s] {text}", markup=False)

    def update(self) -> None:
        """Print new batches and groups, unless the panel shows them."""
        batches = self._trainer.batches
        groups = self._rollouts.groups
        if self._on_terminal:
            return
        for number in range(self._batches_said, len(batches)):
            batch = batches[number]
            sequences = sum(len(group.scores) for group in batch)
            tokens = sum(group.tokens for group in batch)
            self.print_line(
                f"batch {number + 1}/{self._batches}: {sequences} sequences in {len(batch)} groups,"
                f" mean score {mean_score(batch):.2f}, {tokens} tokens; {self._counts()}"
            )
            self._batches_said = number + 1
            self._groups_said = groups
        if groups != self._groups_said and self.elapsed_s - self._said_at >= QUIET_S:
            self.print_line(self._counts())
            self._groups_said = groups

    def summary(self) -> str:
        """Return a summary of the run in one paragraph."""
        received = self._trainer.received
        rollouts = self._rollouts
        sequences = sum(len(group.scores) for group in received)
        return (
            f"The trainer received {len(self._trainer.batches)} valid batches with {sequences} sequences in total."
            f" The mean score is {mean_score(received):.2f}.\n"
            f"The environment scored {rollouts.groups} groups from {len(rollouts.tasks)} tasks, mean"
            f" {rollouts.mean_score:.2f}. It sent {rollouts.sent} groups. The other {rollouts.unsent} have equal scores"
            f" ({rollouts.all_right} all right, {rollouts.all_wrong} all wrong, {rollouts.all_equal} other).\n"
            f"It took {self.elapsed_s:.0f} s."
        )

    def _counts(self) -> str:
        rollouts = self._rollouts
        return (
            f"groups so far: {rollouts.groups} ({rollouts.sent} sent, {rollouts.all_right} all right,"
            f" {rollouts.all_wrong} all wrong), tasks seen: {len(rollouts.tasks)}"
        )

    def _panel(self) -> RenderableType:
        batches = list(self._trainer.batches)
        sequences = sum(len(group.scores) for batch in batches for group in batch)
        table = Table.grid(padding=(0, 2))
        table.add_row("trainer", f"{len(batches)} of {self._batches} batches, {sequences} sequences")
        scores = " ".join(f"{mean_score(batch):.2f}" for batch in batches[-SCORES_SHOWN:])
        table.add_row("", f"mean score of each batch: {scores}")
        table.add_row("environment", self._counts())
        bar = ProgressBar(total=self._batches, completed=len(batches))
        return Panel(Group(table, bar), title=f"reasoning-gym -> Atropos, {self.elapsed_s:.0f} s", title_align="left")


def mean_score(groups: list[rig.Delivery]) -> float:
    """Return the mean score of all rollouts of the groups; 0 without rollouts."""
    scores = [score for group in groups for score in group.scores]
    return sum(scores) / max(1, len(scores))
