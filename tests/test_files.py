from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

import pytest

from reasoning_env import files
from reasoning_env.files import LineFile, replace_file


@pytest.fixture
def file(tmp_path: Path) -> Iterator[LineFile]:
    taken = LineFile.take(tmp_path / "lines")
    assert taken is not None
    yield taken
    taken.close()


@pytest.mark.parametrize("torn", [b"", b"2", b"\0\0\n"])
def test_lines_go_on_behind_the_last_whole_one(file: LineFile, torn: bytes) -> None:
    file.path.write_bytes(b"0\n1\n" + torn)
    assert list(file.read()) == [b"0\n", b"1\n"]
    assert file.cut() == bool(torn)
    file.append(b"3\n")
    assert file.path.read_bytes() == b"0\n1\n3\n"


def test_disk_that_fills_up_leaves_whole_lines(file: LineFile, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(target: FileIO, data: bytes) -> None:
        target.write(data[:3])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    file.append(b"0\n")
    with monkeypatch.context() as patch:
        patch.setattr(files, "write_all", fill)
        with pytest.raises(OSError, match="No space left"):
            file.append(b"a long line\n")
    assert file.path.read_bytes() == b"0\n"
    file.append(b"1\n")
    assert file.path.read_bytes() == b"0\n1\n"


def test_file_has_one_writer_at_a_time(file: LineFile) -> None:
    assert LineFile.take(file.path) is None
    with pytest.raises(FileExistsError):
        LineFile.create(file.path)
    file.close()
    again = LineFile.take(file.path)
    assert again is not None
    again.close()


def test_file_that_was_moved_or_cut_is_not_in_place(file: LineFile) -> None:
    file.append(b"0\n")
    assert file.in_place()
    os.truncate(file.path, 1)
    assert not file.in_place()
    file.path.unlink()
    assert not file.in_place()


def test_replaced_file_is_whole_or_the_one_before(tmp_path: Path) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"new"
        raise ValueError("no more")

    replace_file(tmp_path / "file", [b"o", b"ld"])
    with pytest.raises(ValueError, match="no more"):
        replace_file(tmp_path / "file", pieces())
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("file", b"old")]
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600
