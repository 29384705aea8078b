from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer, unused_port

from reasoning_env.errors import ConfigError, GenerationError, ReasoningEnvError, ScoringError
from reasoning_env.judging import client
from reasoning_env.judging.client import JudgeClient
from reasoning_env.records import Reason, Verdict

ROW = {"score": 1.0, "reason": "scored", "answer": "7"}
SOUND = {"verdicts": [ROW, {"score": 0.0, "reason": "no_answer", "answer": None}]}
TEXTS = ["a", "b"]


class Foreign:
    """A server that sends `replies` in order (status, JSON, Retry-After). The last reply repeats."""

    def __init__(self, *replies: tuple[int, Any, str | None]) -> None:
        self._replies = list(replies)
        self.asked: list[float] = []

    async def score(self, request: web.Request) -> web.StreamResponse:
        await request.read()
        self.asked.append(time.monotonic())
        status, body, retry_after = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        if status == 0:  # the connection breaks
            assert request.transport is not None
            request.transport.abort()
        headers = {} if retry_after is None else {"Retry-After": retry_after}
        text = body if isinstance(body, str) else json.dumps(body)
        return web.Response(text=text, content_type="application/json", status=status or 200, headers=headers)


@asynccontextmanager
async def client_of(foreign: Foreign, timeout_s: float = 60.0) -> AsyncIterator[JudgeClient]:
    app = web.Application()
    app.router.add_post("/score", foreign.score)
    async with TestServer(app) as server:
        client = JudgeClient(str(server.make_url("/")), timeout_s)
        try:
            yield client
        finally:
            await client.close()


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "pauses", lambda: iter([0.01] * 100_000))


@pytest.mark.parametrize("url", ["localhost:8400", "", "http://a http://b"])
def test_invalid_judge_address_raises(url: str) -> None:
    with pytest.raises(ConfigError, match=r"^judge_url: must be"):
        JudgeClient(url)


async def test_judge_client_returns_verdicts_in_the_order_of_completions() -> None:
    async with client_of(Foreign((200, SOUND, None))) as client:
        verdicts = await client.judge("x", TEXTS)
    assert [(verdict.score, verdict.answer) for verdict in verdicts] == [(1.0, "7"), (0.0, None)]


@pytest.mark.parametrize("told", [{}, {"parts": {"format": 1.0, "answer": 1.0, "length": 1.0}}])
async def test_reward_parts_in_the_reply_do_not_change_the_verdict(told: dict[str, Any]) -> None:
    """Servers that send reward parts and servers that do not give equal verdicts."""
    async with client_of(Foreign((200, {"verdicts": [ROW | told]}, None))) as client:
        [verdict] = await client.judge("x", ["a"])
    assert verdict == Verdict(1.0, Reason.SCORED, "7")


@pytest.mark.parametrize("status", [0, 408, 429, 502, 503, 504])
async def test_request_to_a_busy_judge_is_retried(status: int) -> None:
    foreign = Foreign((status, {"error": "busy"}, None), (status, "no JSON", None), (200, SOUND, None))
    async with client_of(foreign) as client:
        assert len(await client.judge("x", TEXTS)) == 2
    assert len(foreign.asked) == 3


async def test_client_waits_for_the_retry_after_time_that_the_judge_requests() -> None:
    foreign = Foreign((503, {}, "1"), (200, SOUND, None))
    async with client_of(foreign) as client:
        await client.judge("x", TEXTS)
    assert foreign.asked[1] - foreign.asked[0] >= 1.0


@pytest.mark.parametrize("retry_after", [None, "99999", "-1"])
async def test_client_raises_after_the_timeout_if_the_judge_is_busy(retry_after: str | None) -> None:
    async with client_of(Foreign((429, {"error": "busy"}, retry_after)), timeout_s=0.3) as client:
        with pytest.raises(ScoringError, match=r"timeout after 0.3 s; the last reply: busy"):
            await client.judge("x", TEXTS)


async def test_client_raises_after_the_timeout_if_the_judge_is_silent() -> None:
    class Silent(Foreign):
        async def score(self, request: web.Request) -> web.StreamResponse:
            await asyncio.sleep(0.5)
            return await super().score(request)

    async with client_of(Silent((200, SOUND, None)), timeout_s=0.1) as client:
        with pytest.raises(ScoringError):
            await client.judge("x", TEXTS)


async def test_client_raises_after_the_timeout_if_the_judge_is_unreachable() -> None:
    client = JudgeClient(f"http://127.0.0.1:{unused_port()}", 0.2)
    with pytest.raises(ScoringError):
        await client.judge("x", TEXTS)
    await client.close()


@pytest.mark.parametrize(
    "body",
    [
        "no JSON",
        "[" * 100_000,
        [],
        {},
        {"verdicts": None},
        {"verdicts": []},
        {"verdicts": [ROW]},
        {"verdicts": [ROW, ROW, ROW]},
        {"verdicts": [ROW, 1]},
        *({"verdicts": [ROW, {**ROW, "score": score}]} for score in (7.5, -1, True, "1", None, 10**400)),
        '{"verdicts": [{"score": NaN, "reason": "scored", "answer": "7"}, {"score": NaN, "reason": "scored"}]}',
        {"verdicts": [ROW, {**ROW, "reason": "because"}]},
        {"verdicts": [ROW, {**ROW, "answer": 7}]},
    ],
)
async def test_client_raises_if_the_judge_returns_invalid_verdicts(body: Any) -> None:
    async with client_of(Foreign((200, body, None))) as client:
        with pytest.raises(ScoringError):
            await client.judge("x", TEXTS)


async def test_client_does_not_retry_after_an_internal_error_of_the_judge() -> None:
    foreign = Foreign((500, {"error": "an internal error"}, "5"))
    async with client_of(foreign) as client:
        with pytest.raises(ScoringError, match="an internal error"):
            await client.judge("x", TEXTS)
    assert len(foreign.asked) == 1


@pytest.mark.parametrize("status", [400, 401, 404, 422])
async def test_client_raises_if_the_judge_refuses_the_request(status: int) -> None:
    async with client_of(Foreign((status, {"error": "a wrong token"}, None))) as client:
        with pytest.raises(ReasoningEnvError, match="refused the request: a wrong token"):
            await client.judge("x", TEXTS)


@pytest.mark.parametrize("reply", [(422, {"error": "late", "kind": "not_generated"}, None), (413, {}, None)])
async def test_client_raises_if_the_judge_returns_413_or_cannot_generate_the_problem(
    reply: tuple[int, Any, str | None],
) -> None:
    async with client_of(Foreign(reply)) as client:
        with pytest.raises(GenerationError):
            await client.judge("x", TEXTS)


@pytest.mark.parametrize("token", [" secret", "secret\n", "\tsecret", "se\rcret"])
def test_invalid_judge_token_raises(monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    monkeypatch.setenv("REASONING_JUDGE_TOKEN", token)
    with pytest.raises(ConfigError, match="must not begin or end with whitespace"):
        JudgeClient("http://127.0.0.1:9")
