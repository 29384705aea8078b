"""What recovery makes of the files that a killed run left behind."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from reasoning_env.rollouts import Outcome, PartReport, read_groups, recover_folder, recovery
from reasoning_env.rollouts.lines import encode_group

from .conftest import MakeDumper
from .groups import FAILED, PASSED, indices, names, passed, wait_until

LINES = encode_group(passed(0)) + encode_group(passed(1))


def _part(folder: Path, batch: int = 0, content: bytes = LINES) -> Path:
    path = folder / (PASSED.format(batch) + ".part")
    path.write_bytes(content)
    return path


def test_part_gets_its_final_name_and_keeps_its_lines(tmp_path: Path) -> None:
    part = _part(tmp_path)
    target = tmp_path / PASSED.format(0)
    assert recover_folder(tmp_path) == [PartReport(part, Outcome.COMPLETED, target, groups=2)]
    assert target.read_bytes() == LINES
    assert names(tmp_path) == [target.name]


@pytest.mark.parametrize(
    "torn",
    [
        b"{",
        encode_group(passed(2))[:-1],
        encode_group(passed(2))[:-20] + b"\n",
        b"\0" * 5_000,
        b"\0" * 5_000 + b"\n",
        b"\0" * 50 + b"\n" + encode_group(passed(2))[50:] + b"\0" * 9,
        b"[" * 100_000 + b"\n",
    ],
    ids=["one byte", "no newline", "newline too early", "empty block", "empty block in a line", "several", "nested"],
)
def test_what_follows_the_last_whole_line_is_cut_off(tmp_path: Path, torn: bytes) -> None:
    _part(tmp_path, content=LINES + torn)
    (report,) = recover_folder(tmp_path)
    assert (report.groups, report.torn_bytes) == (2, len(torn))
    assert (tmp_path / PASSED.format(0)).read_bytes() == LINES


@pytest.mark.parametrize("content", [b"", b'{"item_id"'])
def test_part_without_a_whole_line_is_deleted(tmp_path: Path, content: bytes) -> None:
    part = _part(tmp_path, content=content)
    assert recover_folder(tmp_path) == [PartReport(part, Outcome.DELETED, torn_bytes=len(content))]
    assert names(tmp_path) == []


def test_final_name_that_is_taken_is_not_overwritten(tmp_path: Path) -> None:
    for batch in (0, 1):
        (tmp_path / PASSED.format(batch)).write_bytes(b"theirs\n")
    part = _part(tmp_path)
    target = tmp_path / PASSED.format(2)
    assert recover_folder(tmp_path) == [PartReport(part, Outcome.COMPLETED, target, groups=2)]
    assert target.read_bytes() == LINES
    assert [(tmp_path / PASSED.format(batch)).read_bytes() for batch in (0, 1)] == [b"theirs\n"] * 2
    assert len(names(tmp_path)) == 3


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    others = ["x.jsonl.part", PASSED.format(0), "notes.part"]
    for other in others:
        (tmp_path / other).write_bytes(b"torn")
    (tmp_path / (FAILED.format(0) + ".part")).mkdir()
    (tmp_path / (FAILED.format(1) + ".part")).symlink_to(tmp_path / others[0])
    before = names(tmp_path)
    assert recover_folder(tmp_path) == []
    assert names(tmp_path) == before
    assert all((tmp_path / other).read_bytes() == b"torn" for other in others)


def test_part_that_cannot_be_completed_is_told_and_the_others_are_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = _part(tmp_path, 0), _part(tmp_path, 1)
    rename = os.rename

    def refuse_first(source: Path, target: Path) -> None:
        if source == first:
            raise PermissionError(13, "Permission denied")
        rename(source, target)

    monkeypatch.setattr(os, "rename", refuse_first)
    reports = recover_folder(tmp_path)
    assert [(report.part, report.outcome) for report in reports] == [
        (first, Outcome.FAILED),
        (second, Outcome.COMPLETED),
    ]
    assert reports[0].problem == "Permission denied"
    assert first.read_bytes() == LINES


@pytest.mark.parametrize("kind", ["missing", "a file"])
def test_folder_that_is_none_raises_os_error(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "dumps"
    if kind == "a file":
        folder.touch()
    with pytest.raises(OSError, match="dumps"):
        recover_folder(folder)


def test_recoverers_at_once_complete_each_part_once(tmp_path: Path) -> None:
    for batch in range(40):
        _part(tmp_path, batch, encode_group(passed(batch)))
    with ThreadPoolExecutor(4) as threads:
        reports = [report for made in threads.map(recover_folder, [tmp_path] * 4) for report in made]
    assert sum(report.outcome is Outcome.COMPLETED for report in reports) == 40
    assert indices(read_groups(tmp_path)) == list(range(40))
    assert not any(name.endswith(".part") for name in names(tmp_path))


def test_dumper_recovers_when_it_starts(make_dumper: MakeDumper, dumps: Path) -> None:
    dumps.mkdir()
    _part(dumps, 3)
    dumper = make_dumper()
    wait_until(lambda: dumper.stats().recovered_files == 1)
    assert dumper.stats().recovered_groups == 2
    assert names(dumps) == [PASSED.format(3)]


def test_dumper_recovers_before_its_first_line(make_dumper: MakeDumper, dumps: Path) -> None:
    dumps.mkdir()
    _part(dumps, 0)
    dumper = make_dumper()
    dumper.offer(passed(2))
    dumper.close()
    assert {name: indices(read_groups(dumps / name)) for name in names(dumps)} == {
        PASSED.format(0): [0, 1],
        PASSED.format(1): [2],
    }


def test_torn_line_is_logged_by_the_dumper(
    make_dumper: MakeDumper, dumps: Path, caplog: pytest.LogCaptureFixture
) -> None:
    dumps.mkdir()
    part = _part(dumps, 0, LINES + b"torn")
    make_dumper().close()
    assert f"{part} ended in a torn line: 4 bytes of it were cut off" in caplog.messages


def test_folder_that_cannot_be_recovered_does_not_keep_a_dumper_from_writing(
    make_dumper: MakeDumper, dumps: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(path: Path) -> PartReport:
        raise PermissionError(13, "Permission denied")

    dumps.mkdir()
    _part(dumps, 7)
    monkeypatch.setattr(recovery, "parse_part", refuse)
    dumper = make_dumper()
    dumper.offer(passed(0))
    dumper.close()
    assert indices(read_groups(dumps / PASSED.format(0))) == [0]
    assert "cannot be recovered" in caplog.text
