from __future__ import annotations

import logging
from pathlib import Path

import pytest

from reasoning_env.checkpoints.files import PART
from reasoning_env.checkpoints.journal import JOURNAL, Entry, Journal, read_journal

RECORD = 1020
"""Bytes that a group takes up in the journal."""


def group(number: int) -> Entry:
    return number, bytes([number]) * 1000


def groups(first: int, last: int) -> list[Entry]:
    return [group(number) for number in range(first, last + 1)]


def size(folder: Path) -> int:
    return (folder / JOURNAL).stat().st_size


def test_groups_that_wait_are_read_back(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for last in (2, 5, 5, 9):
        journal.update(groups(1, last))
    assert read_journal(tmp_path) == dict(groups(1, 9))


def test_each_group_is_written_once_however_long_it_waits(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.update(groups(1, 4))
    file = (tmp_path / JOURNAL).stat().st_ino
    for last in (4, 5, 6, 7, 7):
        journal.update(groups(3, last))
        assert size(tmp_path) == last * RECORD
    assert (tmp_path / JOURNAL).stat().st_ino == file


def test_it_is_emptied_when_nothing_waits_and_goes_on_from_there(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.update(groups(1, 4))
    journal.update([])
    assert size(tmp_path) == 0
    journal.update(groups(5, 6))
    assert read_journal(tmp_path) == dict(groups(5, 6))


def test_it_shrinks_when_most_of_it_was_delivered(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.update(groups(1, 10))
    journal.update(groups(8, 11))
    assert size(tmp_path) == 4 * RECORD
    assert read_journal(tmp_path) == dict(groups(8, 11))


def test_what_an_earlier_process_left_goes_with_the_first_update(tmp_path: Path) -> None:
    Journal(tmp_path).update(groups(1, 9))
    # Its groups from 4 on were in no checkpoint, and their numbers are given again.
    Journal(tmp_path).update([(3, b"old"), (4, b"new")])
    assert read_journal(tmp_path) == {3: b"old", 4: b"new"}


def test_a_torn_end_costs_the_torn_group_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Journal(tmp_path).update(groups(1, 4))
    for kept in (4 * RECORD - 1, 3 * RECORD + 20, 3 * RECORD + 1):
        with (tmp_path / JOURNAL).open("r+b") as file:
            file.truncate(kept)
        assert read_journal(tmp_path) == dict(groups(1, 3))
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 3


def test_no_bit_that_flips_changes_a_group(tmp_path: Path) -> None:
    entries = [(1, b"one"), (2, b""), (3, b"three")]
    Journal(tmp_path).update(entries)
    whole = (tmp_path / JOURNAL).read_bytes()
    for bit in range(8 * len(whole)):
        (tmp_path / JOURNAL).write_bytes((int.from_bytes(whole) ^ 1 << bit).to_bytes(len(whole)))
        read = list(read_journal(tmp_path).items())
        assert len(read) < 3 and read == entries[: len(read)]


def test_without_a_journal_nothing_waits(tmp_path: Path) -> None:
    assert read_journal(tmp_path) == {}


def test_a_failed_update_loses_nothing_and_is_made_good_by_the_next(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.update(groups(1, 2))
    (tmp_path / JOURNAL).rename(tmp_path / "moved")
    with pytest.raises(FileNotFoundError):
        journal.update(groups(1, 4))
    (tmp_path / "moved").rename(tmp_path / JOURNAL)
    (tmp_path / PART).symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        journal.update(groups(1, 5))
    assert read_journal(tmp_path) == dict(groups(1, 2))
    journal.update(groups(1, 6))
    assert read_journal(tmp_path) == dict(groups(1, 6))
