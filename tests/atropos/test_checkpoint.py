from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reasoning_env.atropos import checkpoint
from reasoning_env.atropos.checkpoint import Checkpointer


class Keeper:
    """Remembers what it was told to save."""

    def __init__(self, folder: Path | None = Path("folder")) -> None:
        self.folder = folder
        self.saved: list[tuple[Any, ...]] = []
        self.busy = False
        self.fails = False

    def save(self, step: int, state: Any, waiting: Any, delivered_up_to: int, *, latest: bool) -> None:
        if self.fails:
            raise OSError("disk full")
        self.saved.append((step, state, waiting, delivered_up_to, latest))


QUEUE: Any = SimpleNamespace(waiting=lambda: ["group"], delivered_up_to=7)


def make(keeper: Any) -> Checkpointer:
    return Checkpointer(keeper, QUEUE, lambda: {"state": 1})


@pytest.mark.parametrize("latest", [True, False])
def test_state_is_saved_with_what_waits_for_delivery(latest: bool) -> None:
    keeper = Keeper()
    make(keeper).save(5, latest=latest)
    assert keeper.saved == [(5, {"state": 1}, ["group"], 7, latest)]


def test_nothing_is_collected_or_saved_without_a_folder() -> None:
    keeper = Keeper(None)
    Checkpointer(keeper, QUEUE, lambda: pytest.fail("not to be asked")).save(5)  # type: ignore[arg-type]
    assert keeper.saved == []


async def test_state_is_saved_regularly_while_it_changes_and_the_disk_keeps_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(checkpoint, "SAVE_INTERVAL_S", 0.0)
    keeper, now = Keeper(), (1, "a")
    asked = asyncio.Semaphore(0)

    def progress() -> tuple[int, object]:
        asked.release()
        return now

    async def rounds() -> None:
        while not asked.locked():
            await asked.acquire()
        for _ in range(3):
            await asked.acquire()

    saving = asyncio.create_task(make(keeper).save_regularly(progress))
    await rounds()
    assert [(saved[0], saved[-1]) for saved in keeper.saved] == [(1, True)]
    now = (2, "b")
    keeper.busy = True
    await rounds()
    assert len(keeper.saved) == 1
    keeper.busy = False
    await rounds()
    assert [saved[0] for saved in keeper.saved] == [1, 2]
    now = (3, "c")
    keeper.fails = True
    await rounds()
    assert "disk full" in caplog.text
    keeper.fails = False
    await rounds()
    assert [saved[0] for saved in keeper.saved] == [1, 2, 3]
    saving.cancel()
    await asyncio.wait([saving])
