"""Limits of the judge server on the sizes, times and memory of requests."""

from __future__ import annotations

import asyncio
import io
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from reasoning_env.judging import bodies, replies
from reasoning_env.judging import server as server_module
from reasoning_env.judging.limits import JudgeLimits
from reasoning_env.judging.server import JudgeServer
from reasoning_env.records import Problem, Verdict
from reasoning_env.session import Session
from tests.waiting import PATIENCE_S

from .scripted_judge import REFERENCE, Client, Judge, error_of

pytestmark = pytest.mark.usefixtures("no_pauses")


class SlowJudge(Judge):
    """Returns its verdicts only after `go_on` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.began = asyncio.Event()
        self.go_on = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def judge(self, problem: str, completions: Sequence[str]) -> list[Verdict]:
        self.began.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return await super().judge(problem, completions)


class Served:
    """A server on a port of this machine."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._connections: list[asyncio.StreamWriter] = []

    async def send(self, data: bytes) -> asyncio.StreamReader:
        """Send bytes on a new connection, and return the bytes of the reply."""
        reader, writer = await asyncio.open_connection(self._host, self._port)
        writer.write(data)
        self._connections.append(writer)
        return reader

    def hang_up(self) -> None:
        """Close all client connections."""
        for connection in self._connections:
            connection.transport.abort()


@asynccontextmanager
async def serving(judge: Judge | Session[Problem], **limits: Any) -> AsyncIterator[Served]:
    runner = JudgeServer(judge, limits=JudgeLimits(**limits)).runner()
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    served = Served(*runner.addresses[0])
    try:
        yield served
    finally:
        await runner.cleanup()
        served.hang_up()
        await asyncio.sleep(0)


def request_of(body: bytes, length: int | None = None) -> bytes:
    return f"POST /score HTTP/1.1\r\nHost: a\r\nContent-Length: {length or len(body)}\r\n\r\n".encode() + body


ONE = json.dumps({"ref": REFERENCE, "texts": ["right"]}).encode()


async def status_of(reader: asyncio.StreamReader) -> int:
    return int((await reader.readline()).split()[1])


@pytest.mark.parametrize("data", [b"", b"POST /score HT", b"POST /score HTTP/1.1\r\nHost: a\r\n"])
async def test_connection_with_an_incomplete_request_head_is_closed(
    judge: Judge, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replies, "HEAD_TIMEOUT_S", 0.2)
    async with serving(judge) as served:
        reader = await served.send(data)
        assert await asyncio.wait_for(reader.read(), PATIENCE_S) == b""


async def test_malformed_request_head_is_not_logged(judge: Judge, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(judge) as served:
        broken = b"POST /score HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer secret\r\nContent-Length: -5\r\n\r\n"
        assert await status_of(await served.send(broken)) == 400
    assert caplog.text == ""


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01 hello\r\n\r\n",
        b"POST /score HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n",
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: " + b"a" * 20_000 + b"\r\n\r\n",
    ],
    ids=["no HTTP", "broken head", "long address", "long header"],
)
async def test_malformed_request_head_returns_a_json_error(judge: Judge, data: bytes) -> None:
    line = "the head of the request is not valid HTTP, or is too large"
    async with serving(judge) as served:
        reader = await served.send(data)
        assert await asyncio.wait_for(status_of(reader), PATIENCE_S) == 400
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE_S)
        assert b"application/json" in head
        assert json.loads(await asyncio.wait_for(reader.readuntil(b"}"), PATIENCE_S)) == {"error": line}


async def test_incomplete_request_body_returns_408(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "BODY_TIMEOUT_S", 0.2)
    async with serving(judge) as served:
        reader = await served.send(request_of(b"{", 1000))
        assert await asyncio.wait_for(status_of(reader), PATIENCE_S) == 408


async def test_client_disconnect_cancels_the_judging() -> None:
    judge = SlowJudge()
    async with serving(judge) as served:
        await served.send(request_of(ONE))
        await judge.began.wait()
        served.hang_up()
        await asyncio.wait_for(judge.cancelled.wait(), PATIENCE_S)


async def test_server_shutdown_does_not_wait_for_unfinished_requests() -> None:
    judge = SlowJudge()
    began = time.monotonic()
    async with serving(judge) as served:
        await served.send(request_of(ONE))
        await served.send(request_of(b"{", 1000))
        await served.send(b"POST")
        await judge.began.wait()
    assert judge.cancelled.is_set()
    assert time.monotonic() - began < PATIENCE_S


@pytest.mark.parametrize("body", [request_of(b"x", 2**20 + 1), request_of(b"x" * (2**20 + 1))])
async def test_request_body_over_the_size_limit_is_refused(judge: Judge, body: bytes) -> None:
    async with serving(judge, max_body_mb=1) as served:
        reader = await served.send(body)
        assert await status_of(reader) == 413
        assert b"larger than 1 MB (--max-body-mb)" in await reader.readuntil(b"}")


async def test_chunked_request_body_over_the_size_limit_is_refused(judge: Judge) -> None:
    chunks = b"POST /score HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + 20 * (
        b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    )
    async with serving(judge, max_body_mb=1) as served:
        assert await status_of(await served.send(chunks)) == 413


