"""The panel of `serve` and `process` on a terminal: how far the run is, its figures, and a table of the tasks.

No key changes the order of the tasks: keys can be read only from a terminal whose line editing and echo are off, and a
run that is killed would leave the user's shell without echo.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from rich.cells import cell_len
from rich.console import ConsoleOptions, Group, RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from ..metrics.recorder import TaskTotals
from ..runtime.text import counted, visible


@dataclass(frozen=True)
class RunProgress:
    """Progress of a run: `done` of `total`; `text` says the same in words."""

    done: int
    total: int
    text: str


@dataclass(frozen=True)
class Status:
    """What the panel shows.

    - `progress` is the result of `MetricsRecorder.progress`.
    - `tasks` are the totals by task.
    - `outage_s` is how long requests for completions have failed; 0 without an outage.
    - `evaluation` tells the progress of an evaluation that is under way; empty without one.
    - `scores` are lines with the scores of the last evaluation.
    - `remarks` are sentences on what the latest completions say about the set-up.
    """

    run_progress: RunProgress | None
    progress: Mapping[str, object]
    tasks: Mapping[str, TaskTotals]
    outage_s: float = 0.0
    evaluation: str = ""
    scores: Sequence[str] = ()
    remarks: Sequence[str] = ()


class Panel:
    """Makes what a terminal shows of a run. `clock` gives monotonic seconds."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._bar = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            TextColumn("elapsed"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[left]}"),
            speed_estimate_period=math.inf,  # all of this run
            get_time=clock,
        )
        self._run = self._bar.add_task(name, total=None, left="")

    def draw(self, status: Status, options: ConsoleOptions) -> RenderableType:
        """Return the panel, whose last lines are the table of the tasks."""
        if status.run_progress is not None:
            done, total, text = status.run_progress.done, status.run_progress.total, status.run_progress.text
            self._bar.update(self._run, description=f"{self._name}: {text}", completed=done, total=total, left="left")
        parts: list[RenderableType] = [Text(), self._bar, *_figures(status)]
        if status.outage_s >= 1.0:
            seconds = timedelta(seconds=int(status.outage_s))
            parts.append(Text(f"no completions arrive for {seconds} now", style="bold red"))
        parts += [Text(remark, style="yellow") for remark in status.remarks]
        if status.evaluation:
            parts.append(Text(f"evaluation under way: {status.evaluation}"))
        most = 1 if options.max_height < 30 else 2  # the scores by category take lines from the tasks
        parts += [Text(visible(line)) for line in status.scores[:most]]
        shown = {name: totals for name, totals in status.tasks.items() if totals.sums.groups}
        if shown:
            parts += [Text(), _table(shown, options)]
        return Group(*parts)


def _figures(status: Status) -> Sequence[Text]:
    """Return the lines with rates and totals, with means, and with waiting groups."""
    progress = status.progress
    groups, with_signal = progress["groups"], progress["with_signal"]
    assert isinstance(groups, int) and isinstance(with_signal, int)
    share = f" ({with_signal / groups:.0%} with signal)" if groups else ""
    rates = [f"{progress['groups_per_s']} groups/s", f"{progress['tokens_per_s']} tokens/s"]
    rates += [f"groups {groups:,}{share}", f"failed {progress['failed']}"]
    means = {
        "score": progress.get("mean_score"),
        "last minute": progress.get("recent_score"),
        "right": progress.get("share_correct"),
        "level": progress.get("level"),
    }
    waiting = [f"in flight {progress['in_flight']}", f"ready {progress['ready']}"]
    for name in ("waiting", "quarantined", "dump_dropped"):
        if progress.get(name):
            waiting.append(f"{name.replace('_', ' ')} {progress[name]}")
    lines = [rates, [f"{name} {mean}" for name, mean in means.items() if mean], waiting]
    return [Text("   ".join(words)) for words in lines if words]


# ------------------------------------------------------------------ the table of tasks


def _number(value: float | None, digits: int = 3) -> str:
    return "" if value is None else f"{value:.{digits}f}"


PANEL_COLUMNS: Mapping[str, Callable[[TaskTotals], str]] = {
    "GROUPS": lambda totals: str(totals.sums.groups.total()),
    "LAST 20": lambda totals: _number(totals.recent(lambda sums: sums.score)),
    "MEAN": lambda totals: _number(totals.sums.score.mean),
    "LEVEL": lambda totals: _number(totals.recent(lambda sums: sums.level), 2),
    "SIGNAL": lambda totals: _number(totals.recent_signal, 2),
    "RIGHT": lambda totals: _number(totals.recent(lambda sums: sums.correct)),
    "TOKENS": lambda totals: _number(totals.recent(lambda sums: sums.completion_tokens), 0),
    "NO ANSWER": lambda totals: _number(totals.recent(lambda sums: sums.unanswered)),
}
"""The figures of a task, the most important first; all but GROUPS and MEAN are means over its last 20 groups.

A figure is empty where it is unknown.
"""


def _table(tasks: Mapping[str, TaskTotals], options: ConsoleOptions) -> Table:
    """Return a row for each task that may fit, with the first columns that fit and of which a figure is known."""
    names = sorted(tasks, key=lambda name: (tasks[name].recent(lambda sums: sums.score) or 0.0, name))[
        : options.max_height
    ]
    columns = {"TASK": [visible(name, 32) for name in names]}  # the library's longest name has 25 characters
    columns |= {heading: [figure(tasks[name]) for name in names] for heading, figure in PANEL_COLUMNS.items()}
    table = Table(
        box=None, pad_edge=False, title=f"{counted(len(tasks), 'task')}, the lowest score first", title_justify="left"
    )
    room = options.max_width + 2
    shown = []
    for heading, cells in columns.items():
        if not any(cells):
            continue
        room -= 2 + max(map(cell_len, [heading, *cells]))
        if room >= 0 or heading == "TASK":
            table.add_column(heading, justify="left" if heading == "TASK" else "right", no_wrap=True)
            shown.append(Text("\n".join(cell or "-" for cell in cells)))
    table.add_row(*shown)  # Rich takes four times as long for a cell of each task
    return table
