"""Recognize replies of overloaded servers, as real servers send them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from reasoning_env.inference import adaptive_limit
from reasoning_env.inference.completer import ServerSettings
from reasoning_env.inference.failures import MAX_REQUEST_FAILURES, ErrorReply, FailureKind, Timeouts, explain_failure
from reasoning_env.inference.formats.choices import CHAT, TEXT, PlainChat
from reasoning_env.inference.formats.completions import COMPLETIONS
from reasoning_env.inference.formats.reply_format import ReplyFormat
from reasoning_env.inference.formats.sglang import SGLANG
from reasoning_env.inference.server import Server
from reasoning_env.runtime import retries

from .clients import serve
from .test_server import PROMPT, SAMPLING

LIMITED = {"message": "Rate limit exceeded", "code": 429}
OVERLOAD = [
    pytest.param(429, {}, id="429"),
    pytest.param(200, {"error": LIMITED}, id="code beside status 200"),
    pytest.param(200, {"error": "Rate limit exceeded"}, id="text beside status 200"),
    pytest.param(
        529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, id="Anthropic"
    ),
    pytest.param(200, {"error": {"type": "overloaded_error", "message": "Overloaded"}}, id="type beside status 200"),
    pytest.param(400, {"error": {"code": "rate_limit_exceeded", "message": "Slow down"}}, id="code beside status 400"),
    pytest.param(500, {"error": {"status": "RESOURCE_EXHAUSTED", "message": "again later"}}, id="Google"),
]


def in_choice(error: object, **fields: object) -> dict[str, Any]:
    return {"choices": [{"finish_reason": "error", "error": error, **fields}]}


ABORT = {"type": "abort", "message": "The request queue is full.", "status_code": 503, "err_type": None}
OF_FORMATS = [
    pytest.param(CHAT, in_choice(LIMITED, message={"content": ""}), id="chat"),
    pytest.param(CHAT, in_choice({"code": 503, "message": "unavailable"}, message={"content": ""}), id="chat-503"),
    pytest.param(TEXT, in_choice(LIMITED, text=""), id="text"),
    pytest.param(COMPLETIONS, in_choice(LIMITED, text="", index=0), id="tokens"),
    pytest.param(SGLANG, {"text": "", "meta_info": {"finish_reason": ABORT, "output_token_logprobs": []}}, id="SGLang"),
]
"""Replies with status 200 that contain an error instead of their only completion."""
SOUND = {"choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}]}


class Answers:
    """Answers requests with the given statuses and bodies in order. The last answer repeats."""

    def __init__(self, *answers: tuple[int, Any]) -> None:
        self.answers = list(answers)
        app = web.Application()
        app.router.add_post("/{tail:.*}", self._answer)
        self.server = TestServer(app)

    async def _answer(self, _request: web.Request) -> web.Response:
        status, body = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return web.Response(
            status=status, text=json.dumps(body), content_type="application/json", headers={"Retry-After": "0.01"}
        )


class RefusesLate(Answers):
    """Refuses the first requests that have the prompt `late`, with this status and body; answers all others."""

    def __init__(self, status: int, body: Any) -> None:
        super().__init__((status, body))
        self.refusals = 2 * MAX_REQUEST_FAILURES

    async def _answer(self, request: web.Request) -> web.Response:
        if b"late" in await request.read() and self.refusals:
            self.refusals -= 1
            return await super()._answer(request)
        return web.json_response(SOUND)


def make_server(listening: TestServer, reply_format: ReplyFormat) -> Server:
    settings = ServerSettings(base_url=str(listening.make_url("/v1")), model_name="m", timeout=5)
    return Server(settings, formats=[reply_format])


@pytest.mark.parametrize(
    ("reply_format", "status", "body"),
    [
        *(pytest.param(CHAT, *given.values, id=f"chat-{given.id}") for given in OVERLOAD),
        *(pytest.param(COMPLETIONS, *given.values, id=f"tokens-{given.id}") for given in OVERLOAD),
    ],
)
async def test_overload_reply_marks_the_server_as_busy(reply_format: ReplyFormat, status: int, body: Any) -> None:
    async with Answers((status, body)).server as listening:
        server = make_server(listening, reply_format)
        with pytest.raises(Exception) as raised:  # noqa: PT011  # errors of any kind
            await server.ask(reply_format, PROMPT, {"max_tokens": 9}, at_once=True)
        await server.close()
    assert explain_failure(raised.value).kind is FailureKind.BUSY


@pytest.mark.parametrize(("reply_format", "body"), OF_FORMATS)
async def test_overload_error_returned_as_the_only_completion_is_recognised(
    reply_format: ReplyFormat, body: Any
) -> None:
    async with Answers((200, body)).server as listening:
        server = make_server(listening, reply_format)
        with pytest.raises(ErrorReply) as raised:
            await server.ask(reply_format, PROMPT, {"max_tokens": 9}, at_once=True)
        await server.close()
    assert explain_failure(raised.value).may_be_overload


async def test_completion_is_kept_if_another_has_an_overload_error() -> None:
    sound = {"index": 0, "token_ids": [5], "logprobs": {"token_logprobs": [-0.5]}, "finish_reason": "stop"}
    refused = {"index": 1, "finish_reason": "error", "error": LIMITED}
    async with Answers((200, {"choices": [sound, refused]})).server as listening:
        server = make_server(listening, COMPLETIONS)
        reply = await server.ask(COMPLETIONS, PROMPT, {"n": 2}, at_once=True)
        await server.close()
    assert [completion.finish_reason for completion in reply.completions] == ["stop", "error"]


@pytest.mark.parametrize(
    ("status", "body"),
    [
        *OVERLOAD,
        pytest.param(503, {}, id="503 after an answer"),
        pytest.param(200, {"error": {"code": 503}}, id="code 503 after an answer"),
        pytest.param(200, in_choice(LIMITED, message={"content": ""}), id="within a choice"),
        pytest.param(200, in_choice({"code": 503}, message={"content": ""}), id="503 within a choice"),
    ],
)
async def test_server_overload_drops_no_group(status: int, body: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server refuses one group more often than the retry limit, while it answers other groups."""
    monkeypatch.setattr(adaptive_limit, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(retries, "FIRST_PAUSE_S", 0.01)
    late = PlainChat().prompt([{"role": "user", "content": "late"}])
    async with RefusesLate(status, body).server as listening:
        url = str(listening.make_url("/v1"))
        async with serve(url, formats=[CHAT], timeouts=Timeouts(5.0, 30.0)) as model:
            await model.complete(PROMPT, 1, SAMPLING)
            asking = asyncio.create_task(model.complete(late, 1, SAMPLING))
            while not asking.done():
                await model.complete(PROMPT, 1, SAMPLING)
            assert len(await asking) == 1


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, {"error": {"message": "temperature must be at most 2", "code": 400}}),
        (401, {"error": {"message": "wrong key", "type": "authentication_error"}}),
        (200, {"error": {"message": "your plan has ended", "code": "insufficient_funds"}}),
        (200, {"choices": [{"message": {"content": {"text": "rate limit"}}, "finish_reason": "stop"}]}),
    ],
)
async def test_errors_other_than_overload_do_not_mark_the_server_as_busy(status: int, body: Any) -> None:
    async with Answers((status, body)).server as listening:
        server = make_server(listening, CHAT)
        with pytest.raises(Exception) as raised:  # noqa: PT011
            await server.ask(CHAT, PlainChat().prompt([{"role": "user", "content": "?"}]), {}, at_once=True)
        await server.close()
    assert explain_failure(raised.value).kind is not FailureKind.BUSY
