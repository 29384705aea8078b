"""The test inference server over plain HTTP. Tests in tests/front_door use it with Atropos' clients."""

from __future__ import annotations

import asyncio
import json
import math
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import aiohttp
import httpx
import pytest
from aiohttp import web

from reasoning_gym_testing import Completion, InferenceServer, Processes, refuse, respond, slow

REPOSITORY = Path(__file__).parents[2]
RAW = {"prompt": "Which one?", "n": 2, "max_tokens": 20}


@pytest.fixture
async def server() -> AsyncIterator[InferenceServer]:
    async with InferenceServer() as running:
        yield running


async def post(server: InferenceServer, path: str, body: Any) -> tuple[int, Any]:
    async with aiohttp.ClientSession() as session, session.post(f"{server.url}{path}", json=body) as response:
        return response.status, await response.json() if response.content_type == "application/json" else None


# ---------------------------------------------------------------------------- protocols


async def test_server_returns_token_ids_that_its_policy_function_returns(server: InferenceServer) -> None:
    server.policy = lambda request: [Completion("text", "length", (5, 6), (-1.0, float("nan")))]
    _, reply = await post(server, "/generate", RAW)
    assert str(reply["logprobs"]) == "[[[{'5': -1.0}], [{'6': nan}]]]"


async def test_server_returns_an_http_error_that_its_policy_function_raises(server: InferenceServer) -> None:
    server.policy = AsyncMock(side_effect=web.HTTPTooManyRequests)
    assert (await post(server, "/v1/completions", RAW))[0] == 429


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/generate", []),
        ("/generate", {}),
        ("/generate", {"prompt": {"prompt_token_ids": []}}),
        ("/generate", {"prompt": {"prompt_token_ids": [10**9]}}),
        ("/generate", {"prompt": {"prompt_token_ids": [1, "2"]}}),
        ("/generate", {"input_ids": [5], "sampling_params": {"max_tokens": 5}, "return_logprob": True}),
        ("/generate", {"input_ids": [5], "sampling_params": {}, "return_logprob": False}),
        ("/v1/completions", {"prompt": 3}),
        ("/v1/completions", {"prompt": "x", "n": 10**9}),
        ("/v1/completions", {"prompt": "x", "stream": True}),
        ("/v1/chat/completions", {"messages": "hello"}),
    ],
)
async def test_invalid_request_is_refused(server: InferenceServer, path: str, body: Any) -> None:
    status, reply = await post(server, path, body)
    assert status == 400
    assert reply["error"]["message"]


# ---------------------------------------------------------------------------- faults


async def test_server_can_refuse_connections(server: InferenceServer) -> None:
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{server.url}/health") as response:
            assert response.status == 200
        server.fail(refuse)
        with pytest.raises(aiohttp.ClientConnectorError):  # the earlier connection is closed too
            await session.get(f"{server.url}/health")


async def test_inference_server_closes_while_a_request_hangs(server: InferenceServer) -> None:
    server.fail(slow(math.inf))
    waiting = asyncio.ensure_future(post(server, "/generate", RAW))
    done, _ = await asyncio.wait([waiting], timeout=0.2)
    assert not done
    await server.__aexit__()
    with pytest.raises(aiohttp.ClientError):
        await waiting
    await server.__aenter__()


def test_simulated_faults_of_the_test_server_can_be_set_from_another_thread() -> None:
    server = InferenceServer()
    server.fail(refuse)

    def status() -> int | None:
        with suppress(httpx.ConnectError):
            return httpx.get(f"{server.url}/health").status_code
        return None

    with server:
        statuses = [status()]
        for order in (server.recover, lambda: server.fail(respond(500)), lambda: server.fail(refuse)):
            order()
            statuses.append(status())
    assert statuses == [None, 200, 500, None]


def test_inference_server_can_be_started_as_a_separate_process(tmp_path: Path) -> None:
    (tmp_path / "parrot.py").write_text("def parrot(word): return lambda request: [word] * request.n")
    words = ["-m", "reasoning_gym_testing", "--policy", "parrot:parrot", "--options", '{"word": "hi"}']
    with Processes(tmp_path, {"PYTHONPATH": f"{tmp_path}:{REPOSITORY}"}) as processes:
        process = processes.start("server", [sys.executable, *words])
        assert httpx.post(f"{process.announcement()['url']}/generate", json=RAW).json()["text"] == ["hi"] * 2
        assert process.end(signal.SIGTERM) == 0


async def test_chat_reply_is_streamed_on_request(server: InferenceServer) -> None:
    text = "<think>Let me see what that makes.</think><answer>5</answer>"
    server.policy = lambda request: [text] * request.n
    chat = {"messages": [{"role": "user", "content": "Which one?"}], "model": "policy", "stream": True}
    async with httpx.AsyncClient() as client:
        reply = await client.post(f"{server.url}/v1/chat/completions", json=chat)
    *events, end = [line.removeprefix("data: ") for line in reply.text.split("\n\n") if line]
    chunks = [json.loads(event) for event in events]
    assert end == "[DONE]"
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks[:-1]) == text
    assert chunks[-2]["choices"][0]["finish_reason"] == "stop"
    assert chunks[-1]["usage"]["completion_tokens"] > 0


async def test_chat_request_without_token_limit_is_answered(server: InferenceServer) -> None:
    server.policy = lambda request: ["word " * 100]
    _, reply = await post(server, "/v1/chat/completions", {"messages": [{"role": "user", "content": "Go on."}]})
    assert reply["choices"][0]["message"]["content"] == "word " * 100
