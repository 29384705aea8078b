from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest

from reasoning_env.rollouts.files import BatchFiles

from .groups import names


def _lines(*numbers: int) -> bytes:
    return b"".join(b"%d\n" % number for number in numbers)


def test_nothing_is_created_before_the_first_line(tmp_path: Path) -> None:
    BatchFiles(tmp_path / "dumps", "x", 3).finish()
    assert names(tmp_path) == []


def test_line_is_in_the_part_file_when_append_returns(tmp_path: Path) -> None:
    files = BatchFiles(tmp_path, "x", 3)
    files.append(b"1\n")
    assert files.name.part.name == "x_0000.jsonl.part"
    assert files.name.part.read_bytes() == b"1\n"
    files.finish()


def test_full_file_left_unfinished_is_finished_before_the_next_line(tmp_path: Path) -> None:
    files = BatchFiles(tmp_path, "x", 2)
    for number in range(3):
        files.append(b"%d\n" % number)
    assert names(tmp_path) == ["x_0000.jsonl", "x_0001.jsonl.part"]
    files.finish()


def test_numbers_of_finished_files_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "x_0000.jsonl").write_bytes(b"old\n")
    files = BatchFiles(tmp_path, "x", 2)
    files.append(b"new\n")
    files.finish()
    assert (tmp_path / "x_0000.jsonl").read_bytes() == b"old\n"
    assert names(tmp_path) == ["x_0000.jsonl", "x_0001.jsonl"]


def test_numbers_of_parts_left_behind_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "x_0000.jsonl.part").write_bytes(b"old\n")
    files = BatchFiles(tmp_path, "x", 2)
    files.append(b"new\n")
    files.finish()
    assert (tmp_path / "x_0000.jsonl.part").read_bytes() == b"old\n"
    assert names(tmp_path) == ["x_0000.jsonl.part", "x_0001.jsonl"]


def test_what_a_failed_write_left_behind_is_cut_off(tmp_path: Path) -> None:
    files = BatchFiles(tmp_path, "x", 3)
    files.append(b"1\n")
    with files.name.part.open("ab") as part:
        part.write(b"torn")
    files.append(b"2\n")
    files.finish()
    assert files.finished == 1
    assert (tmp_path / "x_0000.jsonl").read_bytes() == _lines(1, 2)


def test_lines_of_a_removed_part_are_written_again(tmp_path: Path) -> None:
    files = BatchFiles(tmp_path / "dumps", "x", 9)
    files.append(b"1\n")
    shutil.rmtree(tmp_path / "dumps")
    files.append(b"2\n")
    files.finish()
    assert (tmp_path / "dumps" / "x_0000.jsonl").read_bytes() == _lines(1, 2)


def test_removal_just_before_the_end_loses_nothing(tmp_path: Path) -> None:
    files = BatchFiles(tmp_path / "dumps", "x", 9)
    files.append(b"1\n")
    shutil.rmtree(tmp_path / "dumps")
    files.finish()
    assert (tmp_path / "dumps" / "x_0000.jsonl").read_bytes() == b"1\n"


def test_lines_of_a_moved_folder_are_in_one_place_only(tmp_path: Path) -> None:
    files = BatchFiles(tmp_path / "dumps", "x", 9)
    files.append(b"1\n")
    (tmp_path / "dumps").rename(tmp_path / "moved")
    files.append(b"2\n")
    files.finish()
    assert (tmp_path / "dumps" / "x_0000.jsonl").read_bytes() == _lines(1, 2)
    assert (tmp_path / "moved" / "x_0000.jsonl.part").read_bytes() == b""


def test_part_that_became_another_writers_is_left_alone(tmp_path: Path) -> None:
    files = BatchFiles(tmp_path, "x", 9)
    files.append(b"1\n")
    files.name.part.unlink()
    (tmp_path / "x_0000.jsonl.part").write_bytes(b"theirs\n")
    files.append(b"2\n")
    files.finish()
    assert (tmp_path / "x_0000.jsonl.part").read_bytes() == b"theirs\n"
    assert (tmp_path / "x_0001.jsonl").read_bytes() == _lines(1, 2)


def test_release_tells_how_many_groups_went_with_a_removed_part(tmp_path: Path) -> None:
    files = BatchFiles(tmp_path, "x", 9)
    files.append(b"1\n")
    files.append(b"2\n")
    files.name.part.unlink()
    assert files.release() == 2


def test_release_leaves_a_part_that_is_in_its_place(tmp_path: Path) -> None:
    files = BatchFiles(tmp_path, "x", 9)
    files.append(b"1\n")
    assert files.release() == 0
    assert files.name.part.read_bytes() == b"1\n"


def test_progress_is_logged_every_ten_groups(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = BatchFiles(tmp_path, "x", 25)
    with caplog.at_level(logging.INFO):
        for _ in range(25):
            files.append(b"1\n")
        files.finish()
    target = tmp_path / "x_0000.jsonl"
    assert caplog.messages == [
        f"10 of 25 groups toward {target}",
        f"20 of 25 groups toward {target}",
        f"finished {target} with 25 groups",
    ]
