from __future__ import annotations

import os
from pathlib import Path

import pytest

from reasoning_env.dumps import TornFile, recover_file, recover_folder
from reasoning_env.dumps.format import encode_group

from .groups import FAILED, PASSED, old_dump, passed

LINES = encode_group(passed(0)) + encode_group(passed(1))


@pytest.mark.parametrize("torn", [b"{", b"\0" * 5_000 + b"\n", b"\0" * 50 + LINES[50:-1] + b"\0" * 9])
@pytest.mark.parametrize("whole", [LINES, b""])
def test_what_follows_the_last_whole_line_is_cut_off(tmp_path: Path, whole: bytes, torn: bytes) -> None:
    path = old_dump(tmp_path, whole + torn)
    assert recover_folder(tmp_path) == [TornFile(path, len(torn), cut=True)]
    assert path.read_bytes() == whole
    assert recover_folder(tmp_path) == []


@pytest.mark.parametrize("content", [b"", LINES, LINES[:-1], b"edited by hand\n" + LINES, LINES + b"edited by hand\n"])
def test_files_that_are_not_torn_are_left_alone(tmp_path: Path, content: bytes) -> None:
    path = old_dump(tmp_path, content)
    assert recover_folder(tmp_path) == []
    assert path.read_bytes() == content


def test_line_that_is_finished_while_it_is_looked_at_is_not_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = old_dump(tmp_path, LINES[:-20])
    fstat = os.fstat

    def finish_first(fd: int) -> os.stat_result:
        path.write_bytes(LINES)
        return fstat(fd)

    monkeypatch.setattr(os, "fstat", finish_first)
    report = recover_file(path)
    assert report is not None and not report.cut
    assert path.read_bytes() == LINES


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    others = ["x_0000.jsonl", PASSED.format(0) + ".gz", "notes.txt"]
    for other in others:
        (tmp_path / other).write_bytes(b"torn")
    (tmp_path / FAILED.format(0)).mkdir()
    assert recover_folder(tmp_path) == []
    assert all((tmp_path / other).read_bytes() == b"torn" for other in others)


def test_file_that_cannot_be_cut_is_told_and_the_others_are_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (old_dump(tmp_path, LINES + b"torn", number) for number in (0, 1))
    truncate = os.truncate

    def refuse_first(path: Path, size_bytes: int) -> None:
        if path == first:
            raise PermissionError(13, "Permission denied")
        truncate(path, size_bytes)

    monkeypatch.setattr(os, "truncate", refuse_first)
    assert recover_folder(tmp_path) == [
        TornFile(first, 4, cut=False, problem="Permission denied"),
        TornFile(second, 4, cut=True),
    ]
