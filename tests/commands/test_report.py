"""The command `report`."""

from __future__ import annotations

from pathlib import Path

import pytest

from reasoning_env.commands.report import report_command
from reasoning_env.errors import ConfigError
from tests.reports.lines import group, rollout, write


def test_report_command_never_overwrites_its_input(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", group(rollout()))
    before = path.read_bytes()
    with pytest.raises(ConfigError, match=r"a\.jsonl"):
        report_command([str(path), "-o", str(tmp_path / "." / "a.jsonl")], tmp_path)
    assert path.read_bytes() == before
