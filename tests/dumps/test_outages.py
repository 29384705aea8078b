"""The dump writer on a full, missing or hanging disk: callers never wait, and writing resumes afterwards."""

from __future__ import annotations

import logging
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reasoning_env.dumps import writer
from reasoning_env.dumps.reader import stream_groups
from reasoning_env.metrics.stats import DumpStats
from reasoning_env.storage import files as files_module
from tests.waiting import PATIENCE_S, wait_until

from .conftest import LimitFiles, MakeDumper
from .groups import PASSED, failed, indices, make_group, passed

TEXT = "x" * 4_000


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "pauses", lambda: iter(lambda: 0.01, None))


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch, make_dumper: MakeDumper) -> Iterator[Any]:
    """A disk that hangs until `opened` is set. `entered` is set when the writer starts waiting for the disk."""
    gate = SimpleNamespace(entered=threading.Event(), opened=threading.Event())
    write_all = files_module.write_all

    def wait(*arguments: Any) -> None:
        gate.entered.set()
        assert gate.opened.wait(PATIENCE_S)
        write_all(*arguments)

    monkeypatch.setattr(files_module, "write_all", wait)
    yield gate
    gate.opened.set()


def _block(dumps: Path) -> None:
    """Replace the folder by a file. Missing permissions would not stop a superuser."""
    shutil.rmtree(dumps)
    dumps.write_text("in the way")


# ---------------------------------------------------------------------------- a failing disk


def test_groups_wait_in_order_while_writing_the_dump_fails(make_dumper: MakeDumper, dumps: Path) -> None:
    dumper = make_dumper()
    _block(dumps)
    for index in range(9):
        dumper.offer(passed(index))
    assert dumper.stats() == DumpStats(passed_groups=0, failed_groups=0, waiting=9, dropped=0)
    dumps.unlink()
    wait_until(lambda: dumper.stats() == DumpStats(passed_groups=9, failed_groups=0, waiting=0, dropped=0))
    assert indices(stream_groups(dumps)) == list(range(9))


def test_disk_outage_is_logged_once(make_dumper: MakeDumper, dumps: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, writer.__name__)
    dumper = make_dumper()
    _block(dumps)
    for _ in range(3):
        dumper.offer(passed())
    wait_until(lambda: caplog.records)
    dumps.unlink()
    dumper.close()
    levels = [record.levelname for record in caplog.records if record.name == writer.__name__]
    assert levels == ["WARNING", "INFO"]


def test_groups_still_waiting_when_the_dump_writer_closes_are_dropped(
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


def test_waiting_groups_are_dropped_above_a_memory_limit_while_the_disk_fails(
    make_dumper: MakeDumper, dumps: Path, caplog: pytest.LogCaptureFixture
) -> None:
    dumper = make_dumper(max_waiting_bytes=20_000)
    _block(dumps)
    for index in range(20):
        dumper.offer(make_group((1.0,), index, text=TEXT))
    waiting = dumper.stats().waiting
    assert 1 < waiting < 10
    assert dumper.stats().dropped == 20 - waiting
    assert [record.threadName for record in caplog.records].count("MainThread") == 1
    dumps.unlink()
    wait_until(lambda: dumper.stats().waiting == 0)
    assert indices(stream_groups(dumps)) == list(range(waiting))


def test_full_disk_leaves_no_truncated_line_in_a_dump(
    make_dumper: MakeDumper, dumps: Path, limit_files: LimitFiles
) -> None:
    dumper = make_dumper(start=False)
    limit_files(50_000)  # as on a full disk, one write is incomplete and the next write fails
    for index in range(30):
        dumper.offer(make_group((1.0,), index, text=TEXT))
    dumper.start()
    dumper.close()
    stats = dumper.stats()
    assert stats.passed_groups > 0 and stats.passed_groups + stats.dropped == 30
    assert indices(stream_groups(dumps)) == list(range(stats.passed_groups))
    assert all(path.read_bytes().endswith(b"\n") for path in dumps.iterdir())


# ---------------------------------------------------------------------------- a hanging disk


def test_offering_a_group_to_the_dump_writer_does_not_wait_for_the_disk(
    make_dumper: MakeDumper, gate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    dumper = make_dumper()
    dumper.offer(failed())
    assert gate.entered.wait(PATIENCE_S)
    with monkeypatch.context() as patch:
        patch.setattr(writer, "encode_group", None)
        for index in range(200):
            dumper.offer(passed(index))
    assert dumper.stats().waiting == 201


def test_closing_the_dump_writer_gives_up_on_a_hanging_disk(
    make_dumper: MakeDumper, gate: Any, caplog: pytest.LogCaptureFixture
) -> None:
    dumper = make_dumper()
    dumper.offer(failed())
    assert gate.entered.wait(PATIENCE_S)
    dumper.offer(passed())
    dumper.close(timeout_s=0.01)
    assert caplog.records[-1].args[-1] == 2
    gate.opened.set()
    dumper.close()
    assert dumper.stats().waiting == 0


# ---------------------------------------------------------------------------- deleted files


def _move(path: Path) -> None:
    path.parent.rename(path.parent.with_name("moved"))


def _replace(path: Path) -> None:
    (path.parent / "theirs").write_bytes(b"theirs\n")
    (path.parent / "theirs").replace(path)


def _cut(path: Path) -> None:
    os.truncate(path, 2)


@pytest.mark.parametrize("take_away", [_move, Path.unlink, _replace, _cut])
def test_deleted_dump_file_is_created_again(
    make_dumper: MakeDumper, dumps: Path, take_away: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    dumper = make_dumper()
    dumper.offer(passed(0))
    wait_until(lambda: dumper.stats().passed_groups == 1)
    take_away(dumps / PASSED.format(0))
    left = {path: path.read_bytes() for path in dumps.parent.rglob("*.jsonl")}
    dumper.offer(passed(1))
    dumper.close()
    found = {path: path.read_bytes() for path in dumps.parent.rglob("*.jsonl")}
    assert indices(stream_groups(dumps / PASSED.format(1))) == [1]
    assert found.items() > left.items()
    assert [record.levelname for record in caplog.records if record.levelno > logging.INFO] == ["WARNING"]
