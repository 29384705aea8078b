from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from reasoning_env.atropos.run_api import session

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
    monkeypatch.setattr(session, "RETRY_S", 0.01)
    monkeypatch.setattr(session, "POLL_S", 0.01)
    monkeypatch.setattr(session, "MAX_PAUSE_S", 0.1)


def said(caplog: pytest.LogCaptureFixture, *levels: str) -> list[str]:
    """What was logged by the environment, with these levels."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelname in levels and record.name.startswith("reasoning_env")
    ]
