from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

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
