from __future__ import annotations

import errno
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from io import FileIO
from pathlib import Path

import pytest

from reasoning_env.storage import files
from reasoning_env.storage.files import KeyedFile, LineFile


@pytest.fixture
def file(tmp_path: Path) -> Iterator[LineFile]:
    taken = LineFile.take(tmp_path / "lines")
    assert taken is not None
    yield taken
    taken.close()


@pytest.mark.parametrize("torn", [b"", b"2", b"\0\0\n"])
def test_append_after_a_torn_line(file: LineFile, torn: bytes) -> None:
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


def test_short_write(file: LineFile, monkeypatch: pytest.MonkeyPatch) -> None:
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


# ---------------------------------------------------------------------------- lines with keys


@pytest.fixture
def take(tmp_path: Path) -> Iterator[Callable[[], KeyedFile]]:
    """Opens a keyed file again and again; the earlier object is closed first."""
    with ExitStack() as stack:

        def take() -> KeyedFile:
            stack.close()
            file = KeyedFile.take(tmp_path / "lines")
            assert file is not None
            stack.callback(file.close)
            return file

        yield take


Take = Callable[[], KeyedFile]


def test_each_line_begins_with_its_key(take: Take) -> None:
    file = take()
    file.append('gcd/"1"', b'{"a": 1}\n')
    assert json.loads(file.path.read_bytes()) == {"key": 'gcd/"1"', "a": 1}
    assert take().keys == {'gcd/"1"'}


def test_key_is_written_once(take: Take) -> None:
    for _ in range(2):
        file = take()
        file.append("1", b'{"a": 1}\n')
    assert file.path.read_bytes().count(b"\n") == 1


def test_lines_without_a_key(take: Take, caplog: pytest.LogCaptureFixture) -> None:
    file = take()
    file.path.write_bytes(b'{"a": 1}\nnonsense\n')
    file = take()
    assert file.keys == set()
    assert caplog.records[-1].args == (file.path, 2)
    file.append("1", b'{"a": 2}\n')
    assert file.path.read_bytes().count(b"\n") == 3


def test_threads_write_whole_lines(take: Take) -> None:
    file = take()
    with ThreadPoolExecutor(8) as threads:
        for number in range(200):
            threads.submit(file.append, str(number), b'{"a": "' + b"x" * 5_000 + b'"}\n')
    assert take().keys == set(map(str, range(200)))
