"""Inference servers that are not there or answer nonsense, at startup and in the middle of a run."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from reasoning_env.errors import ServerError
from testing import InferenceServer, cut, generations, respond
from testing.http_server import Fault, Handler
from tests.waiting import PATIENCE_S

from .conftest import WRONG, Collect, MakeEnv

BOTH = pytest.mark.parametrize("kind", ["vllm", "openai"])


async def no_json(_request: web.Request, _handler: Handler) -> web.Response:
    return web.Response(text="}{", content_type="application/json")


async def a_web_page(_request: web.Request, _handler: Handler) -> web.Response:
    return web.Response(text="<html>Welcome</html>", content_type="text/html")


NONSENSE: list[Fault] = [
    no_json,
    a_web_page,
    respond(200, {"hello": "world"}),
    respond(200, [1, 2, 3]),
    respond(200, {"choices": 7, "text": 7, "logprobs": 7, "finish_reasons": 7}),
    respond(200, {"choices": [], "text": [], "logprobs": [], "finish_reasons": []}),
]
USELESS = [*NONSENSE, respond(404, {"detail": "Not Found"}), respond(401, {"error": "wrong api key"})]


@pytest.mark.parametrize("kind", ["vllm", "openai", "chat"])
async def test_a_server_that_will_never_do_is_refused_at_once(
    make_env: MakeEnv, server: InferenceServer, kind: str
) -> None:
    for fault in USELESS:
        server.fail(fault)
        with pytest.raises(ServerError, match=server.url):
            await asyncio.wait_for(make_env(kind, startup_timeout_s=3600), PATIENCE_S)


@BOTH
async def test_a_bad_reply_in_the_middle_costs_one_group_which_is_counted(
    make_env: MakeEnv, server: InferenceServer, collect: Collect, kind: str
) -> None:
    env = await make_env(kind, group_size=2)
    env.config.startup_timeout_s = 0.01  # how long requests are tried again
    for count, fault in enumerate((*NONSENSE, respond(500), cut), start=1):
        server.fail(fault, only=generations)
        assert (await asyncio.wait_for(collect(env, "right", WRONG), PATIENCE_S))[0] is None
        metrics = await env.report()
        assert metrics["dropped/inference_failed"] == count
        assert "train/mean_score" not in metrics
        server.recover()
        assert (await collect(env, "right", WRONG))[0]["scores"] == [1.0, 0.0]
        await env.report()
