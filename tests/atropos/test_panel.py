"""The panel's lines for terminals of several sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from rich.cells import cell_len

from reasoning_env.atropos.panel import (
    TURN_S,
    Panel,
    RunProgress,
    Status,
    TimeLeft,
    duration,
    rough_duration,
    sparkline,
)
from reasoning_env.evaluations.scores import EvaluationScores, Score
from reasoning_env.metrics.recorder import MetricsRecorder
from reasoning_env.runtime.terminal import Screen
from tests.records import make_group, make_rollout

RIGHT = make_rollout(1.0)
WRONG = make_rollout(0.0)
SCORES = EvaluationScores(
    step=50,
    since_step=40,
    overall=Score(0.412, 0.031),
    interval=(0.3, 0.5),
    categories={f"category_{number}": Score(0.5, 0.125) for number in range(13)},
)


def status_of(names: Sequence[str], level: float | None = None) -> Status:
    """A group of each task; the first tasks have the highest scores."""
    recorder = MetricsRecorder()
    for number, name in enumerate(names):
        rights = 4 - number * 4 // len(names)
        recorder.record_group(make_group([RIGHT] * rights + [WRONG] * (4 - rights), name, level=level))
    return Status(RunProgress(12, 200, "step 12 of 200"), recorder.progress(None), recorder.tasks, recorder.total)


def drawn(status: Status, columns: int, rows: int, sort: str = "score") -> list[str]:
    return [line.text for line in Panel("serve", sort).draw(status, Screen(columns, rows))]  # type: ignore[arg-type]


def numbered(tasks: int) -> list[str]:
    return [f"a_task_with_a_usual_name_{number:03}" for number in range(tasks)]


@pytest.mark.parametrize("tasks", [1, 30, 105])
@pytest.mark.parametrize(("columns", "rows"), [(80, 20), (200, 46), (40, 12), (20, 5), (1, 1)])
def test_lines_fit_screen(tasks: int, columns: int, rows: int) -> None:
    status = replace(status_of(numbered(tasks), level=0.5), outage_s=35.0, evaluation="1 of 2", scores=SCORES)
    lines = drawn(status, columns, rows)
    assert len(lines) <= rows
    if columns >= 80:
        assert max(map(cell_len, lines)) <= columns


def test_wide_terminal_shows_all_tasks() -> None:
    names = numbered(105)
    text = "\n".join(drawn(status_of(names), 200, 46))
    assert [name for name in names if name not in text] == []


def test_pages_show_every_task() -> None:
    now = [0.0]
    panel = Panel("serve", "score", lambda: now[0])
    names = numbered(30)
    status = status_of(names)
    seen = ""
    for _ in range(3):
        page = "\n".join(line.text for line in panel.draw(status, Screen(80, 20)))
        assert page == "\n".join(line.text for line in panel.draw(status, Screen(80, 20)))
        seen += page
        now[0] += TURN_S
    assert [name for name in names if name not in seen] == []
    assert "tasks 1 to 11 of 30, the lowest score first" in seen
    assert "tasks 23 to 30 of 30" in seen


@pytest.mark.parametrize(
    ("sort", "first"),
    [("score", "c"), ("task", "a"), ("groups", "b"), ("signal", "b"), ("level", "b"), ("change", "a")],
)
def test_orders(sort: str, first: str) -> None:
    recorder = MetricsRecorder()
    for _ in range(21):
        recorder.record_group(make_group([RIGHT, WRONG], "a", level=0.5))
        recorder.record_group(make_group([WRONG, WRONG, WRONG, RIGHT], "c", level=0.75))
    for _ in range(10):
        recorder.record_group(make_group([RIGHT, RIGHT], "a", level=0.5))
    recorder.record_group(make_group([RIGHT, RIGHT], "b", level=0.25))
    status = Status(None, recorder.progress(None), recorder.tasks, recorder.total)
    lines = drawn(status, 100, 20, sort)
    heading = next(number for number, line in enumerate(lines) if line.startswith("TASK"))
    assert lines[heading + 1].split()[0] == first


def test_rows_keep_places_within_turn() -> None:
    now = [0.0]
    panel = Panel("serve", "score", lambda: now[0])
    recorder = MetricsRecorder()
    first_tasks = []
    for task, score in (("a", WRONG), ("b", RIGHT), ("a", RIGHT), ("a", RIGHT), ("b", WRONG), ("b", WRONG)):
        recorder.record_group(make_group([score, score], task))
        lines = panel.draw(Status(None, recorder.progress(None), recorder.tasks, recorder.total), Screen(80, 20))
        first_tasks.append(lines[-1].text.split()[0] if len(recorder.tasks) == 1 else lines[-2].text.split()[0])
        now[0] += TURN_S / 5
    assert first_tasks == ["a", "a", "a", "a", "a", "b"]


def test_panel_shows_outage() -> None:
    lines = Panel("serve", "score").draw(replace(status_of(["gcd"]), outage_s=75.0), Screen(80, 20))
    assert [line.text for line in lines if line.alert] == ["no completions arrive for 1:15 now"]


def test_panel_shows_evaluation() -> None:
    status = replace(status_of(["gcd"]), evaluation="3 of 9 problems, mean score 0.500", scores=SCORES)
    short = drawn(status, 80, 20)
    assert "evaluation under way: 3 of 9 problems, mean score 0.500" in short
    assert "evaluation at step 50: 0.412 (+0.031)   category_0 0.500 (+0.125)   ..." in short
    assert "category_12 0.500 (+0.125)" in "\n".join(drawn(status, 200, 46))


def test_names_are_escaped() -> None:
    lines = drawn(status_of(["a\x1b[2J\n", "字字"]), 80, 20)
    assert lines[-1].startswith(r"a\x1b[2J\n  ")
    assert lines[-2].startswith("字字        "), "a wide character takes two columns"


def test_unknown_figures_have_no_column() -> None:
    assert not any("LEVEL" in line for line in drawn(status_of(["gcd"]), 80, 20))
    assert any("LEVEL" in line for line in drawn(status_of(["gcd"], level=0.5), 80, 20))


def test_before_first_group() -> None:
    recorder = MetricsRecorder()
    lines = drawn(Status(None, recorder.progress(None), recorder.tasks, recorder.total), 80, 20)
    figures = ["0.00 groups/s   0 tokens/s   groups 0   failed 0", "in flight 0   ready 0"]
    assert lines == ["", "serve   0 s elapsed", *figures]


def test_time_left() -> None:
    left = TimeLeft()
    assert left.note(RunProgress(100, 200, ""), 0.0) is None
    assert left.note(RunProgress(110, 200, ""), 20.0) == 180.0
    assert left.note(RunProgress(110, 200, ""), 21.0) == 179.0
    assert left.note(RunProgress(110, 200, ""), 99.0) == 178.0, (
        "an outage ends the count-down after the time of one group"
    )
    assert left.note(RunProgress(200, 200, ""), 120.0) is None


@pytest.mark.parametrize(
    ("seconds", "exact", "rough"),
    [(4, "4 s", "10 s"), (754, "12:34", "13 min"), (10930, "3:02:10", "3 h 2 min"), (183730, "2 d 3:02:10", "2 d 3 h")],
)
def test_durations(seconds: int, exact: str, rough: str) -> None:
    assert (duration(seconds), rough_duration(seconds)) == (exact, rough)


def test_sparkline() -> None:
    assert sparkline([0.0, 0.5, 1.0]) == "▁▅█"
    assert sparkline([0.0, 0.5, 1.0], unicode=False) == "_=#"
