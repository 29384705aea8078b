from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Any

import pytest

from reasoning_env.atropos import dump_gate
from reasoning_env.atropos.dump_gate import DumpGate


class Dumper:
    """A disk whose newest commit is `commit`."""

    def __init__(self) -> None:
        self.commit: Future[None] = Future()

    def settled(self) -> Future[None]:
        return self.commit


@pytest.fixture
def dumper() -> Any:
    return Dumper()


async def test_gate_without_dumps_is_open() -> None:
    await DumpGate(None).wait()


async def test_gate_opens_when_what_was_taken_is_on_disk(dumper: Any) -> None:
    waiting = asyncio.create_task(DumpGate(dumper).wait())
    for _ in range(20):
        await asyncio.sleep(0)
    assert not waiting.done()
    dumper.commit.set_result(None)
    await waiting


async def test_disk_that_hangs_is_waited_for_once_and_named_until_it_goes_on(
    dumper: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dump_gate, "PATIENCE_S", 0.01)
    gate = DumpGate(dumper)
    await gate.wait()
    monkeypatch.setattr(dump_gate, "PATIENCE_S", 600.0)
    await gate.wait()
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    dumper.commit.set_result(None)
    dumper.commit = Future()
    waiting = asyncio.create_task(gate.wait())
    for _ in range(20):
        await asyncio.sleep(0)
    assert not waiting.done()
    dumper.commit.set_result(None)
    await waiting
