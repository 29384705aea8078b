"""A server with scripted replies, and a client for it."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web

from reasoning_env.inference.failures import Timeouts
from reasoning_env.inference.formats.choices import CHAT, TEXT, PlainChat
from reasoning_env.inference.served_model import ServedModel
from reasoning_env.inference.server import RequestOptions
from reasoning_env.records import Sampling

from .clients import serve

SAMPLING = Sampling(temperature=0.5, top_p=0.9, token_limit=1000, split="eval")


PROMPT = PlainChat().prompt([{"role": "user", "content": "Hello"}])


CHOICE = {"message": {"content": "yes", "reasoning": "hm"}, "finish_reason": "length"}


REPLY = {"choices": [CHOICE], "usage": {"completion_tokens": 7}}


class ScriptedServer:
    """Answers requests with `answers` in order, of which the last one repeats, and records the requests."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.answers: list[Any] = [REPLY]
        self.requests: list[Any] = []
        self.keys: list[str | None] = []
        self.texts = [" hm</think> <answer>4</answer> User: what next?"]
        self.keeps_stop = True
        self.models: Any = {"data": [{"id": "m", "max_model_len": 4096}]}

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(await request.json())
        self.keys.append(request.headers.get("Authorization"))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, dict):
            return web.json_response(answer)
        status, text, headers = answer
        if status is None:
            assert request.transport is not None
            request.transport.abort()
        return web.Response(status=status or 200, text=text, headers=headers)

    async def complete(self, request: web.Request) -> web.Response:
        """Complete a prompt with the next string of `texts`.

        The request decides whether a stop string ends the text.
        """
        asked = await request.json()
        self.requests.append(asked)
        text = self.texts.pop(0) if len(self.texts) > 1 else self.texts[0]
        for stop in asked.get("stop", []):
            before, found, _ = text.partition(stop)
            text = before + found * self.keeps_stop
        return web.json_response({"choices": [{"text": text, "finish_reason": "stop"}]})

    async def list_models(self, request: web.Request) -> web.Response:
        return web.json_response(self.models)


def refusal(text: str) -> str:
    return json.dumps({"error": {"message": text}})


def client(
    server: ScriptedServer,
    options: RequestOptions | None = None,
    server_type: str | None = "chat",
    tries: int | None = None,
) -> ServedModel:
    formats = [each for each in (CHAT, TEXT) if server_type in (None, each.name)]
    timeouts = Timeouts(reply_s=5.0, outage_s=5.0, tries=tries)
    return serve(server.url, formats=formats, key="secret", options=options, timeouts=timeouts)
