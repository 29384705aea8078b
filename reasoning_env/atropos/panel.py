"""The panel of `serve` and `process` on a terminal: how far the run is, its figures, and a table of the tasks.

The table has as many tasks as fit, in several columns of tasks on a wide terminal. If not all fit, another page follows
every `TURN_S` seconds. The order is renewed with the page, so that rows do not jump while they are read. The order is a
setting, and no key changes it: keys can be read only from a terminal whose line editing and echo are off, and a run
that is killed would leave the user's shell without echo.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

from ..evaluations.scores import EvaluationScores
from ..metrics.recorder import TaskTotals, Trend
from ..runtime.terminal import PanelLine, Screen
from ..runtime.text import visible
from .config import PanelSort

TURN_S = 10.0
"""Seconds that a page and an order of the tasks stay."""
GAP = "  "
"""Between two columns."""
BLOCK_GAP = 4
"""Characters between two blocks, which stand side by side."""
WIDEST_NAME = 32
"""Characters of a task's name at most; the longest name of the library has 25."""
BARS = "▁▂▃▄▅▆▇█"
ASCII_BARS = "_.:-=+*#"


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
    - `tasks` are the totals by task, `total` the totals over all tasks.
    - `outage_s` is how long requests for completions have failed; 0 without an outage.
    - `evaluation` tells the progress of an evaluation that is under way; empty without one.
    - `scores` are the scores of the last evaluation.
    """

    run_progress: RunProgress | None
    progress: Mapping[str, object]
    tasks: Mapping[str, TaskTotals]
    total: TaskTotals
    outage_s: float = 0.0
    evaluation: str = ""
    scores: EvaluationScores | None = None


class Panel:
    """Makes the lines of the panel. `clock` gives monotonic seconds."""

    def __init__(self, name: str, sort: PanelSort, clock: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._sort = sort
        self._clock = clock
        self._began_s = clock()
        self._time_left = TimeLeft()
        self._turned_s = clock()
        self._order: list[str] = []
        self._first = 0
        """Position of the first task that is shown."""
        self._capacity = 0
        """Number of tasks that fitted when the panel was drawn last."""

    def draw(self, status: Status, screen: Screen) -> list[PanelLine]:
        """Return the lines for a screen; at most its rows, each at most as wide as the screen."""
        head = [*self._title(status, screen), *_figures(status, screen)]
        if status.outage_s >= 1.0:
            head.append(PanelLine(f"no completions arrive for {duration(status.outage_s)} now", alert=True))
        if status.evaluation:
            head.append(PanelLine(f"evaluation under way: {status.evaluation}"))
        if status.scores is not None:
            head += _evaluation_lines(status.scores, screen.columns, most=1 if screen.rows < 30 else 4)
        table = self._table(status.tasks, screen, rows=screen.rows - len(head) - 2)
        return [PanelLine(""), *head, *table][: screen.rows]

    def _title(self, status: Status, screen: Screen) -> list[PanelLine]:
        now_s = self._clock()
        words = [self._name if status.run_progress is None else f"{self._name}: {status.run_progress.text}"]
        words.append(f"{duration(now_s - self._began_s)} elapsed")
        if status.run_progress is not None:
            left_s = self._time_left.note(status.run_progress, now_s)
            if left_s is not None:
                words.append(f"about {rough_duration(left_s)} left")
        return [PanelLine(line.text, strong=True) for line in _wrap(words, screen.columns)]

    def _table(self, tasks: Mapping[str, TaskTotals], screen: Screen, rows: int) -> list[PanelLine]:
        """Return a blank line, headings and as many tasks as fit into `rows` lines; nothing without tasks or room."""
        shown = {name: totals for name, totals in tasks.items() if totals.groups}
        if not shown or rows < 4:
            return []
        columns = [column for column in PANEL_COLUMNS if any(column.cell(totals, screen) for totals in shown.values())]
        widest = max(cell_len(visible(name, WIDEST_NAME)) for name in shown)
        layout = _lay_out(columns, len(shown), widest, screen, rows - 2)
        all_fit = layout.capacity >= len(shown)
        if not all_fit:
            layout = _lay_out(columns, len(shown), widest, screen, rows - 3)
        self._turn(shown, layout.capacity)
        names = self._order[self._first : self._first + layout.capacity]
        lines = [PanelLine(""), *layout.lines([(name, shown[name]) for name in names], screen)]
        if not all_fit:
            which = f"tasks {self._first + 1} to {self._first + len(names)} of {len(shown)}"
            lines.append(PanelLine(f"{which}, {PANEL_ORDERS[self._sort]}; another page every {TURN_S:.0f} s"))
        return lines

    def _turn(self, tasks: Mapping[str, TaskTotals], capacity: int) -> None:
        """Go to the next page if the page has been shown for `TURN_S`, and sort the tasks of that page and the rest.

        Tasks of earlier pages keep their places until the first page follows. New tasks are put last until then.
        """
        known = set(self._order)
        self._order += [name for name in tasks if name not in known]
        now_s = self._clock()
        turns = now_s - self._turned_s >= TURN_S or not known
        if turns:
            self._turned_s = now_s
            self._first += self._capacity
        if self._first >= len(tasks) or capacity >= len(tasks):
            self._first = 0
        self._capacity = capacity
        if turns:
            rest = self._order[self._first :]
            rest.sort(key=lambda name: (_sort_value(tasks[name], self._sort), name))
            self._order[self._first :] = rest


class TimeLeft:
    """Estimates the seconds that are left, at the rate of this run so far."""

    def __init__(self) -> None:
        self._began: tuple[float, int] | None = None
        self._changed: tuple[float, int] | None = None
        """When `done` changed last, and its value then."""

    def note(self, run_progress: RunProgress, now_s: float) -> float | None:
        """Return the seconds that are left; None while nothing was done in this run.

        Between two changes of `done` the estimate counts down, for as long as one change takes on average.
        """
        if self._began is None or self._changed is None:
            self._began = self._changed = (now_s, run_progress.done)
        if run_progress.done != self._changed[1]:
            self._changed = (now_s, run_progress.done)
        began_s, done_before = self._began
        changed_s, done = self._changed
        if done <= done_before or run_progress.total <= done:
            return None
        seconds_each = (changed_s - began_s) / (done - done_before)
        return (run_progress.total - done) * seconds_each - min(now_s - changed_s, seconds_each)


def duration(seconds: float) -> str:
    """Return seconds as `35 s`, `12:34`, `3:02:10` or `2 d 3:02:10`."""
    whole = int(seconds)
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{minutes}:{rest:02}"
    clock = f"{hours}:{minutes:02}:{rest:02}"
    return f"{days} d {clock}" if days else clock


def rough_duration(seconds: float) -> str:
    """Return seconds as `40 s`, `12 min`, `3 h 2 min` or `2 d 3 h`: estimates are no better."""
    minutes = round(seconds / 60)
    if seconds < 60:
        return f"{max(10, round(seconds / 10) * 10)} s"
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes // (24 * 60)} d {minutes // 60 % 24} h"


# ------------------------------------------------------------------ figures


def _figures(status: Status, screen: Screen) -> list[PanelLine]:
    """Return the lines with rates and totals, with means, and with waiting groups; long lines are wrapped."""
    progress = status.progress
    words = [f"{progress['groups_per_s']} groups/s", f"{progress['tokens_per_s']} tokens/s"]
    words += [f"{_groups(progress)}", f"failed {progress['failed']}"]
    means = []
    if "mean_score" in progress:
        means.append(f"score {progress['mean_score']} {sparkline(status.total.trend.means(), screen.unicode)}".strip())
    if "recent_score" in progress:
        means.append(f"last minute {progress['recent_score']}")
    if "share_correct" in progress:
        means.append(f"right {progress['share_correct']}")
    if "level" in progress:
        means.append(f"level {progress['level']}")
    counts = [f"in flight {progress['in_flight']}", f"ready {progress['ready']}"]
    for name in ("waiting", "quarantined", "dump_dropped"):
        if progress.get(name):
            counts.append(f"{name.replace('_', ' ')} {progress[name]}")
    return [line for part in (words, means, counts) for line in _wrap(part, screen.columns)]


def _groups(progress: Mapping[str, object]) -> str:
    groups, with_signal = progress["groups"], progress["with_signal"]
    assert isinstance(groups, int) and isinstance(with_signal, int)
    share = f" ({with_signal / groups:.0%} with signal)" if groups else ""
    return f"groups {groups:,}{share}"


def _evaluation_lines(scores: EvaluationScores, columns: int, most: int) -> list[PanelLine]:
    """Return lines with the score and the scores by category; of more than `most` lines the first."""
    title = "evaluation" if scores.step is None else f"evaluation at step {scores.step}"
    words = [f"{title}: {scores.overall.describe()}"]
    if len(scores.categories) > 1:
        words += [f"{visible(name, WIDEST_NAME)} {score.describe()}" for name, score in scores.categories.items()]
    lines = _wrap(words, columns)
    if len(lines) > most:
        cut = set_cell_size(lines[most - 1].text, max(0, min(columns, cell_len(lines[most - 1].text) + 6) - 6))
        lines = [*lines[: most - 1], PanelLine(f"{cut.rstrip()}   ...")]
    return lines


def _wrap(words: Sequence[str], columns: int) -> list[PanelLine]:
    """Return lines of whole words, with blanks between them."""
    lines: list[str] = []
    for word in words:
        if lines and cell_len(lines[-1]) + 3 + cell_len(word) <= columns:
            lines[-1] += f"   {word}"
        else:
            lines.append(word)
    return [PanelLine(line) for line in lines]


def sparkline(means: Sequence[float], unicode: bool = True) -> str:
    """Return a character for each mean in [0, 1]; its height is the mean."""
    bars = BARS if unicode else ASCII_BARS
    return "".join(bars[min(int(mean * len(bars)), len(bars) - 1)] for mean in means)


# ------------------------------------------------------------------ the table of tasks


PANEL_ORDERS: Mapping[PanelSort, str] = {
    "score": "the lowest score first",
    "change": "the largest change first",
    "signal": "the least signal first",
    "groups": "the fewest groups first",
    "level": "the lowest level first",
    "task": "by name",
}


def _sort_value(totals: TaskTotals, sort: PanelSort) -> float:
    match sort:
        case "score":
            return totals.recent_score or 0.0
        case "change":
            return -abs((totals.recent_score or 0.0) - (totals.score.mean or 0.0))
        case "signal":
            return totals.recent_signal or 0.0
        case "groups":
            return totals.groups
        case "level":
            return -1.0 if totals.recent_level is None else totals.recent_level
        case "task":
            return 0.0


@dataclass(frozen=True)
class Column:
    """A column of figures; the columns with the highest `rank` are left out first where the terminal is narrow.

    `cell` returns the text of a task; empty for an unknown figure. A column without a known figure is not shown.
    """

    heading: str
    width: int
    rank: int
    cell: Callable[[TaskTotals, Screen], str]
    left: bool = False


def _number(value: float | None, digits: int = 3) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _trend(totals: TaskTotals, screen: Screen) -> str:
    return sparkline(totals.trend.means(), screen.unicode)


PANEL_COLUMNS: Sequence[Column] = (
    Column("GROUPS", 6, 0, lambda totals, screen: str(totals.groups)),
    Column("MEAN", 5, 3, lambda totals, screen: _number(totals.score.mean)),
    Column("LAST 20", 7, 0, lambda totals, screen: _number(totals.recent_score)),
    Column("TREND", Trend.SPANS, 1, _trend, left=True),
    Column("RIGHT", 5, 5, lambda totals, screen: _number(totals.recent_correct)),
    Column("SIGNAL", 6, 4, lambda totals, screen: _number(totals.recent_signal, 2)),
    Column("LEVEL", 5, 2, lambda totals, screen: _number(totals.recent_level, 2)),
    Column("TOKENS", 6, 6, lambda totals, screen: _number(totals.recent_tokens, 0)),
    Column("NO ANSWER", 9, 7, lambda totals, screen: _number(totals.recent_unanswered)),
)
"""The figures of a task; LAST 20 and all columns after TREND are means over its last 20 groups."""
ESSENTIAL = [column for column in PANEL_COLUMNS if column.rank <= 1]
"""The columns that each of several blocks must have room for."""


@dataclass(frozen=True)
class PanelLayout:
    """Blocks side by side, each with `rows` tasks under headings."""

    name_width: int
    columns: Sequence[Column]
    blocks: int
    rows: int

    @property
    def capacity(self) -> int:
        return self.blocks * self.rows

    def lines(self, tasks: Sequence[tuple[str, TaskTotals]], screen: Screen) -> list[PanelLine]:
        """Return the headings and the lines of the tasks, which go down the blocks."""
        cells = [self._block(visible(name, WIDEST_NAME), totals, screen) for name, totals in tasks]
        blocks = [cells[first : first + self.rows] for first in range(0, len(cells), self.rows)]
        heading = set_cell_size("TASK", self.name_width)
        for column in self.columns:
            heading += GAP + (column.heading.ljust if column.left else column.heading.rjust)(column.width)
        between = " " * BLOCK_GAP
        lines = [PanelLine(between.join([heading] * len(blocks)), strong=True)]
        for row in range(len(blocks[0])):
            lines.append(PanelLine(between.join(block[row] for block in blocks if row < len(block)).rstrip()))
        return lines

    def _block(self, name: str, totals: TaskTotals, screen: Screen) -> str:
        line = set_cell_size(name, self.name_width)
        for column in self.columns:
            cell = column.cell(totals, screen) or "-"
            line += GAP + (cell.ljust(column.width) if column.left else cell.rjust(column.width))
        return line


def _lay_out(columns: Sequence[Column], tasks: int, widest: int, screen: Screen, rows: int) -> PanelLayout:
    """Return the layout in which `tasks` fit into `rows` lines, or as many of them as there is room for.

    `widest` is the width of the widest name. Further blocks are made only where they are needed.
    """
    blocks = 1
    while blocks * rows < tasks and _room(screen, blocks + 1) >= widest + _width(ESSENTIAL):
        blocks += 1
    room = _room(screen, blocks)
    kept = list(columns)
    while len(kept) > 1 and widest + _width(kept) > room:
        kept.remove(max(kept, key=lambda column: column.rank))
    name_width = max(1, min(widest, room - _width(kept)))
    return PanelLayout(max(name_width, len("TASK")), kept, blocks, min(rows, -(-tasks // blocks)))


def _room(screen: Screen, blocks: int) -> int:
    """Return the width of each of some blocks, in characters."""
    return (screen.columns - BLOCK_GAP * (blocks - 1)) // blocks


def _width(columns: Sequence[Column]) -> int:
    return sum(len(GAP) + column.width for column in columns)
