"""The writer on a disk that hangs, fills up or goes away."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reasoning_env.records import DumpStats
from reasoning_env.rollouts import RolloutDumper, read_groups, writer

from .conftest import MakeDumper
from .groups import PASSED, REPOSITORY, failed, indices, make_group, names, passed, wait_until


def _refuse(*arguments: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def _count(path: Path) -> int:
    return len(path.read_bytes().splitlines())


class Gate:
    """A sync that does not come back until `open` is called, as on a disk that hangs."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self._open = threading.Event()

    def sync(self, fd: int) -> None:
        self.entered.set()
        assert self._open.wait(10)

    def open(self) -> None:
        self._open.set()


@pytest.fixture
def hanging_disk(monkeypatch: pytest.MonkeyPatch, make_dumper: MakeDumper) -> Iterator[Gate]:
    gate = Gate()
    monkeypatch.setattr(os, "fdatasync", gate.sync)
    yield gate
    gate.open()


def _hang(dumper: RolloutDumper, gate: Gate) -> None:
    """Bring the writer to its first sync, where it hangs."""
    dumper.offer(failed())
    assert gate.entered.wait(10)


def test_offer_returns_while_the_disk_hangs(hanging_disk: Gate, make_dumper: MakeDumper, dumps: Path) -> None:
    dumper = make_dumper()

    async def run() -> None:
        _hang(dumper, hanging_disk)
        before = names(dumps)
        for index in range(200):
            dumper.offer(passed(index))
        assert dumper.stats().waiting == 201
        assert names(dumps) == before

    asyncio.run(run())
    hanging_disk.open()
    dumper.close()
    assert dumper.stats() == DumpStats(passed_groups=200, failed_groups=1, files_finished=3, waiting=0, dropped=0)


def test_close_gives_up_at_its_timeout(
    hanging_disk: Gate, make_dumper: MakeDumper, caplog: pytest.LogCaptureFixture
) -> None:
    dumper = make_dumper()
    _hang(dumper, hanging_disk)
    dumper.offer(passed())
    dumper.close(timeout_s=0.01)
    assert "2 groups still wait" in caplog.messages[-1]
    hanging_disk.open()
    dumper.close()
    assert dumper.stats() == DumpStats(passed_groups=1, failed_groups=1, files_finished=2, waiting=0, dropped=0)


