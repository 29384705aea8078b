"""A server disappears without closing its connections, and a new one starts at its address."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from reasoning_env.errors import ServerError
from reasoning_env.inference import server as module
from reasoning_env.inference.failures import ServerAwayError, Timeouts
from reasoning_env.inference.formats.choices import CHAT, PlainChat
from reasoning_env.inference.served_model import ServedModel
from reasoning_env.inference.server import Reachability
from reasoning_env.records import Sampling
from reasoning_gym_testing import InferenceServer, free_port, generations, linger
from reasoning_gym_testing.http_server import Handler, Picks, every_request
from tests.waiting import PATIENCE_S, until

from .clients import serve

PROMPT = PlainChat().prompt([{"role": "user", "content": "Hello"}])
SAMPLING = Sampling(temperature=0.5, top_p=0.9, token_limit=1000, split="eval")
PATIENT = Timeouts(reply_s=None, outage_s=PATIENCE_S)
URL = "http://127.0.0.1:9/v1"


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REACH_POLL_S", 0.01)


class Former(InferenceServer):
    """The server before the outage. It never answers completion requests; `held` counts these requests."""

    def __init__(self) -> None:
        super().__init__(port=free_port())
        self.port = int(self.url.rpartition(":")[2])
        self.held = 0
        self.fail(self.hold, only=generations)

    async def hold(self, _request: web.Request, _handler: Handler) -> web.StreamResponse:
        self.held += 1
        await asyncio.Event().wait()
        raise AssertionError("unreachable")


@pytest.fixture
async def former() -> AsyncIterator[Former]:
    async with Former() as server:
        yield server


async def restart(former: Former, requests: int, caplog: pytest.LogCaptureFixture) -> InferenceServer:
    """Stop a server that holds this many requests. Return its successor once the client has noticed the outage."""
    await until(lambda: former.held == requests)
    former.fail(linger)
    await until(lambda: "cannot be reached" in caplog.text)
    return InferenceServer(port=former.port)


def hosted(server: InferenceServer, timeouts: Timeouts = PATIENT) -> ServedModel:
    return serve(f"{server.url}/v1", formats=[CHAT], timeouts=timeouts, timeout_s=PATIENCE_S)


async def test_completions_lost_in_an_outage_are_requested_again(
    former: Former, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "reasoning_env")
    async with hosted(former) as model:
        asking = asyncio.create_task(model.complete(PROMPT, 3, SAMPLING))
        async with await restart(former, 3, caplog):
            assert len(await asking) == 3
    assert f"server {former.url}/v1 is back" in caplog.text


async def test_stale_connections_are_replaced_after_an_outage(former: Former, caplog: pytest.LogCaptureFixture) -> None:
    former.recover()
    async with hosted(former) as model:
        await model.complete(PROMPT, 4, SAMPLING)  # the connections stay open, but belong to the stopped server
        former.fail(former.hold, only=generations)
        asking = asyncio.create_task(model.complete(PROMPT, 1, SAMPLING))
        async with await restart(former, 1, caplog):
            await asking
            assert len(await model.complete(PROMPT, 8, SAMPLING)) == 8


async def test_request_raises_if_its_server_stays_down(former: Former, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AWAY_S", 0.1)
    async with hosted(former, Timeouts(None, 0.2)) as model:
        asking = asyncio.create_task(model.complete(PROMPT, 1, SAMPLING))
        await until(lambda: former.held)
        former.fail(linger)
        with pytest.raises(ServerError, match="a retry would exceed the limit"):
            await asking


@pytest.mark.parametrize("held", [generations, every_request], ids=["requests", "health checks too"])
async def test_requests_to_a_lost_server_are_completed_by_another_server(
    former: Former, held: Picks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AWAY_S", 0.2)
    former.fail(former.hold, only=held)
    async with (
        InferenceServer() as other,
        serve(f"{former.url}/v1", f"{other.url}/v1", formats=[CHAT], timeouts=PATIENT) as model,
    ):
        asking = [asyncio.create_task(model.complete(PROMPT, 1, SAMPLING)) for _ in range(4)]
        await until(lambda: former.held)
        former.fail(linger)
        assert [len(await group) for group in asking] == [1] * 4


# ---------------------------------------------------------------------------- when a request is lost


class Connections:
    """Replaces the function that tests the connection to a server. `error` is the result of each test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.error: OSError | None = None
        self.tried = 0
        monkeypatch.setattr(module, "try_connection", self._try)

    async def _try(self, url: str, timeout_s: float) -> OSError | None:
        self.tried += 1
        return self.error

    async def become(self, error: OSError | None) -> None:
        """Change the result, and wait until the function has returned it once."""
        self.error = error
        tried = self.tried
        await until(lambda: self.tried > tried)


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> Connections:
    return Connections(monkeypatch)


