from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reasoning_env.atropos.modes.group_file import BackgroundWriter


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_file_holds_every_group_in_order_and_as_it_was_given(tmp_path: Path) -> None:
    writer = BackgroundWriter(str(tmp_path / "below" / "groups.jsonl"))
    groups: list[dict[str, int]] = [{"number": number} for number in range(100)]
    for group in groups:
        writer.write(group)
        group["added"] = 2
    for _ in range(2):
        writer.close()
    assert lines(tmp_path / "below" / "groups.jsonl") == [{"number": number} for number in range(100)]


def test_file_is_made_by_the_first_group_and_none_is_written_over(tmp_path: Path) -> None:
    BackgroundWriter(str(tmp_path / "groups.jsonl")).close()
    assert list(tmp_path.iterdir()) == []
    for number in range(3):
        writer = BackgroundWriter(str(tmp_path / "groups.jsonl"))
        writer.write({"number": number})
        writer.close()
    assert lines(tmp_path / "groups_2.jsonl") == [{"number": 2}]
    assert lines(tmp_path / "groups.jsonl") == [{"number": 0}]


def test_group_that_cannot_be_written_is_reported_and_the_next_one_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    writer = BackgroundWriter(str(tmp_path / "groups.jsonl"))
    writer.write({"broken": object()})
    writer.write({"number": 2})
    writer.close()
    assert lines(tmp_path / "groups.jsonl") == [{"number": 2}]
    assert "is dropped" in caplog.text
