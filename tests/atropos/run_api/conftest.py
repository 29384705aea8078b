from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from reasoning_env.atropos.run_api import RunApiSession
from reasoning_env.runtime import retries
from tests.waiting import until

from .served import ServedRunApi

ENTRY = {
    "max_token_length": 4096,
    "desired_name": "reasoning_gym",
    "weight": 1.0,
    "min_batch_allocation": None,
    "group_size": 1,
}


@pytest.fixture
async def api() -> AsyncIterator[ServedRunApi]:
    async with ServedRunApi() as api:
        yield api
        assert api.count("/reset_data") == 0, "no environment may empty run-api"


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RunApiSession, "longest_pause_s", 0.01)
    monkeypatch.setattr(retries, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(retries, "LONGEST_PAUSE_S", 0.05)


def said(caplog: pytest.LogCaptureFixture, *levels: str) -> list[str]:
    """Return the messages that the environment logged at the given levels."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelname in levels and record.name.startswith("reasoning_env")
    ]


@pytest.fixture
async def session(api: ServedRunApi) -> RunApiSession:
    """A session that is registered with environment number 0."""
    session = RunApiSession(api.url, ENTRY)
    await session.register()
    return session


async def until_asked(api: ServedRunApi, path: str, times: int = 2) -> None:
    """Wait until this many further requests have arrived."""
    asked = api.count(path)
    await until(lambda: api.count(path) >= asked + times)


async def register_others(api: ServedRunApi, count: int, **fields: Any) -> None:
    for _ in range(count):
        await api.call("POST", "/register-env", {**ENTRY, **fields})
