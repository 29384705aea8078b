from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from reasoning_env.checkpoints.files import (
    LATEST,
    Checkpoint,
    CheckpointError,
    find_checkpoint,
    read_checkpoint,
    step_file,
    write_checkpoint,
)

STATE = {"seed": 7, "tasks": ["gcd", "é\ud800"], "mean": 0.1}


def write(folder: Path, step: int, name: str | None = None, state: Any = STATE) -> Path:
    path = folder / (name or step_file(step))
    write_checkpoint(path, step, state)
    return path


def test_no_cut_changes_what_is_read(tmp_path: Path) -> None:
    path = write(tmp_path, 5)
    whole = path.read_bytes()
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        with pytest.raises(CheckpointError):
            read_checkpoint(path)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"\0" * 100, ""),
        (b"\xff\xfe\xfd", ""),
        (b"[" * 100_000, ""),
        (b"[1, 2]", ""),
        (b'"version"', ""),
        (b'{"step": 5, "state": {}}', ""),
        (b'{"version": 3, "step": 5, "state": {}}', r"\b3\b"),
        (None, ""),
    ],
)
def test_file_that_is_no_checkpoint_of_this_version_is_refused(
    tmp_path: Path, content: bytes | None, named: str
) -> None:
    path = tmp_path / LATEST
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(CheckpointError, match=f"{LATEST} .*{named}"):
        read_checkpoint(path)


def test_full_disk_leaves_what_was_there_and_nothing_else(tmp_path: Path) -> None:
    path = write(tmp_path, 5)
    path.with_name(f"{path.name}.part").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        write(tmp_path, 5, state={"other": True})
    assert read_checkpoint(path) == Checkpoint(path, 5, STATE)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("steps", "latest", "asked", "found", "of_the_step"),
    [
        ([], None, 5, None, None),
        ([5, 10, 20], None, 15, "step-10.json", "step-10.json"),
        ([9, 10], None, 10, "step-10.json", "step-10.json"),
        ([10], None, 5, None, None),
        ([0], None, 0, "step-0.json", "step-0.json"),
        ([], 3, 5, LATEST, LATEST),
        ([], 6, 5, None, None),
        ([5], 5, 5, LATEST, "step-5.json"),
        ([5], 6, 5, "step-5.json", "step-5.json"),
        ([5, 6], 6, 6, LATEST, "step-6.json"),
        ([5], 4, 5, "step-5.json", "step-5.json"),
        ([4], 4, 5, LATEST, LATEST),
        ([5, 10], 7, 9, LATEST, LATEST),
        ([5, 10], 7, 10, "step-10.json", "step-10.json"),
    ],
)
def test_the_newest_checkpoint_not_after_the_step_is_found(
    tmp_path: Path, steps: list[int], latest: int | None, asked: int, found: str | None, of_the_step: str | None
) -> None:
    for step in steps:
        write(tmp_path, step)
    if latest is not None:
        write(tmp_path, latest, LATEST)
    for prefer_latest, name in ((True, found), (False, of_the_step)):
        checkpoint = find_checkpoint(tmp_path, asked, prefer_latest=prefer_latest)
        assert (checkpoint and checkpoint.path.name) == name


def test_damaged_checkpoints_are_passed_over_each_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for step in (1, 2, 3, 4):
        write(tmp_path, step)
    damaged = [tmp_path / name for name in (LATEST, step_file(3), step_file(2))]
    for path in [*damaged, tmp_path / step_file(4)]:
        path.write_bytes(b"{")
    found = find_checkpoint(tmp_path, 3, prefer_latest=True)
    assert found is not None and found.step == 1
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 3
    assert all(str(path) in message for path, message in zip(damaged, caplog.messages, strict=True))


def test_only_files_named_for_a_step_are_looked_at(tmp_path: Path) -> None:
    for name in ("step-04.json", "step-5.json.part", "step--1.json", "xstep-6.json", "step-x.json"):
        write(tmp_path, 3, name)
    assert find_checkpoint(tmp_path, 9, prefer_latest=True) is None
