from __future__ import annotations

import errno
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

import pytest

from reasoning_env import files
from reasoning_env.files import LineFile


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
    with file.path.open("ab") as other:
        other.write(torn)
    file.append(b"3\n")
    assert file.path.read_bytes() == b"0\n1\n3\n"


def test_file_has_one_writer_at_a_time(file: LineFile) -> None:
    assert LineFile.take(file.path) is None
    with pytest.raises(FileExistsError):
        LineFile.create(file.path)
    file.close()
    again = LineFile.take(file.path)
    assert again is not None
    again.close()


def test_write_that_is_cut_short_leaves_whole_lines_only(file: LineFile, monkeypatch: pytest.MonkeyPatch) -> None:
    file.append(b"1\n")

    def fill(target: FileIO, data: bytes) -> None:
        target.write(data[:1])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(files, "write_all", fill)
        with pytest.raises(OSError, match="No space left"):
            file.append(b"2\n")
    assert file.path.read_bytes() == b"1\n"
    file.append(b"3\n")
    assert file.path.read_bytes() == b"1\n3\n"
