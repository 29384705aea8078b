"""The shutdown of an environment, with mocks that record calls."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from reasoning_env.atropos import Mode, Process, Serve
from reasoning_env.atropos.modes.shutdown import close

STEPS = [
    "lifetime.stop_background",
    "client.close",
    "lifetime.stop_sending",
    "lifetime.save_last",
    "run_api.leave",
    "session.close",
]
ORDER = [*STEPS, "dumper.close", "mode_file.close", "jsonl_writer.close"]


def make_world(mode: Mode) -> tuple[Any, Any]:
    """Return an environment with one worker that never ends, and mocks of the parts that the shutdown uses."""
    files = {name: Mock() for name in ("dumper", "mode_file", "jsonl_writer")}
    run = AsyncMock(mode=mode, inference=SimpleNamespace(outage_s=0.0, close=AsyncMock()), **files)
    mode.close = run.mode_file.close  # type: ignore[method-assign]
    client = SimpleNamespace(check_task=asyncio.create_task(asyncio.sleep(600)), openai=run.client)
    run.clients = [client]
    env = SimpleNamespace(
        workers={asyncio.create_task(asyncio.Event().wait())},
        eval_workers=set(),
        eval_runner=None,
        jsonl_writer=run.jsonl_writer,
        curr_step=3,
    )
    return env, run


def told(run: Any) -> list[str]:
    return [name for name, _, _ in run.mock_calls if "__bool__" not in name]


@pytest.mark.parametrize("why", ["no grace", "inference is out", "not served"])
async def test_shutdown_cancels_groups_in_flight(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reasoning_env.atropos.modes.shutdown.SHUTDOWN_GRACE_S", 0.0 if why == "no grace" else 600.0)
    mode = Process() if why == "not served" else Serve()
    env, run = make_world(mode)
    run.inference.outage_s = 5.0 if why == "inference is out" else 0.0
    await close(env, run)
    assert all(task.cancelled() for task in (*env.workers, run.clients[0].check_task))
    assert told(run) == ORDER


@pytest.mark.parametrize("step", STEPS)
async def test_shutdown_continues_after_one_of_its_steps_raises(step: str, caplog: pytest.LogCaptureFixture) -> None:
    env, run = make_world(Process())
    run.configure_mock(**{f"{step}.side_effect": OSError})
    await close(env, run)
    assert told(run) == ORDER
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
