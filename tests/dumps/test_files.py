from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import Mock

import pytest

from reasoning_env.dumps.files import DumpFiles
from reasoning_env.dumps.format import DumpKind

from .conftest import LimitFiles
from .groups import names

KIND = DumpKind("x", 3)
FIRST, SECOND = "x_run_0000.jsonl", "x_run_0001.jsonl"


MakeFiles = Callable[[Path], DumpFiles]


@pytest.fixture
def make_files() -> Iterator[MakeFiles]:
    with ExitStack() as stack:

        def make(folder: Path) -> DumpFiles:
            files = DumpFiles(folder, KIND, "run")
            stack.callback(files.close)
            return files

        yield make


def test_lines_are_in_the_file_when_append_returns_and_those_after_a_full_file_begin_the_next(
    make_files: MakeFiles, dumps: Path
) -> None:
    files = make_files(dumps)
    files.append([b"1\n", b"2\n"])
    assert (dumps / FIRST).read_bytes() == b"1\n2\n"
    assert (files.written, files.room) == (2, 1)
    files.append([b"3\n"])
    assert names(dumps) == [FIRST]
    files.append([b"4\n"])
    assert (dumps / SECOND).read_bytes() == b"4\n"


def test_numbers_of_files_that_exist_are_passed_over(make_files: MakeFiles, tmp_path: Path) -> None:
    (tmp_path / FIRST).write_bytes(b"to")  # torn, and it stays: nothing is appended behind it
    make_files(tmp_path).append([b"1\n"])
    make_files(tmp_path).append([b"2\n"])
    assert [(tmp_path / name).read_bytes() for name in names(tmp_path)] == [b"to", b"1\n", b"2\n"]


def test_numbers_are_not_used_up_while_no_file_can_be_made(make_files: MakeFiles, tmp_path: Path) -> None:
    folder = tmp_path / "dumps"
    folder.write_text("in the way")
    files = make_files(folder)
    for _ in range(3):
        with pytest.raises(OSError, match="File exists"):
            files.append([b"1\n"])
    folder.unlink()
    files.append([b"1\n"])
    assert names(folder) == [FIRST]


def test_write_that_is_cut_short_leaves_whole_lines_only(
    make_files: MakeFiles, tmp_path: Path, limit_files: LimitFiles
) -> None:
    files = make_files(tmp_path)
    files.append([b"1\n"])
    limit_files(1_000)
    with pytest.raises(OSError, match="File too large"):
        files.append([b"2\n", b"x" * 1_000 + b"\n"])
    limit_files(None)
    assert (tmp_path / FIRST).read_bytes() == b"1\n"
    files.append([b"3\n"])
    assert (tmp_path / FIRST).read_bytes() == b"1\n3\n"


def test_lines_whose_sync_fails_do_not_count(
    make_files: MakeFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = make_files(tmp_path)
    files.append([b"1\n"])
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", Mock(side_effect=OSError(errno.EIO, "no")))
        with pytest.raises(OSError, match="no"):
            files.append([b"2\n"])
    assert (tmp_path / FIRST).read_bytes() == b"1\n"
    files.append([b"2\n"])
    assert (tmp_path / FIRST).read_bytes() == b"1\n2\n"


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP])
def test_file_system_without_sync_is_written_to(
    make_files: MakeFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    for sync in ("fdatasync", "fsync"):
        monkeypatch.setattr(os, sync, Mock(side_effect=OSError(number, "not supported")))
    make_files(tmp_path).append([b"1\n"])
    assert (tmp_path / FIRST).read_bytes() == b"1\n"


def _move(path: Path) -> None:
    path.parent.rename(path.parent.with_name("moved"))


def _replace(path: Path) -> None:
    (path.parent / "theirs").write_bytes(b"theirs\n")
    (path.parent / "theirs").replace(path)


def _cut(path: Path) -> None:
    os.truncate(path, 2)


@pytest.mark.parametrize("take_away", [_move, Path.unlink, _replace, _cut])
def test_file_that_another_process_takes_away_is_left_alone_and_a_new_one_begun(
    make_files: MakeFiles, dumps: Path, take_away: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    files = make_files(dumps)
    files.append([b"1\n", b"2\n"])
    take_away(dumps / FIRST)
    left = {path: path.read_bytes() for path in dumps.parent.rglob("*.jsonl")}
    files.append([b"3\n"])
    found = {path: path.read_bytes() for path in dumps.parent.rglob("*.jsonl")}
    assert found == {**left, dumps / SECOND: b"3\n"}
    levels = [record.levelno for record in caplog.records if record.levelno > logging.INFO]
    assert levels == [logging.WARNING]
