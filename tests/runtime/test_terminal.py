from __future__ import annotations

import contextlib
import logging
import re
import time
from io import StringIO
from typing import Any

import pytest

from reasoning_env.runtime.terminal import (
    StderrHandler,
    Table,
    print_table,
    printable,
    progress_bar,
)

WORDS = "one two three four five six seven eight nine ten eleven twelve"
ROWS = [("gcd", "5", f"[bold]{WORDS} :smile:"), ("a_task_with_a_long_name", "125", "")]
STYLE = re.compile(r"\x1b\[[0-9;]*m")


def _print() -> None:
    print_table(("TASK", "N", "NOTE"), ROWS, numbers={"N"})


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a terminal with 50 columns."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "50")


@pytest.fixture(params=["", "1"])
def pipe(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Any:
    """Output to a pipe, with and without a request for colours."""
    monkeypatch.setenv("FORCE_COLOR", request.param)
    return capsys


def test_table_rows_written_to_a_pipe_are_not_wrapped(pipe: pytest.CaptureFixture[str]) -> None:
    _print()
    assert pipe.readouterr().out.splitlines() == [
        "TASK                       N  NOTE",
        f"gcd                        5  [bold]{WORDS} :smile:",
        "a_task_with_a_long_name  125",
    ]


def test_long_table_cells_are_wrapped_on_a_terminal() -> None:
    with contextlib.redirect_stdout(Terminal()) as terminal:
        _print()
    lines = STYLE.sub("", terminal.getvalue()).splitlines()
    assert max(map(len, lines)) <= 50
    assert " ".join(line[30:].strip() for line in lines[1:-1]) == f"[bold]{WORDS} :smile:"
    assert lines[-1] == "a_task_with_a_long_name  125"


def test_table_prints_numbers_in_the_format_of_the_column(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table({"TASK": "", "MEAN (ALL)": ".1%", "N": "d"}, [("gcd", 0.25, 4), ("a\x1b[2J\nb", None, 0)])
    table.print()
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["TASK", "MEAN", "(ALL)", "N"],
        ["gcd", "25.0%", "4"],
        [r"a\x1b[2J\nb", "-", "0"],
    ]
    assert table.records()[1] == {"task": "a\x1b[2J\nb", "mean_all": None, "n": 0}


@pytest.mark.parametrize(
    ("text", "limit", "shown"),
    [
        ("é 字", None, "é 字"),
        ("a\tb\u202e\ud800", None, r"a\tb\u202e\ud800"),
        ("abcdef", 4, "abc…"),
        ("abcd", 4, "abcd"),
    ],
)
def test_terminal_escape_sequences_are_escaped(text: str, limit: int | None, shown: str) -> None:
    assert printable(text, limit) == shown


def test_progress_bar_is_not_written_to_a_log_file(pipe: pytest.CaptureFixture[str]) -> None:
    with progress_bar("measuring", 2) as advance:
        advance()
    assert pipe.readouterr() == ("", "")


def test_progress_lines_go_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with progress_bar("measuring", 1000, done=2, interval_s=0.01) as advance:
        advance("a note")
        while not any("a note" in record.getMessage() for record in caplog.records):
            time.sleep(0.01)
    assert "measuring: 3 of 1,000, a note" in caplog.messages


def test_progress_lines_go_to_stderr_if_no_log_is_configured(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    with progress_bar("measuring", None, interval_s=0.01):
        time.sleep(0.1)
    assert capsys.readouterr().err.startswith("measuring: 0\n")


def test_control_characters_in_log_lines_are_escaped() -> None:
    with contextlib.redirect_stderr(StringIO()) as written:
        handler = StderrHandler()
        handler.handle(logging.makeLogRecord({"msg": "bad\x1b[2J\n  in line 1\x07"}))
    assert written.getvalue() == "bad\\x1b[2J\n  in line 1\\x07\n"


def test_log_lines_appear_above_the_progress_bar() -> None:
    handler, logger = StderrHandler(), logging.getLogger("above")
    logger.addHandler(handler)
    with contextlib.redirect_stderr(Terminal()) as terminal, progress_bar("measuring", 2) as advance:
        advance("a note")
        logger.warning("something [bold]happened")
        advance()
    logger.removeHandler(handler)
    lines = STYLE.sub("", terminal.getvalue()).replace("\r", "\n").splitlines()
    above, below = (next(row for row, line in enumerate(lines) if word in line) for word in ("[bold]happened", "2/2"))
    assert above < below
    assert "measuring" not in lines[above]


def test_progress_rate_includes_the_time_before_the_first_item() -> None:
    with contextlib.redirect_stderr(Terminal()) as terminal, progress_bar("measuring", 100, done=20) as advance:
        time.sleep(0.5)
        for _ in range(10):
            advance()
    shown = re.findall(r"([\d.]+)/s (\d):(\d\d):(\d\d)", STYLE.sub("", terminal.getvalue()))[-1]
    rate, _, _, seconds_left = map(float, shown)
    assert rate <= 10 / 0.5
    assert seconds_left >= 70 / (10 / 0.5)
