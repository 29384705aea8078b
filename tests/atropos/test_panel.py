"""What the panel shows on terminals of several sizes."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from reasoning_env.atropos.panel import Panel, RunProgress, Status
from reasoning_env.metrics.recorder import MetricsRecorder
from reasoning_env.metrics.stats import StreamStats
from tests.records import make_group, make_rollout

RIGHT = make_rollout(1.0)
WRONG = make_rollout(0.0)
SCORES = (
    "evaluation at step 50: mean score 0.412 (95 %: 0.30 to 0.50)",
    f"evaluation at step 50, by category: {', '.join(f'category_{number} 0.500' for number in range(13))}",
)


def status_of(names: Sequence[str], level: float | None = None) -> Status:
    """A group of each task; the first tasks have the highest scores."""
    recorder = MetricsRecorder()
    for number, name in enumerate(names):
        rights = 4 - number * 4 // len(names)
        recorder.record_group(make_group([RIGHT] * rights + [WRONG] * (4 - rights), name, level=level))
    return Status(RunProgress(12, 200, "step 12 of 200"), recorder.progress(StreamStats()), recorder.tasks)


def drawn(status: Status, columns: int, rows: int, panel: Panel | None = None) -> list[str]:
    """The panel's lines; a terminal shows as many as it has rows."""
    console = Console(width=columns, height=rows, file=io.StringIO(), _environ={})
    panel = panel or Panel("serve")
    lines = console.render_lines(panel.draw(status, console.options), pad=False)
    return ["".join(segment.text for segment in line).rstrip() for line in lines]


def numbered(tasks: int) -> list[str]:
    return [f"a_task_with_a_usual_name_{number:03}" for number in range(tasks)]


def table_of(lines: Sequence[str]) -> list[list[str]]:
    heading = next(number for number, line in enumerate(lines) if line.startswith("TASK"))
    return [line.split() for line in lines[heading:]]


@pytest.mark.parametrize("columns", [200, 80, 40, 20, 1])
def test_lines_fit_screen(columns: int) -> None:
    status = replace(status_of(numbered(30), level=0.5), outage_s=35.0, evaluation="1 of 2", scores=SCORES)
    assert max(map(cell_len, drawn(status, columns, 20))) <= columns


def test_narrow_terminal_shows_first_columns() -> None:
    headings = {columns: table_of(drawn(status_of(["gcd"], level=0.5), columns, 20))[0] for columns in (80, 44, 4)}
    assert " ".join(headings[80]) == "TASK GROUPS LAST 20 MEAN LEVEL SIGNAL RIGHT TOKENS NO ANSWER"
    assert " ".join(headings[44]) == "TASK GROUPS LAST 20 MEAN LEVEL SIGNAL"
    assert headings[4] == ["TASK"]


def test_more_tasks_than_rows() -> None:
    lines = drawn(status_of(numbered(30)), 80, 20)
    assert [line for line in lines if "30 tasks, the lowest score first" in line]
    assert [row[0] for row in table_of(lines)[1:4]] == numbered(30)[23:26]


def test_panel_shows_outage() -> None:
    assert "no completions arrive for 0:01:15 now" in drawn(replace(status_of(["gcd"]), outage_s=75.0), 80, 20)


def test_panel_shows_evaluation() -> None:
    status = replace(status_of(["gcd"]), evaluation="3 of 9 problems, mean score 0.500", scores=SCORES)
    lines = drawn(status, 100, 20)
    assert "evaluation under way: 3 of 9 problems, mean score 0.500" in lines
    assert SCORES[0] in lines
    assert "category_12 0.500" not in " ".join(lines)
    assert "category_12 0.500" in " ".join(drawn(status, 100, 46))


def test_names_are_escaped() -> None:
    lines = drawn(status_of(["a\x1b[2J\n", "[b]字字"]), 80, 20)
    assert lines[-1].startswith(r"a\x1b[2J\n  ")
    assert lines[-2].startswith("[b]字字     "), "a wide character takes two columns"


def test_unknown_figures_have_no_column() -> None:
    assert "LEVEL" not in table_of(drawn(status_of(["gcd"]), 80, 20))[0]
    assert "LEVEL" in table_of(drawn(status_of(["gcd"], level=0.5), 80, 20))[0]


def test_before_first_group() -> None:
    recorder = MetricsRecorder()
    lines = drawn(Status(None, recorder.progress(StreamStats()), recorder.tasks), 80, 20)
    assert lines[1].startswith("serve ")
    assert lines[2:] == ["0.00 groups/s   0 tokens/s   groups 0   failed 0", "in flight 0   ready 0"]


def test_time_left() -> None:
    now = [0.0]
    panel = Panel("serve", lambda: now[0])
    shown = []
    for done in (100, 105, 110):
        status = replace(status_of(["gcd"]), run_progress=RunProgress(done, 200, f"step {done} of 200"))
        shown.append(drawn(status, 80, 20, panel=panel)[1])
        now[0] += 10.0
    assert shown[0].startswith("serve: step 100 of 200 ")
    assert shown[0].endswith("0:00:00 elapsed -:--:-- left")
    assert shown[2].endswith("0:00:20 elapsed 0:03:00 left")
