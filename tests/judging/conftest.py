from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from aiohttp.test_utils import RawTestServer, TestClient

from reasoning_env.judging import server as server_module
from reasoning_env.judging.server import JudgeServer

from .scripted_judge import Client, Judge


@pytest.fixture
def judge() -> Judge:
    return Judge()


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry without pauses, and shut the server down after 0.2 s."""
    monkeypatch.setattr(server_module, "pauses", lambda: iter([0.0] * 10))
    monkeypatch.setattr(JudgeServer, "SHUTDOWN_TIMEOUT_S", 0.2)


@pytest_asyncio.fixture
async def client(judge: Judge) -> AsyncIterator[Client]:
    async with TestClient(RawTestServer(JudgeServer(judge).handle)) as client:
        yield client
