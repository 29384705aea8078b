"""The command `report`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from reasoning_env.commands import report as report_module
from reasoning_env.commands.report import report_command
from reasoning_env.errors import ConfigError
from tests.reports.lines import group, report, rollout, write

WRONG = rollout(0.0)


def test_output_is_no_source(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", group(rollout()))
    before = path.read_bytes()
    with pytest.raises(ConfigError, match=r"a\.jsonl"):
        report_command([str(path), "-o", str(tmp_path / "." / "a.jsonl")], default_folder=tmp_path, program="env")
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["missing", "empty", "notes.txt", "foreign.jsonl"])
def test_path_without_groups(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("dear diary\n")
    (tmp_path / "foreign.jsonl").write_text('{"a": 1}\n')
    with pytest.raises(ConfigError, match=name):
        report_command([str(tmp_path / name), "-o", str(tmp_path / "r.html")], default_folder=tmp_path, program="env")
    assert not list(tmp_path.glob("*.html"))


def follow_until(monkeypatch: pytest.MonkeyPatch, *between: Callable[[], object]) -> None:
    """Let `--follow` look once more after each step, and then end as by Ctrl-C."""
    steps = iter(between)

    def pause(_: float) -> None:
        step = next(steps, None)
        if step is None:
            raise KeyboardInterrupt
        step()

    monkeypatch.setattr(report_module.time, "sleep", pause)


def test_follow_writes_the_page_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, page, sizes = write(tmp_path / "a.jsonl", group(WRONG)), tmp_path / "page.html", []

    def add_a_group() -> None:
        sizes.append(page.stat().st_mtime_ns)
        write(file, group(WRONG), group(WRONG))

    follow_until(monkeypatch, add_a_group, lambda: sizes.append(page.stat().st_mtime_ns))
    assert report_command([str(file), "-o", str(page), "--follow"], default_folder=tmp_path, program="env") == 0
    assert sizes[1] > sizes[0]
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" group")[0] for line in lines] == [f"{page}: 1", f"{page}: 2"]


def test_follow_waits_for_the_first_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, page = tmp_path / "a.jsonl", tmp_path / "page.html"
    follow_until(monkeypatch, int, lambda: write(file, group(WRONG)))
    assert report_command([str(file), "-o", str(page), "--follow", "1"], default_folder=tmp_path, program="env") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("waiting: ")
    assert lines[1].startswith(f"{page}: 1 group at ")
    assert len(lines) == 2


def test_follow_rewrites_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, page = write(tmp_path / "a.jsonl", group(WRONG)), tmp_path / "page.html"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    follow_until(monkeypatch, lambda: write(file, group(WRONG), group(WRONG)), int)
    report_command([str(file), "-o", str(page), "--follow", "1"], default_folder=tmp_path, program="env")
    shown = capsys.readouterr().out
    assert [line[:3] for line in shown.split("\r")[1:]] == ["\x1b[K"] * 2
    assert shown.count("\n") == 1
    assert shown.endswith("\n")


def test_only_follow_loads_again(tmp_path: Path) -> None:
    assert "reload_s" not in report(write(tmp_path / "a.jsonl", group(WRONG)))


def test_follow_output_is_no_source(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", group(WRONG))
    with pytest.raises(ConfigError, match="exists, and is no page"):
        report_command([str(file), "-o", str(file), "--follow"], default_folder=tmp_path, program="env")
    assert "gcd" in file.read_text()