def test_groups_beyond_the_memory_limit_are_counted_and_logged_once(
    hanging_disk: Gate, make_dumper: MakeDumper, dumps: Path, caplog: pytest.LogCaptureFixture
) -> None:
    dumper = make_dumper()
    _hang(dumper, hanging_disk)
    text = "x" * (writer.MAX_WAITING_BYTES // 4)
    for index in range(9):
        dumper.offer(make_group((1.0,), index, text=text))
    assert (dumper.stats().waiting, dumper.stats().dropped) == (5, 5)
    assert [record.levelname for record in caplog.records if "being lost" in record.message] == ["ERROR"]
    hanging_disk.open()
    dumper.close()
    assert indices(read_groups(dumps / PASSED.format(0))) == [0, 1, 2, 3]


def test_written_groups_make_room_for_others(make_dumper: MakeDumper) -> None:
    dumper = make_dumper()
    text = "x" * (writer.MAX_WAITING_BYTES // 4)
    for index in range(6):
        dumper.offer(make_group((1.0,), index, text=text))
        wait_until(lambda: dumper.stats().waiting == 0)
    assert dumper.stats().passed_groups == 6


def test_tokens_do_not_wait_in_memory(hanging_disk: Gate, make_dumper: MakeDumper) -> None:
    dumper = make_dumper()
    _hang(dumper, hanging_disk)
    group = passed()
    tokens = group.rollouts[0].tokens
    before = sys.getrefcount(tokens)
    dumper.offer(group)
    assert dumper.stats().waiting == 2
    assert sys.getrefcount(tokens) == before


def test_removed_folder_is_made_again_with_every_group(make_dumper: MakeDumper, dumps: Path) -> None:
    dumper = make_dumper()
    for index in range(5):
        dumper.offer(passed(index))
    wait_until(lambda: dumper.stats().passed_groups == 5)
    shutil.rmtree(dumps)
    for index in range(5, 10):
        dumper.offer(passed(index))
    dumper.close()
    assert indices(read_groups(dumps)) == list(range(10))
    assert dumper.stats().dropped == 0


def _replace_by_a_file(dumps: Path) -> None:
    shutil.rmtree(dumps)
    dumps.write_text("in the way")


def test_groups_wait_in_order_until_writing_works_again(make_dumper: MakeDumper, dumps: Path) -> None:
    dumper = make_dumper()
    dumper.offer(passed(0))
    wait_until(lambda: dumper.stats().passed_groups == 1)
    _replace_by_a_file(dumps)
    for index in range(1, 20):
        dumper.offer(passed(index))
    assert dumper.stats().waiting == 19
    dumps.unlink()
    dumper.offer(passed(20))
    dumper.close()
    assert indices(read_groups(dumps)) == list(range(21))


def test_writing_resumes_without_another_group(
    make_dumper: MakeDumper, dumps: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "RETRY_S", 0.01)
    dumper = make_dumper()
    _replace_by_a_file(dumps)
    dumper.offer(passed())
    dumps.unlink()
    wait_until(lambda: dumper.stats().passed_groups == 1)


def test_outage_is_logged_once_at_each_end(
    make_dumper: MakeDumper, dumps: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(writer, "RETRY_S", 0.001)
    dumper = make_dumper()

    def levels() -> list[str]:
        return [record.levelname for record in caplog.records if record.name == writer.__name__]

    with caplog.at_level(logging.INFO):
        for _ in range(2):
            _replace_by_a_file(dumps)
            for _ in range(5):
                dumper.offer(passed())
            wait_until(lambda: levels()[-1:] == ["ERROR"])
            dumps.unlink()
            wait_until(lambda: dumper.stats().waiting == 0)
    assert levels() == ["ERROR", "INFO", "ERROR", "INFO"]


def test_what_cannot_be_written_at_the_end_is_counted_as_lost(
    make_dumper: MakeDumper, dumps: Path, caplog: pytest.LogCaptureFixture
) -> None:
    dumper = make_dumper()
    dumper.offer(passed())
    wait_until(lambda: dumper.stats().passed_groups == 1)
    _replace_by_a_file(dumps)
    dumper.offer(passed())
    dumper.offer(failed())
    dumper.close()
    assert dumper.stats() == DumpStats(passed_groups=0, failed_groups=0, files_finished=0, waiting=0, dropped=3)
    assert caplog.messages[-1] == "3 groups of rollouts were lost in this run"


def test_file_that_cannot_be_finished_at_the_end_keeps_its_groups(
    make_dumper: MakeDumper, dumps: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    dumper = make_dumper()
    dumper.offer(passed(3))
    wait_until(lambda: dumper.stats().passed_groups == 1)
    monkeypatch.setattr(os, "rename", _refuse)
    dumper.close()
    part = dumps / (PASSED.format(0) + ".part")
    assert indices(read_groups(part)) == [3]
    assert dumper.stats() == DumpStats(passed_groups=1, failed_groups=0, files_finished=0, waiting=0, dropped=0)
    assert caplog.messages == [
        f"{part} could not be finished ([Errno 28] No space left on device): its groups stay in it"
    ]


FULL_DISK = """
import os, pathlib, resource, sys
from tests.rollouts.groups import passed, wait_until
from reasoning_env.rollouts import RolloutDumper
folder = pathlib.Path(sys.argv[1])
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
dumper = RolloutDumper(folder, "run", dump_passed=True, dump_failed=True, score_threshold=0.7)
for index in range(30):
    dumper.offer(passed(index))
part = folder / "reasoning_gym_environment_rollouts_run_0000.jsonl.part"
wait_until(lambda: part.exists() and part.stat().st_size == 10_000 and dumper.stats().passed_groups > 0)
stuck = dumper.stats()
assert stuck.waiting > 0 and stuck.passed_groups > 0 and stuck.dropped == 0, stuck
if "recovers" in sys.argv:
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
dumper.close()
stats = dumper.stats()
print(stats.passed_groups, stats.dropped)
"""


def _run_on_a_full_disk(dumps: Path, *arguments: str) -> list[int]:
    """Runs 30 groups against a real limit on the size of files; returns how many were written and how many lost."""
    command = [sys.executable, "-c", FULL_DISK, str(dumps), *arguments]
    child = subprocess.run(command, cwd=REPOSITORY, timeout=30, check=True, capture_output=True, text=True)
    return [int(number) for number in child.stdout.split()]


def test_full_disk_that_is_freed_loses_nothing(dumps: Path) -> None:
    assert _run_on_a_full_disk(dumps, "recovers") == [30, 0]
    assert indices(read_groups(dumps)) == list(range(30))


def test_full_disk_at_the_end_leaves_whole_lines_and_counts_the_rest(dumps: Path) -> None:
    written, lost = _run_on_a_full_disk(dumps)
    assert written + lost == 30
    assert names(dumps) == [PASSED.format(0)]
    assert indices(read_groups(dumps)) == list(range(written))


def test_file_that_could_not_be_finished_is_finished_later(
    make_dumper: MakeDumper, dumps: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dumper = make_dumper()
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", _refuse)
        for index in range(50):
            dumper.offer(failed(index))
        wait_until(lambda: dumper.stats().failed_groups == 50)
        dumper.offer(failed(50))
        assert dumper.stats().files_finished == 0
    dumper.offer(failed(51))
    dumper.close()
    assert indices(read_groups(dumps)) == list(range(52))
    assert [_count(dumps / name) for name in names(dumps)] == [50, 2]
