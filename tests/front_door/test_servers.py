"""Inference servers that are not there or answer nonsense, at startup and in the middle of a run."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from reasoning_env.errors import ServerError
from testing import InferenceServer, cut, generations, hang, refuse, respond
from testing.http_server import Fault, Handler

from .conftest import WRONG, Collect, MakeEnv

BOTH = pytest.mark.parametrize("kind", ["vllm", "openai"])
WAIT_S = 60.0


async def no_json(_request: web.Request, _handler: Handler) -> web.Response:
    return web.Response(text="}{", content_type="application/json")


async def a_web_page(_request: web.Request, _handler: Handler) -> web.Response:
    return web.Response(text="<html>Welcome</html>", content_type="text/html")


NONSENSE: dict[str, Fault] = {
    "no JSON": no_json,
    "a web page": a_web_page,
    "another object": respond(200, {"hello": "world"}),
    "a list": respond(200, [1, 2, 3]),
    "odd values": respond(200, {"choices": 7, "text": 7, "logprobs": 7, "finish_reasons": 7}),
    "no completion": respond(200, {"choices": [], "text": [], "logprobs": [], "finish_reasons": []}),
}
USELESS = {**NONSENSE, "404": respond(404, {"detail": "Not Found"}), "401": respond(401, {"error": "wrong api key"})}
ABSENT = {"500": respond(500), "cut": cut, "refuse": refuse, "hang": hang}


@BOTH
@pytest.mark.parametrize("fault", USELESS)
async def test_a_server_that_will_never_do_is_refused_at_once(
    make_env: MakeEnv, server: InferenceServer, kind: str, fault: str
) -> None:
    server.fail(USELESS[fault])
    with pytest.raises(ServerError, match=server.url):
        await asyncio.wait_for(make_env(kind, startup_timeout_s=3600), WAIT_S)


@BOTH
@pytest.mark.parametrize("fault", ABSENT)
async def test_a_server_that_is_not_up_is_given_up_after_the_timeout(
    make_env: MakeEnv, server: InferenceServer, kind: str, fault: str
) -> None:
    server.fail(ABSENT[fault])
    with pytest.raises(ServerError, match=f"no inference server answered within 0.1 s.*{server.url}"):
        await asyncio.wait_for(make_env(kind, startup_timeout_s=0.1), WAIT_S)


@BOTH
@pytest.mark.parametrize("fault", [*NONSENSE, "500", "cut"])
async def test_a_bad_reply_in_the_middle_costs_one_group_which_is_counted(
    make_env: MakeEnv, server: InferenceServer, collect: Collect, kind: str, fault: str
) -> None:
    env = await make_env(kind, group_size=2)
    env.config.startup_timeout_s = 0.01  # how long requests are tried again
    server.fail({**NONSENSE, **ABSENT}[fault], only=generations)
    assert (await asyncio.wait_for(collect(env, "right", WRONG), WAIT_S))[0] is None
    metrics = await env.report()
    assert metrics["dropped/inference_failed"] == 1
    assert "train/mean_score" not in metrics
    server.recover()
    assert (await collect(env, "right", WRONG))[0]["scores"] == [1.0, 0.0]
