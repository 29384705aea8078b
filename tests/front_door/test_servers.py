"""Start an environment with an inference server that fails or lacks log-probabilities."""

from __future__ import annotations

import asyncio
import re

import pytest
from aiohttp import web

from reasoning_env.errors import ServerError
from reasoning_gym_testing import InferenceServer, respond
from reasoning_gym_testing.http_server import Fault, Handler
from tests.waiting import PATIENCE_S

from .conftest import MakeEnv


async def no_json(_request: web.Request, _handler: Handler) -> web.Response:
    return web.Response(text="}{", content_type="application/json")


async def a_web_page(_request: web.Request, _handler: Handler) -> web.Response:
    return web.Response(text="<html>Welcome</html>", content_type="text/html")


USELESS: list[Fault] = [
    no_json,
    a_web_page,
    respond(200, {"hello": "world"}),
    respond(200, [1, 2, 3]),
    respond(200, {"choices": 7, "text": 7, "logprobs": 7, "finish_reasons": 7}),
    respond(200, {"choices": [], "text": [], "logprobs": [], "finish_reasons": []}),
    respond(404, {"detail": "Not Found"}),
    respond(401, {"error": "wrong api key"}),
]


@pytest.mark.parametrize("kind", ["vllm", "openai", "chat"])
async def test_permanent_server_fault_at_start_raises(make_env: MakeEnv, server: InferenceServer, kind: str) -> None:
    for fault in USELESS:
        server.fail(fault)
        with pytest.raises(ServerError, match=server.url):
            await asyncio.wait_for(make_env(kind, startup_timeout_s=3600), PATIENCE_S)


@pytest.mark.parametrize(
    ("kind", "has_trainer", "level", "said"),
    [
        ("auto", True, "INFO", "sampled tokens and their log-probabilities"),
        ("openai", False, "INFO", "text only"),
        ("openai", True, "WARNING", r"the trainer must compute .* itself\. To get exact tokens, serve .* `vllm serve`"),
    ],
)
async def test_log_at_start_says_whether_the_server_returns_token_ids(
    make_env: MakeEnv, caplog: pytest.LogCaptureFixture, kind: str, has_trainer: bool, level: str, said: str
) -> None:
    env = await make_env(kind)
    env._run.mode.has_trainer = has_trainer
    caplog.clear()
    env._run.lifetime._log_reply_kind()
    [record] = caplog.records
    assert record.levelname == level
    assert re.search(said, record.getMessage())
