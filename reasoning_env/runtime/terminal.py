"""Tables and progress bars. On a terminal, they fit its width; in files and pipes, each row is one plain line."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import re
import shutil
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
)
from rich.table import Table as RichTable
from rich.text import Text

from .text import printable

logger = logging.getLogger(__name__)

PROGRESS_INTERVAL_S = 30.0
"""Seconds between progress lines, which replace a progress bar if the output is not a terminal."""
UNLIMITED = 1_000_000
"""Width of an output that is not a terminal, so that each row is one line and `grep` finds whole rows."""


@dataclass(frozen=True)
class Table:
    """Rows of values under headings, to print for people or to return as records for programs.

    `columns` maps each heading to a format specification (`d`, `.2f`, `.0%`; empty for text). The value None is shown
    as a dash.
    """

    columns: Mapping[str, str]
    rows: Sequence[Sequence[object]]

    def print(self) -> None:
        """Print the table, with columns of numbers aligned to the right."""
        print_table(list(self.columns), self._cells(), numbers={name for name, spec in self.columns.items() if spec})

    def _cells(self) -> list[list[str]]:
        specs = list(self.columns.values())
        return [
            ["-" if value is None else format(value, spec) for value, spec in zip(row, specs, strict=True)]
            for row in self.rows
        ]

    def _keys(self) -> list[str]:
        return ["_".join(re.findall(r"[a-z0-9.]+", heading.lower())) for heading in self.columns]

    def records(self) -> list[dict[str, object]]:
        """Return each row as a mapping. The keys are the headings in lower case, with underscores between words."""
        return [dict(zip(self._keys(), row, strict=True)) for row in self.rows]


def print_json(document: Mapping[str, object] | Sequence[object]) -> None:
    """Print a document as strict JSON, for `--json`."""
    print(json.dumps(document, indent=1, allow_nan=False))


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Collection[str] = ()) -> None:
    """Print an aligned table. Columns in `numbers` are aligned to the right.

    On a narrow terminal, cells are wrapped, except in the first column and in columns of numbers.
    """
    table = RichTable(box=None, pad_edge=False)
    for position, heading in enumerate(headings):
        number = heading in numbers
        table.add_column(
            heading, justify="right" if number else "left", no_wrap=number or position == 0, overflow="fold"
        )
    for row in rows:
        table.add_row(*map(printable, row))
    terminal = sys.stdout.isatty()
    console = Console(
        force_terminal=terminal, width=None if terminal else UNLIMITED, markup=False, emoji=False, highlight=False
    )
    with console.capture() as captured:
        console.print(table)
    # Rich fills each row with spaces up to the width of the table.
    print("\n".join(line.rstrip() for line in captured.get().rstrip("\n").split("\n")))


def width() -> int:
    """Return the maximum width of a table on this output, in characters."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else UNLIMITED


@contextlib.contextmanager
def progress_bar(
    title: str, total: int | None, *, done: int = 0, interval_s: float = PROGRESS_INTERVAL_S
) -> Iterator[Callable[..., None]]:
    """Show a bar on stderr, with rate and remaining time. Without a terminal, show the lines of `progress_lines`.

    `done` items are already done. `total` is None if the number of items is unknown. Yields a function that advances
    the bar by one item and shows the function's argument, a note, beside the bar.
    """
    console = Console(stderr=True, force_terminal=sys.stderr.isatty())
    if not console.is_terminal:
        with progress_lines(title, total, done=done, interval_s=interval_s) as advance:
            yield advance
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        _TimeLeft(),
        TextColumn("{task.fields[note]}", markup=False),
    )
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task(title, total=total, completed=done, before=done, note="")

        def advance_bar(note: str = "") -> None:
            progress.update(bar, advance=1, note=note)

        yield advance_bar


@contextlib.contextmanager
def progress_lines(
    title: str, total: int | None, *, done: int = 0, interval_s: float = PROGRESS_INTERVAL_S
) -> Iterator[Callable[..., None]]:
    """Write a line of progress every `interval_s` seconds, even while the caller blocks its own thread.

    The lines go to the log, or to stderr if logging is not configured. The arguments are those of `progress_bar`.
    """
    note = ""
    ended = threading.Event()

    def advance(new_note: str = "") -> None:
        nonlocal done, note
        done, note = done + 1, new_note

    def write() -> None:
        while not ended.wait(interval_s):
            line = ", ".join(filter(None, [f"{title}: {done:,}" + ("" if total is None else f" of {total:,}"), note]))
            if logging.getLogger().handlers:
                logger.info("%s", line)
            else:
                print(line, file=sys.stderr, flush=True)

    thread = threading.Thread(target=write, name=f"progress of {title}", daemon=True)
    thread.start()
    try:
        yield advance
    finally:
        ended.set()
        thread.join()


class _Rate(ProgressColumn):
    """Items per second since the bar was shown.

    Rich's own rate counts from the first finished item. That rate is far too high if many items finish together.
    """

    def render(self, task: Task) -> Text:
        rate = _items_per_s(task)
        return Text(f"{rate:.1f}/s" if rate else "")


class _TimeLeft(ProgressColumn):
    """The time for the remaining items at the average rate so far."""

    def render(self, task: Task) -> Text:
        rate = _items_per_s(task)
        if not rate or task.remaining is None:
            return Text("-:--:--")
        return Text(str(timedelta(seconds=math.ceil(task.remaining / rate))))


def _items_per_s(task: Task) -> float:
    return (task.completed - task.fields["before"]) / task.elapsed if task.elapsed else 0.0


class StderrHandler(logging.StreamHandler[TextIO]):
    """Writes log lines to the current `sys.stderr`: a progress bar sets `sys.stderr` to another object.

    Control characters are escaped, because errors of servers and libraries may quote hostile text.
    """

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    def format(self, record: logging.LogRecord) -> str:
        return "\n".join(printable(line) for line in super().format(record).split("\n"))

    @property
    def stream(self) -> TextIO:
        return sys.stderr

    @stream.setter
    def stream(self, stream: TextIO) -> None:
        """Ignore an assigned stream, because log lines always go to the current `sys.stderr`."""
