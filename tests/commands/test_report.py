"""The command `report`."""

from __future__ import annotations

from pathlib import Path

import pytest

from reasoning_env.commands.report import report_command
from reasoning_env.errors import ConfigError
from tests.reports.lines import group, rollout, write


def test_output_is_no_source(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", group(rollout()))
    before = path.read_bytes()
    with pytest.raises(ConfigError, match=r"a\.jsonl"):
        report_command([str(path), "-o", str(tmp_path / "." / "a.jsonl")], tmp_path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["missing", "empty", "notes.txt", "foreign.jsonl"])
def test_path_without_groups(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("dear diary\n")
    (tmp_path / "foreign.jsonl").write_text('{"a": 1}\n')
    with pytest.raises(ConfigError, match=name):
        report_command([str(tmp_path / name), "-o", str(tmp_path / "r.html")], tmp_path)
    assert not list(tmp_path.glob("*.html"))