async def test_compressed_request_body_is_rejected(judge: Judge) -> None:
    async with serving(judge) as served:
        head = b"POST /score HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\nContent-Length: 9\r\n\r\n"
        assert await status_of(await served.send(head + b"\x1f\x8b\x08" * 3)) == 415


LARGE = json.dumps({"ref": REFERENCE, "texts": ["x" * 900_000]}).encode()


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server whose memory limits allow two of the largest bodies, and the texts of one."""
    monkeypatch.setattr(bodies, "BODIES_AT_ONCE", 2)
    monkeypatch.setattr(bodies, "TEXTS_AT_ONCE", 1)


@pytest.mark.usefixtures("narrow")
async def test_large_request_bodies_wait_for_free_memory() -> None:
    judge = SlowJudge()
    async with serving(judge, max_body_mb=1) as served:
        readers = [await served.send(request_of(LARGE)) for _ in range(5)]
        await judge.began.wait()
        judge.go_on.set()
        assert [await asyncio.wait_for(status_of(reader), PATIENCE_S) for reader in readers] == [200] * 5


@pytest.mark.usefixtures("narrow")
async def test_small_request_body_is_not_delayed_by_large_bodies(judge: Judge) -> None:
    async with serving(judge, max_body_mb=1) as served:
        for _ in range(3):
            await served.send(request_of(LARGE[:-1], len(LARGE)))
        assert await asyncio.wait_for(status_of(await served.send(request_of(ONE))), PATIENCE_S) == 200


@pytest.mark.usefixtures("narrow")
async def test_incomplete_request_bodies_time_out_and_free_memory(
    judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "BODY_TIMEOUT_S", 0.2)
    async with serving(judge, max_body_mb=1) as served:
        halves = [await served.send(request_of(LARGE[:-1], len(LARGE))) for _ in range(3)]
        whole = await served.send(request_of(LARGE))
        assert [await asyncio.wait_for(status_of(half), PATIENCE_S) for half in halves] == [408] * 3
        assert await asyncio.wait_for(status_of(whole), PATIENCE_S) == 200


@pytest.mark.usefixtures("narrow")
async def test_memory_of_requests_is_freed_when_their_clients_disconnect() -> None:
    judge = SlowJudge()
    async with serving(judge, max_body_mb=1) as served:
        for _ in range(4):
            await served.send(request_of(LARGE))
        await judge.began.wait()
        served.hang_up()
        judge.go_on.set()
        assert await asyncio.wait_for(status_of(await served.send(request_of(LARGE))), PATIENCE_S) == 200


async def test_unread_reply_times_out(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "REPLY_TIMEOUT_S", 1.0)
    unread = json.dumps({"ref": REFERENCE, "texts": ["x" * 11_000_000]}).encode()  # more than the socket buffers hold
    async with serving(judge) as served:
        reader = await served.send(request_of(unread))
        metrics = b""
        while b"reasoning_judge_unread_replies_total 1.0\n" not in metrics:
            asked = await served.send(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            metrics = await asyncio.wait_for(asked.read(), PATIENCE_S)
        assert len(await asyncio.wait_for(reader.read(), PATIENCE_S)) < 11_000_000


@pytest.mark.parametrize(
    ("path", "body", "line"),
    [
        (
            "/score",
            {"ref": REFERENCE, "texts": [""] * 4097},
            "'texts' has 4097 entries; the limit is 4096 (--max-texts)",
        ),
        ("/score", {"ref": REFERENCE, "texts": [""] * 1_000_000}, "a larger --max-texts (now 4096)"),
        ("/score", {"ref": REFERENCE, "texts": [[]] * 1_000_000}, "a larger --max-texts (now 4096)"),
        (
            "/get_reward",
            {"query": ["a"] * 4097, "prompts": [""] * 4097, "labels": [REFERENCE] * 4097},
            "'query' has 4097 entries; the limit is 4096 (--max-texts)",
        ),
    ],
)
async def test_request_with_too_many_completions_is_refused(
    client: Client, path: str, body: dict[str, Any], line: str
) -> None:
    reply = await client.post(path, data=io.BytesIO(json.dumps(body).encode()))
    assert reply.status == 413
    assert line in await error_of(reply)


async def test_request_with_the_maximum_number_of_completions_is_judged(client: Client) -> None:
    texts = [f"{number}" for number in range(4096)]
    reply = await client.post("/score", json={"ref": REFERENCE, "texts": texts})
    assert [row["answer"] for row in (await reply.json())["verdicts"]] == texts


@pytest.mark.usefixtures("narrow")
@pytest.mark.slow
async def test_health_route_answers_while_the_memory_budget_is_used_up() -> None:
    judge = SlowJudge()
    async with serving(judge, max_body_mb=1) as served:
        for _ in range(2):
            await served.send(request_of(LARGE))
        await judge.began.wait()
        for path in (b"/health", b"/metrics"):
            assert await status_of(await served.send(b"GET %b HTTP/1.1\r\nHost: a\r\n\r\n" % path)) == 200
