"""The end of an environment, played by one that only remembers what it was told."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from reasoning_env.atropos.config import RunMode
from reasoning_env.atropos.modes.shutdown import close

ORDER = [
    "stop_background",
    "openai",
    "stop_sending",
    "save_last",
    "leave",
    "stop_generating",
    "dumper",
    "groups",
    "jsonl",
]


class World:
    """An environment and its collaborators, with one worker; the step named `fails` raises."""

    def __init__(self, mode: RunMode = RunMode.SERVE, grace_s: float = 600.0, fails: str = "") -> None:
        self.told: list[str] = []
        self.released = asyncio.Event()
        self.worker = asyncio.create_task(self.released.wait())
        self.check = asyncio.create_task(asyncio.Event().wait())
        self.inference = SimpleNamespace(outage_s=0.0)

        def step(name: str) -> Any:
            async def remember(*_: object) -> None:
                self.told.append(name)
                if name == fails:
                    raise OSError(name)

            return remember

        def writer(name: str) -> Any:
            return SimpleNamespace(close=lambda: self.told.append(name))

        server = SimpleNamespace(check_task=self.check, openai=SimpleNamespace(close=step("openai")))
        self.env: Any = SimpleNamespace(
            config=SimpleNamespace(shutdown_grace_s=grace_s),
            workers={self.worker},
            eval_workers=set(),
            eval_runner=None,
            server=SimpleNamespace(servers=[server]),
            jsonl_writer=writer("jsonl"),
            curr_step=3,
        )
        self.worker.add_done_callback(self.env.workers.discard)
        steps: Any = {name: step(name) for name in ("stop_background", "stop_sending", "save_last", "stop_generating")}
        session = SimpleNamespace(leave=step("leave"))
        self.run: Any = SimpleNamespace(
            mode=mode,
            inference=self.inference,
            session=session,
            dumper=writer("dumper"),
            group_file=writer("groups"),
            **steps,
        )

    async def close(self) -> None:
        await close(self.env, self.run)


@pytest.mark.parametrize("why", ["no grace", "inference is out", "not served"])
async def test_groups_in_flight_are_not_waited_for_without_need(why: str) -> None:
    world = World(RunMode.PROCESS if why == "not served" else RunMode.SERVE, 0.0 if why == "no grace" else 600.0)
    world.inference.outage_s = 5.0 if why == "inference is out" else 0.0
    await world.close()
    assert world.worker.cancelled()
    assert world.told == ORDER


@pytest.mark.parametrize("step", ["stop_background", "openai", "stop_sending", "save_last", "leave", "stop_generating"])
async def test_error_in_one_step_does_not_keep_the_others_from_happening(
    step: str, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(RunMode.PROCESS, fails=step)
    await world.close()
    assert world.told == ORDER
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
