from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from reasoning_env.storage.files import LineFile, OutputError, output_errors, replace_file
from tests.broken_files import NO_FILES, no_hang


def test_creating_a_file_that_exists_raises(tmp_path: Path) -> None:
    LineFile.create(tmp_path / "lines").close()
    with pytest.raises(FileExistsError):
        LineFile.create(tmp_path / "lines")


@pytest.mark.parametrize("kind", ["FIFO", "device", "link to itself", "link to nothing", "binary file"])
def test_leftover_temporary_file_is_replaced(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    NO_FILES[kind](tmp_path / "a.part")
    with no_hang():
        replace_file(tmp_path / "a", [b"new"])
    assert (tmp_path / "a").read_bytes() == b"new"
    assert not (tmp_path / "nothing").exists()


def test_replace_file_function_does_not_write_through_a_symbolic_link(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("stays")
    (tmp_path / "a.part").symlink_to("other")
    replace_file(tmp_path / "a", [b"new"])
    assert ((tmp_path / "other").read_text(), (tmp_path / "a").read_text()) == ("stays", "new")


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (errno.ENOSPC, "make room on the disk, then run the same command again"),
        (errno.EDQUOT, "make room on the disk, then run the same command again"),
        (errno.EROFS, "remove the cause, then run the same command again"),
        (errno.EACCES, "remove the cause, then run the same command again"),
    ],
)
def test_error_about_a_failed_write_says_what_to_do(code: int, remedy: str) -> None:
    with pytest.raises(OutputError) as caught, output_errors(Path("rows"), "all rows are safe"):
        raise OSError(code, os.strerror(code))
    assert caught.value.remedy == remedy
