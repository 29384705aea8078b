"""Streamed chat completions by the client of OpenAI that Atropos' servers have."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from openai import AsyncOpenAI

from reasoning_env.atropos.inference.servers import OpenAIChat
from reasoning_env.inference.chat import ChatRequests, PlainChat
from reasoning_env.records import Sampling

SAMPLING = Sampling(temperature=0.5, top_p=0.9, token_limit=1000, split="eval")
PROMPT = PlainChat().prompt([{"role": "user", "content": "Hello"}])
EVENTS = """\
data: {"id": "1", "choices": [{"index": 0, "delta": {"content": "ye"}, "finish_reason": null}]}

data: {"id": "1", "choices": [{"index": 0, "delta": {"content": "s"}, "finish_reason": "length"}]}

data: {"id": "1", "choices": [], "usage": {"completion_tokens": 7, "prompt_tokens": 1, "total_tokens": 8}}

data: [DONE]

"""


class Streaming:
    """Only streams; refuses requests that do not ask for it, unless it streams unasked."""

    def __init__(self) -> None:
        self.unasked = False
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        if not self.unasked and not (await request.json()).get("stream"):
            return web.json_response({"error": {"message": "Only streaming is supported"}}, status=400)
        return web.Response(text=EVENTS, content_type="text/event-stream")


@pytest.fixture
async def server() -> AsyncIterator[Streaming]:
    streaming = Streaming()
    app = web.Application()
    app.router.add_post("/v1/chat/completions", streaming.answer)
    async with TestServer(app) as listening:
        streaming.url = str(listening.make_url("/v1"))
        yield streaming


@pytest.mark.parametrize("unasked", [False, True])
async def test_streamed_completion(server: Streaming, unasked: bool) -> None:
    server.unasked = unasked
    places = {"sem": asyncio.Semaphore(1), "eval_sem": asyncio.Semaphore(1)}
    async with AsyncOpenAI(base_url=server.url, api_key="x", max_retries=0) as openai:
        asked: Any = SimpleNamespace(config=SimpleNamespace(model_name="m"), openai=openai, **places)
        [rollout] = await ChatRequests().complete([OpenAIChat(asked, "eval")], PROMPT, 1, SAMPLING)
    assert (rollout.text, rollout.finish_reason, rollout.token_count) == ("yes", "length", 7)
