"""When a group counts as safe: the futures of `offer`, numbering across runs, and the end without `close`."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import threading
from io import FileIO
from pathlib import Path
from typing import Any

import pytest

from reasoning_env.records import DumpStats, Group
from reasoning_env.rollouts import parts, read_groups, writer

from .conftest import MakeDumper
from .groups import FAILED, PASSED, failed, indices, make_group, names, passed, wait_until

TIMEOUT_S = 10.0


def _in_the_way(dumps: Path) -> None:
    dumps.rmdir()
    dumps.write_text("in the way")


# Futures


def test_group_is_on_disk_when_its_future_is_done(
    make_dumper: MakeDumper, dumps: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[list[int | None]] = []
    sync = os.fdatasync

    def observe(fd: int) -> None:
        sync(fd)
        synced.append(indices(read_groups(f"/proc/self/fd/{fd}")))

    monkeypatch.setattr(os, "fdatasync", observe)
    dumper = make_dumper()
    for index in range(3):
        future = dumper.offer(passed(index))
        assert future is not None
        future.result(TIMEOUT_S)
        assert synced[-1] == list(range(index + 1))


def test_group_that_no_stream_takes_has_no_future(make_dumper: MakeDumper) -> None:
    assert make_dumper().offer(make_group((0.5, 0.0))) is None


def test_future_is_open_while_the_sync_is_under_way(make_dumper: MakeDumper, monkeypatch: pytest.MonkeyPatch) -> None:
    entered, leave = threading.Event(), threading.Event()

    def hang(fd: int) -> None:
        entered.set()
        assert leave.wait(TIMEOUT_S)

    monkeypatch.setattr(os, "fdatasync", hang)
    dumper = make_dumper()
    future = dumper.offer(passed())
    assert future is not None
    assert entered.wait(TIMEOUT_S)
    assert not future.done()
    leave.set()
    future.result(TIMEOUT_S)


def test_groups_that_wait_are_synced_together(make_dumper: MakeDumper, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs: list[int] = []
    entered, leave = threading.Event(), threading.Event()

    def count(fd: int) -> None:
        syncs.append(fd)
        entered.set()
        assert leave.wait(TIMEOUT_S)

    monkeypatch.setattr(os, "fdatasync", count)
    dumper = make_dumper()
    dumper.offer(passed(0))
    assert entered.wait(TIMEOUT_S)
    for index in range(1, 40):
        dumper.offer(passed(index))
        dumper.offer(failed(index))
    leave.set()
    dumper.settled().result(TIMEOUT_S)
    assert len(syncs) == 3  # the first group, then one for each stream


def test_newest_future_is_done_last(make_dumper: MakeDumper) -> None:
    dumper = make_dumper()
    futures = [dumper.offer((passed, failed)[index % 2](index)) for index in range(300)]
    assert dumper.settled() is futures[-1]
    dumper.settled().result(TIMEOUT_S)
    assert all(future is not None and future.done() for future in futures)


def test_a_commit_that_a_full_file_cuts_in_two_is_done_with_its_last_group(
    make_dumper: MakeDumper, dumps: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished, leave = threading.Event(), threading.Event()
    rename = os.rename

    def hang(source: Path, target: Path) -> None:
        rename(source, target)
        finished.set()
        assert leave.wait(TIMEOUT_S)

    monkeypatch.setattr(os, "rename", hang)
    monkeypatch.setattr(writer, "COMMIT_DELAY_S", 0.5)
    dumper = make_dumper()
    futures = {dumper.offer(passed(index)) for index in range(writer.PASSED_GROUPS_PER_FILE + 1)}
    (commit,) = futures
    assert commit is not None
    assert finished.wait(TIMEOUT_S)
    assert not commit.done()
    leave.set()
    commit.result(TIMEOUT_S)
    assert indices(read_groups(dumps / (PASSED.format(1) + ".part"))) == [writer.PASSED_GROUPS_PER_FILE]


def test_groups_that_wait_for_long_wait_without_their_tokens(
    make_dumper: MakeDumper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "COMMIT_DELAY_S", 0.5)
    seen: list[int] = []
    encode = writer.encode_group

    def count(group: Group) -> bytes:
        seen.append(len(group.rollouts[0].tokens))
        return encode(group)

    monkeypatch.setattr(writer, "encode_group", count)
    dumper = make_dumper()
    group = make_group()
    tokens = len(group.rollouts[0].tokens)
    assert tokens > 0
    for _ in range(writer.WHOLE_GROUPS + 2):
        dumper.offer(group)
    dumper.settled().result(TIMEOUT_S)
    assert seen == [tokens] * writer.WHOLE_GROUPS + [0, 0]


def test_nothing_under_way_is_settled(make_dumper: MakeDumper) -> None:
    assert make_dumper().settled().done()


def test_caller_that_stops_waiting_takes_nothing_from_the_others(make_dumper: MakeDumper, dumps: Path) -> None:
    dumper = make_dumper()

    async def run() -> None:
        future = dumper.offer(passed(0))
        assert future is not None
        waiter = asyncio.ensure_future(asyncio.wrap_future(future))
        await asyncio.sleep(0)
        waiter.cancel()
        await asyncio.wait([waiter])
        await asyncio.wrap_future(future)
        assert indices(read_groups(dumps / (PASSED.format(0) + ".part"))) == [0]

    asyncio.run(run())


def test_group_that_is_lost_has_a_future_that_is_done(make_dumper: MakeDumper) -> None:
    dumper = make_dumper()
    unwritable = dumper.offer(make_group(metadata_json="{"))
    assert unwritable is not None
    unwritable.result(TIMEOUT_S)
    dumper.close()
    late = dumper.offer(passed())
    assert late is not None and late.done()
    assert dumper.stats().dropped == 2


def test_nobody_waits_for_a_disk_that_refuses(make_dumper: MakeDumper, dumps: Path) -> None:
    dumper = make_dumper()
    _in_the_way(dumps)
    futures = [dumper.offer(passed(index)) for index in range(9)]
    for future in futures:
        assert future is not None
        future.result(TIMEOUT_S)
    later = dumper.offer(passed(9))
    assert later is not None and later.done()
    assert (dumper.stats().waiting, dumper.stats().dropped) == (10, 0)
    dumps.unlink()
    dumper.close()
    assert indices(read_groups(dumps)) == list(range(10))


def test_futures_wait_for_the_disk_again_after_an_outage(
    make_dumper: MakeDumper, dumps: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "RETRY_S", 0.01)
    dumper = make_dumper()
    _in_the_way(dumps)
    dumper.offer(passed(0))
    dumper.settled().result(TIMEOUT_S)
    dumps.unlink()
    wait_until(lambda: dumper.stats().passed_groups == 1)
    # The count is told a moment before the end of the outage is.
    wait_until(lambda: dumper.offer(passed(1)) is dumper.settled())
    dumper.settled().result(TIMEOUT_S)
    assert dumper.stats().waiting == 0


# Syncs that fail


def test_groups_of_a_sync_that_failed_are_written_again(
    make_dumper: MakeDumper, dumps: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "RETRY_S", 0.01)
    sync, failures = os.fdatasync, [errno.EIO, errno.ENOSPC, errno.EIO]

    def fail_at_first(fd: int) -> None:
        if failures:
            os.ftruncate(fd, os.fstat(fd).st_size - 1)  # as if the disk had not taken all
            raise OSError(failures.pop(), "no")
        sync(fd)

    monkeypatch.setattr(os, "fdatasync", fail_at_first)
    dumper = make_dumper()
    for index in range(120):
        dumper.offer(passed(index))
        dumper.offer(failed(index))
    wait_until(lambda: dumper.stats().waiting == 0)
    dumper.close()
    assert indices(read_groups(dumps)) == [*range(120), *range(120)]
    assert (dumper.stats().passed_groups, dumper.stats().failed_groups, dumper.stats().dropped) == (120, 120, 0)


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP])
def test_file_system_without_sync_is_written_to(
    make_dumper: MakeDumper, dumps: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(fd: int) -> None:
        raise OSError(number, "not supported")

    monkeypatch.setattr(os, "fdatasync", refuse)
    monkeypatch.setattr(os, "fsync", refuse)
    dumper = make_dumper()
    dumper.offer(passed(0))
    dumper.close()
    assert indices(read_groups(dumps)) == [0]
    assert dumper.stats() == DumpStats(passed_groups=1, failed_groups=0, files_finished=1, waiting=0, dropped=0)


# Numbers that go on


def test_state_before_anything_is_written(make_dumper: MakeDumper) -> None:
    assert make_dumper().state() == {"run_uuid": "run", "passed": 0, "failed": 0}


def test_open_file_counts_as_used(make_dumper: MakeDumper) -> None:
    dumper = make_dumper()
    for index in range(101):
        dumper.offer(passed(index))
    dumper.settled().result(TIMEOUT_S)
    assert dumper.state() == {"run_uuid": "run", "passed": 2, "failed": 0}


def test_state_survives_json_and_numbers_go_on_from_it(make_dumper: MakeDumper, dumps: Path) -> None:
    first = make_dumper()
    first.offer(passed(0))
    first.close()
    second = make_dumper(run_uuid="other")
    second.resume(json.loads(json.dumps(first.state())))
    second.offer(passed(1))
    second.offer(failed(2))
    second.close()
    assert names(dumps) == [FAILED.format(0), PASSED.format(0), PASSED.format(1)]
    assert second.state() == {"run_uuid": "run", "passed": 2, "failed": 1}


def test_numbers_that_were_used_after_the_state_was_taken_are_passed_over(make_dumper: MakeDumper, dumps: Path) -> None:
    first = make_dumper()
    state = first.state()
    first.offer(passed(0))
    first.close()
    second = make_dumper(run_uuid="other")
    second.resume(state)
    second.offer(passed(1))
    second.close()
    assert [indices(read_groups(dumps / PASSED.format(batch))) for batch in (0, 1)] == [[0], [1]]


# The end without `close`


def test_frozen_dumper_writes_nothing_more(make_dumper: MakeDumper, dumps: Path) -> None:
    dumper = make_dumper()
    dumper.offer(passed(0))
    dumper.settled().result(TIMEOUT_S)
    dumper.freeze()
    dumper.offer(passed(1))
    dumper.close()
    assert dumper.stats().waiting == 1
    assert indices(read_groups(dumps / (PASSED.format(0) + ".part"))) == [0]


def test_freeze_waits_until_the_line_that_is_being_written_is_whole(
    make_dumper: MakeDumper, dumps: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, leave = threading.Event(), threading.Event()

    class SlowFile(FileIO):
        def write(self, data: Any) -> int:
            if not entered.is_set():
                data = data[: len(data) // 2]
                entered.set()
            else:
                assert leave.wait(TIMEOUT_S)
            return super().write(data)

    monkeypatch.setattr(parts, "FileIO", SlowFile)
    dumper = make_dumper()
    dumper.offer(passed(0))
    assert entered.wait(TIMEOUT_S)
    timer = threading.Timer(0.1, leave.set)
    timer.start()
    dumper.freeze(TIMEOUT_S)
    assert indices(read_groups(dumps / (PASSED.format(0) + ".part"))) == [0]
    timer.join()


def test_freeze_gives_up_on_a_disk_that_hangs(make_dumper: MakeDumper, monkeypatch: pytest.MonkeyPatch) -> None:
    entered, leave = threading.Event(), threading.Event()

    def hang(fd: int) -> None:
        entered.set()
        assert leave.wait(TIMEOUT_S)

    monkeypatch.setattr(os, "fdatasync", hang)
    dumper = make_dumper()
    dumper.offer(passed())
    assert entered.wait(TIMEOUT_S)
    dumper.freeze(timeout_s=0.01)
    assert dumper.stats().waiting == 1
    leave.set()
