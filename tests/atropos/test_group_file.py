from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reasoning_env.atropos.modes.group_file import BackgroundWriter, check_path, encode_line, open_groups
from reasoning_env.dumps.format import read_group
from reasoning_env.errors import ConfigError
from reasoning_env.storage.files import KeyedFile, header_path
from tests.records import make_group, make_rollout

SETTINGS = {"seed": 1, "tasks": ("gcd",)}


@pytest.fixture
def groups(tmp_path: Path) -> Iterator[Any]:
    """Opens the group file for the given settings, and closes all files at the end."""
    with ExitStack() as opened:

        def open_file(**settings: Any) -> KeyedFile:
            file = open_groups(tmp_path / "below" / "groups.jsonl", {**SETTINGS, **settings})
            opened.callback(file.close)
            return file

        yield open_file


def read(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_line_of_the_group_file_has_trainer_fields_and_dump_fields() -> None:
    fields = {"tokens": [[1, 2], [3]], "scores": [1.0, 0.0], "advantages": None, "overrides": [{}, {"a": True}]}
    group = make_group([make_rollout(1.0), make_rollout(0.0)], "gcd")
    line = json.loads(b"".join(encode_line(fields, group)))
    assert {name: line[name] for name in fields} == fields
    assert (line["item_id"], line["seed"], line["index"], line["expected_answer"]) == ("gcd", 7, 0, "2")
    assert [rollout["reason"] for rollout in line["rollouts"]] == ["scored", "scored"]


def test_group_file_has_token_counts_even_if_the_server_returns_only_text() -> None:
    rollouts = [replace(make_rollout(score), tokens=(), masks=(), token_count=7) for score in (1.0, 0.0)]
    line = b"".join(encode_line({"tokens": [[], []], "masks": [[], []]}, make_group(rollouts, "gcd")))
    assert [rollout.tokens for rollout in read_group(line).rollouts] == [7, 7]


def test_unknown_token_count_in_a_group_file_is_read_as_none() -> None:
    rollouts = [replace(make_rollout(1.0), tokens=(), masks=(), token_count=None)]
    line = b"".join(encode_line({"tokens": [[]], "masks": [[]]}, make_group(rollouts, "gcd")))
    assert read_group(line).rollouts[0].tokens is None


def test_changed_settings_start_a_new_group_file(groups: Any, caplog: pytest.LogCaptureFixture) -> None:
    first = groups()
    first.append_row("0", {"index": 0})
    other = groups(seed=2)
    assert other.path.name == "groups_1.jsonl"
    assert "(seed)" in caplog.text
    other.append_row("0", {"index": 0})
    assert groups(seed=3).path.name == "groups_2.jsonl"


def test_existing_group_file_is_resumed(groups: Any) -> None:
    first = groups()
    first.append_row("7", {"index": 7})
    first.close()
    assert groups().keys == {"7"}


def test_resuming_ignores_a_group_file_line_with_an_invalid_key(groups: Any) -> None:
    first = groups()
    for key in ("x", "5"):
        first.append_row(key, {"index": 5})
    first.close()
    assert groups().keys == {"5"}


@pytest.mark.parametrize("path", [None, "", ".", "file/x.jsonl"])
def test_error_about_an_invalid_group_file_path_names_the_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"env\.data_path_to_save_groups: "):
        check_path(path)
    with pytest.raises(ConfigError, match=r"env\.data_path_to_save_groups"):
        open_groups(Path("file/x.jsonl"), {})  # the operating system rejects these paths
    assert check_path("a/b/c.jsonl") == Path("a/b/c.jsonl")
    assert os.listdir(tmp_path) == ["file"]


# ---------------------------------------------------------------------------- the file of `serve`


def test_background_writer_keeps_the_order_of_groups(tmp_path: Path) -> None:
    writer = BackgroundWriter(str(tmp_path / "below" / "groups.jsonl"))
    groups: list[dict[str, int]] = [{"number": number} for number in range(100)]
    for group in groups:
        writer.write(group)
        group["added"] = 2
    for _ in range(2):
        writer.close()
    assert read(tmp_path / "below" / "groups.jsonl") == [{"number": number} for number in range(100)]


def test_group_file_is_created_when_the_first_group_is_written(tmp_path: Path) -> None:
    BackgroundWriter(str(tmp_path / "groups.jsonl")).close()
    assert list(tmp_path.iterdir()) == []
    for number in range(3):
        writer = BackgroundWriter(str(tmp_path / "groups.jsonl"))
        writer.write({"number": number})
        writer.close()
    assert read(tmp_path / "groups_2.jsonl") == [{"number": 2}]
    assert read(tmp_path / "groups.jsonl") == [{"number": 0}]


def test_group_that_json_cannot_represent_is_skipped_and_an_error_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    writer = BackgroundWriter(str(tmp_path / "groups.jsonl"))
    writer.write({"broken": object()})
    writer.write({"number": 2})
    writer.close()
    assert read(tmp_path / "groups.jsonl") == [{"number": 2}]
    assert [record.levelname for record in caplog.records if record.levelno > logging.INFO] == ["ERROR"]


def test_process_command_raises_if_another_program_wrote_the_existing_parquet_file(tmp_path: Path) -> None:
    path = tmp_path / "train.parquet"
    path.write_bytes(b"PAR1")
    with pytest.raises(ConfigError, match="exists, but `process` did not write it"):
        check_path(str(path))


def test_process_command_accepts_a_parquet_file_of_an_earlier_run_as_its_output(tmp_path: Path) -> None:
    path = tmp_path / "groups.parquet"
    path.write_bytes(b"PAR1")
    header_path(tmp_path / "groups.jsonl").write_text("{}")
    assert check_path(str(path)) == path