async def outcome(asking: asyncio.Task[Any]) -> str:
    """Return `lost` if the request is counted as lost, and `waits` if it still waits after some connection tests."""
    try:
        async with asyncio.timeout(0.2):
            await asyncio.shield(asking)
    except ServerAwayError:
        return "lost"
    except TimeoutError:
        asking.cancel()
    return "waits"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConnectionRefusedError(111, "refused"), "lost"),
        (ConnectionResetError(104, "reset"), "lost"),
        (TimeoutError(), "waits"),
        (OSError(113, "no route"), "waits"),
    ],
)
async def test_requests_count_as_lost_only_after_refused_or_reset_connections(
    connections: Connections, error: OSError, expected: str
) -> None:
    """After a short network failure, open connections still deliver replies."""
    reachability = Reachability(URL)
    asking = asyncio.create_task(reachability.outlast(asyncio.Event().wait()))
    await connections.become(error)
    await connections.become(None)
    assert await outcome(asking) == expected


@pytest.mark.parametrize("error", [ConnectionRefusedError(111, "refused"), TimeoutError()])
@pytest.mark.parametrize(("away_s", "expected"), [(0.05, "lost"), (PATIENCE_S, "waits")])
async def test_requests_count_as_lost_only_after_a_long_outage(
    connections: Connections, monkeypatch: pytest.MonkeyPatch, error: OSError, away_s: float, expected: str
) -> None:
    monkeypatch.setattr(module, "AWAY_S", away_s)
    asking = asyncio.create_task(Reachability(URL).outlast(asyncio.Event().wait()))
    await connections.become(error)
    assert await outcome(asking) == expected


async def test_request_sent_after_an_outage_does_not_count_as_lost(connections: Connections) -> None:
    reachability = Reachability(URL)
    lost = asyncio.create_task(reachability.outlast(asyncio.Event().wait()))
    await connections.become(ConnectionRefusedError(111, "refused"))
    await connections.become(None)
    assert await outcome(lost) == "lost"
    kept = asyncio.create_task(reachability.outlast(asyncio.Event().wait()))
    assert await outcome(kept) == "waits"


async def test_success_after_an_outage_marks_older_requests_as_lost(connections: Connections) -> None:
    reachability = Reachability(URL)
    lost = asyncio.create_task(reachability.outlast(asyncio.Event().wait()))
    await connections.become(ConnectionRefusedError(111, "refused"))
    assert await reachability.outlast(asyncio.sleep(0, "a reply")) == "a reply"
    assert await outcome(lost) == "lost"


async def test_request_counts_as_lost_if_its_connection_is_reset_after_an_outage(connections: Connections) -> None:
    """A request that the outage lost raises the same error, even if its connection raises another error."""
    reachability = Reachability(URL)
    broken = asyncio.get_running_loop().create_future()
    lost = asyncio.create_task(reachability.outlast(broken))
    await connections.become(ConnectionRefusedError(111, "refused"))
    await reachability.outlast(asyncio.sleep(0))
    broken.set_exception(ConnectionResetError())
    assert await outcome(lost) == "lost"


@pytest.mark.parametrize("url", ["https://host/v1", "a stand-in"])
async def test_no_connection_is_tried_if_the_url_has_no_host_or_no_port(connections: Connections, url: str) -> None:
    asking = asyncio.create_task(Reachability(url).outlast(asyncio.Event().wait()))
    assert await outcome(asking) == "waits"
    assert connections.tried == 0
