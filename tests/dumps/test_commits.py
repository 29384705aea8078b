"""When a group counts as safe: the futures of `offer`, and the end without `close`."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

import pytest

from reasoning_env.dumps import files, read_groups, writer
from reasoning_env.dumps.format import encode_group
from reasoning_env.records import Group
from tests.waiting import PATIENCE_S

from .conftest import MakeDumper
from .groups import PASSED, failed, indices, make_group, passed


class Gate:
    """A sync that does not come back until `open` is called, as on a disk that hangs."""

    def __init__(self) -> None:
        self.syncs = 0
        self.entered = threading.Event()
        self._open = threading.Event()

    def sync(self, fd: int) -> None:
        self.syncs += 1
        self.entered.set()
        assert self._open.wait(PATIENCE_S)

    def open(self) -> None:
        self._open.set()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch, make_dumper: MakeDumper) -> Iterator[Gate]:
    gate = Gate()
    monkeypatch.setattr(os, "fdatasync", gate.sync)
    yield gate
    gate.open()


def test_group_is_on_disk_when_its_future_is_done(make_dumper: MakeDumper, monkeypatch: pytest.MonkeyPatch) -> None:
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
        future.result(PATIENCE_S)
        assert synced[-1] == list(range(index + 1))


def test_groups_that_wait_are_synced_together(make_dumper: MakeDumper, gate: Gate) -> None:
    dumper = make_dumper()
    dumper.offer(passed(0))
    assert gate.entered.wait(PATIENCE_S)
    for index in range(1, 40):
        dumper.offer(passed(index))
        dumper.offer(failed(index))
    gate.open()
    dumper.settled().result(PATIENCE_S)
    assert gate.syncs == 3  # the first group, then one for each kind


def test_newest_future_is_done_last(make_dumper: MakeDumper) -> None:
    dumper = make_dumper()
    assert dumper.settled().done()
    futures = [dumper.offer((passed, failed)[index % 2](index)) for index in range(300)]
    assert dumper.settled() is futures[-1]
    dumper.settled().result(PATIENCE_S)
    assert all(future is not None and future.done() for future in futures)


def test_groups_of_one_commit_that_fill_a_file_are_done_when_those_in_the_next_file_are(
    make_dumper: MakeDumper, dumps: Path, gate: Gate
) -> None:
    dumper = make_dumper(start=False)
    (commit,) = {dumper.offer(passed(index)) for index in range(101)}
    assert commit is not None
    dumper.start()
    assert gate.entered.wait(PATIENCE_S)
    assert not commit.done()
    gate.open()
    commit.result(PATIENCE_S)
    assert indices(read_groups(dumps / PASSED.format(1))) == [100]


def test_groups_that_wait_for_long_wait_without_their_tokens(
    make_dumper: MakeDumper, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    def count(group: Group) -> bytes:
        seen.append(len(group.rollouts[0].tokens))
        return encode_group(group)

    monkeypatch.setattr(writer, "encode_group", count)
    dumper = make_dumper(start=False)
    group = make_group()
    tokens = len(group.rollouts[0].tokens)
    assert tokens > 0
    for _ in range(writer.WHOLE_GROUPS + 2):
        dumper.offer(group)
    dumper.start()
    dumper.settled().result(PATIENCE_S)
    assert seen == [tokens] * writer.WHOLE_GROUPS + [0, 0]


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
        assert indices(read_groups(dumps)) == [0]

    asyncio.run(run())


def test_offer_encodes_nothing_and_touches_no_file_while_the_disk_hangs(
    make_dumper: MakeDumper, dumps: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    dumper = make_dumper()
    dumper.offer(failed())
    assert gate.entered.wait(PATIENCE_S)
    before = {path: path.stat().st_size for path in dumps.iterdir()}
    with monkeypatch.context() as patch:
        patch.setattr(writer, "encode_group", None)
        for index in range(200):
            dumper.offer(passed(index))
    assert dumper.stats().waiting == 201
    assert {path: path.stat().st_size for path in dumps.iterdir()} == before


def test_close_gives_up_at_its_timeout(make_dumper: MakeDumper, gate: Gate, caplog: pytest.LogCaptureFixture) -> None:
    dumper = make_dumper()
    dumper.offer(failed())
    assert gate.entered.wait(PATIENCE_S)
    dumper.offer(passed())
    dumper.close(timeout_s=0.01)
    assert "2 groups still wait" in caplog.messages[-1]
    gate.open()
    dumper.close()
    assert dumper.stats().waiting == 0


# The end without `close`


def test_frozen_dumper_writes_nothing_more(make_dumper: MakeDumper, dumps: Path) -> None:
    dumper = make_dumper()
    dumper.offer(passed(0))
    dumper.settled().result(PATIENCE_S)
    dumper.freeze()
    dumper.offer(passed(1))
    dumper.close()
    assert dumper.stats().waiting == 1
    assert indices(read_groups(dumps)) == [0]


def test_groups_that_are_being_encoded_when_the_dumper_is_frozen_are_not_written(
    make_dumper: MakeDumper, dumps: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dumper = make_dumper(start=False)
    dumper.offer(passed())

    def freeze_first(group: Group) -> bytes:
        dumper.freeze()
        return encode_group(group)

    monkeypatch.setattr(writer, "encode_group", freeze_first)
    dumper.start()
    dumper.settled().result(PATIENCE_S)
    assert list(dumps.iterdir()) == []


def test_freeze_waits_for_the_commit_that_is_being_written(
    make_dumper: MakeDumper, dumps: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered = threading.Event()
    write = files._write_all

    def write_slowly(file: FileIO, data: bytes) -> None:
        write(file, data[:10])
        entered.set()
        threading.Event().wait(0.1)  # a second half that comes late
        write(file, data[10:])

    monkeypatch.setattr(files, "_write_all", write_slowly)
    dumper = make_dumper()
    dumper.offer(passed(0))
    assert entered.wait(PATIENCE_S)
    dumper.freeze(PATIENCE_S)
    assert (dumps / PASSED.format(0)).read_bytes().endswith(b"\n")


def test_freeze_gives_up_on_a_disk_that_hangs(make_dumper: MakeDumper, gate: Gate) -> None:
    dumper = make_dumper()
    dumper.offer(passed())
    assert gate.entered.wait(PATIENCE_S)
    dumper.freeze(timeout_s=0.01)
    assert dumper.stats().waiting == 1
