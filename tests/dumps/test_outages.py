"""The writer on a disk that fills up or goes away."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest

from reasoning_env.dumps import read_groups, writer
from reasoning_env.records import DumpStats
from tests.waiting import PATIENCE_S, wait_until

from .conftest import LimitFiles, MakeDumper
from .groups import failed, indices, make_group, passed

TEXT = "x" * 4_000


def _block(dumps: Path) -> None:
    """Put a file in the place of the folder; permissions would not stop a superuser."""
    shutil.rmtree(dumps)
    dumps.write_text("in the way")


def test_nobody_waits_for_a_disk_that_refuses_which_is_said_once_and_groups_keep_their_order(
    make_dumper: MakeDumper, dumps: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, writer.__name__)
    dumper = make_dumper()
    dumper.offer(passed(0))
    dumper.settled().result(PATIENCE_S)
    dumps.rename(dumps.with_name("moved"))
    dumps.write_text("in the way")
    for index in range(1, 9):
        dumper.offer(passed(index))
    dumper.settled().result(PATIENCE_S)
    dumper.offer(passed(9))
    assert dumper.settled().done()
    assert dumper.stats() == DumpStats(passed_groups=1, failed_groups=0, waiting=9, dropped=0)
    dumps.unlink()
    dumper.close()
    assert indices(read_groups(dumps)) == list(range(1, 10))
    assert indices(read_groups(dumps.with_name("moved"))) == [0]
    levels = [record.levelname for record in caplog.records if record.name == writer.__name__]
    assert levels == ["WARNING", "INFO"]


def test_what_cannot_be_written_at_the_end_is_dropped_counted_and_logged(
    make_dumper: MakeDumper, dumps: Path, caplog: pytest.LogCaptureFixture
) -> None:
    dumper = make_dumper()
    _block(dumps)
    for _ in range(3):
        dumper.offer(passed())
        dumper.offer(failed())
    dumper.close()
    assert dumper.stats() == DumpStats(passed_groups=0, failed_groups=0, waiting=0, dropped=6)
    assert caplog.records[-1].args == (6,)


def test_groups_beyond_the_memory_limit_are_dropped_counted_and_logged(
    make_dumper: MakeDumper, dumps: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(writer, "RETRY_S", 0.01)
    monkeypatch.setattr(writer, "MAX_WAITING_BYTES", 20_000)
    dumper = make_dumper()
    _block(dumps)
    for index in range(20):
        dumper.offer(make_group((1.0,), index, text=TEXT))
    waiting = dumper.stats().waiting
    assert 1 < waiting < 10
    assert dumper.stats().dropped == 20 - waiting
    assert [record.threadName for record in caplog.records].count("MainThread") == 1
    dumps.unlink()
    wait_until(lambda: dumper.stats().waiting == 0)
    assert indices(read_groups(dumps)) == list(range(waiting))


def test_what_fits_on_a_full_disk_is_written_at_the_end_and_the_rest_is_counted(
    make_dumper: MakeDumper, dumps: Path, limit_files: LimitFiles
) -> None:
    dumper = make_dumper(start=False)
    limit_files(50_000)  # as on a full disk, a write is cut short and the next one fails
    for index in range(30):  # one batch, which does not fit as a whole
        dumper.offer(make_group((1.0,), index, text=TEXT))
    dumper.start()
    dumper.close()
    stats = dumper.stats()
    assert stats.passed_groups > 0 and stats.passed_groups + stats.dropped == 30
    assert indices(read_groups(dumps)) == list(range(stats.passed_groups))
    assert all(path.read_bytes().endswith(b"\n") for path in dumps.iterdir())
