"""When a group counts as safe, and who waits for that."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from reasoning_env.dumps import read_groups, writer
from tests.waiting import PATIENCE_S

from .conftest import MakeDumper
from .groups import PASSED, failed, indices, passed


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch, make_dumper: MakeDumper) -> Iterator[Any]:
    """A sync that does not come back until `opened` is set, as on a disk that hangs; it sets `entered`."""
    gate = SimpleNamespace(entered=threading.Event(), opened=threading.Event())

    def wait(fd: int) -> None:
        gate.entered.set()
        assert gate.opened.wait(PATIENCE_S)

    gate.sync = Mock(side_effect=wait)
    monkeypatch.setattr(os, "fdatasync", gate.sync)
    yield gate
    gate.opened.set()


def test_group_is_on_disk_when_it_is_settled(make_dumper: MakeDumper, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[list[int | None]] = []
    sync = os.fdatasync

    def observe(fd: int) -> None:
        sync(fd)
        synced.append(indices(read_groups(f"/proc/self/fd/{fd}")))

    monkeypatch.setattr(os, "fdatasync", observe)
    dumper = make_dumper()
    for index in range(3):
        dumper.offer(passed(index))
        dumper.settled().result(PATIENCE_S)
        assert synced[-1] == list(range(index + 1))


def test_groups_that_wait_are_synced_together(make_dumper: MakeDumper, gate: Any) -> None:
    dumper = make_dumper()
    dumper.offer(passed(0))
    assert gate.entered.wait(PATIENCE_S)
    for index in range(1, 40):
        dumper.offer(passed(index))
        dumper.offer(failed(index))
    gate.opened.set()
    dumper.settled().result(PATIENCE_S)
    assert gate.sync.call_count == 3  # the first group, then one for each kind


def test_groups_of_one_commit_that_fill_a_file_are_done_when_those_in_the_next_file_are(
    make_dumper: MakeDumper, dumps: Path, gate: Any
) -> None:
    dumper = make_dumper(start=False)
    for index in range(101):
        dumper.offer(passed(index))
    commit = dumper.settled()
    dumper.start()
    assert gate.entered.wait(PATIENCE_S)
    assert not commit.done()
    gate.opened.set()
    commit.result(PATIENCE_S)
    assert indices(read_groups(dumps / PASSED.format(1))) == [100]


async def test_caller_that_stops_waiting_takes_nothing_from_the_others(make_dumper: MakeDumper, dumps: Path) -> None:
    dumper = make_dumper()
    dumper.offer(passed(0))
    waiter = asyncio.create_task(dumper.wait_settled())
    await asyncio.sleep(0)
    waiter.cancel()
    await asyncio.wait([waiter])
    await dumper.wait_settled()
    assert indices(read_groups(dumps)) == [0]


async def test_disk_that_hangs_is_waited_for_once_and_named_until_it_goes_on(
    make_dumper: MakeDumper, gate: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    dumper = make_dumper()
    await dumper.wait_settled()  # nothing was taken
    monkeypatch.setattr(writer, "PATIENCE_S", 0.01)
    dumper.offer(passed(0))
    await dumper.wait_settled()
    monkeypatch.setattr(writer, "PATIENCE_S", 600.0)
    await dumper.wait_settled()
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    gate.opened.set()
    dumper.settled().result(PATIENCE_S)
    dumper.offer(passed(1))
    await dumper.wait_settled()
    assert dumper.stats().passed_groups == 2


def test_offer_encodes_nothing_and_touches_no_file_while_the_disk_hangs(
    make_dumper: MakeDumper, dumps: Path, gate: Any, monkeypatch: pytest.MonkeyPatch
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


def test_close_gives_up_at_its_timeout(make_dumper: MakeDumper, gate: Any, caplog: pytest.LogCaptureFixture) -> None:
    dumper = make_dumper()
    dumper.offer(failed())
    assert gate.entered.wait(PATIENCE_S)
    dumper.offer(passed())
    dumper.close(timeout_s=0.01)
    assert caplog.records[-1].args[-1] == 2
    gate.opened.set()
    dumper.close()
    assert dumper.stats().waiting == 0
