"""Tables and progress bars: fitted to a terminal, and whole plain lines anywhere else."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

UNLIMITED = 1_000_000
"""Columns of an output that is no terminal: every row is one line, so that it can be searched."""


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Collection[str] = ()) -> None:
    """Print an aligned table; the columns whose heading is in `numbers` are set to the right.

    On a terminal that is too narrow, cells go on below themselves, but for those of the first column and numbers.
    """
    table = Table(box=None, pad_edge=False)
    for position, heading in enumerate(headings):
        number = heading in numbers
        table.add_column(
            heading, justify="right" if number else "left", no_wrap=number or position == 0, overflow="fold"
        )
    for row in rows:
        table.add_row(*row)
    terminal = sys.stdout.isatty()
    console = Console(
        force_terminal=terminal, width=None if terminal else UNLIMITED, markup=False, emoji=False, highlight=False
    )
    with console.capture() as captured:
        console.print(table)
    print("\n".join(line.rstrip() for line in captured.get().rstrip("\n").split("\n")))


@contextlib.contextmanager
def progress_bar(title: str, total: int, *, done: int = 0) -> Iterator[Callable[..., None]]:
    """Show a bar on stderr while that is a terminal, with rate and time left; `done` of the total are there already.

    Yields the function that advances it by one, and takes a note to show beside it. What is written to `sys.stderr`
    meanwhile appears above the bar.
    """
    console = Console(stderr=True, force_terminal=sys.stderr.isatty())
    columns = (
        *(TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), _Rate()),
        *(TimeRemainingColumn(), TextColumn("{task.fields[note]}", markup=False)),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task(title, total=total, completed=done, note="")

        def advance(note: str = "") -> None:
            progress.update(bar, advance=1, note=note)

        yield advance


class _Rate(ProgressColumn):
    """How many a second."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:.1f}/s" if task.speed else "")


class StderrHandler(logging.StreamHandler[TextIO]):
    """Writes log lines to what `sys.stderr` is at the time, so that a progress bar can keep below them."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:
        return sys.stderr

    @stream.setter
    def stream(self, stream: TextIO) -> None:
        """Leave it as it is."""
