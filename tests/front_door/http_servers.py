"""Inference servers of all four kinds over real HTTP, the ways in which they go wrong, and the environment for them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from atroposlib.envs.server_handling.server_baseline import APIServerConfig

from demo.generation import Completion, Generator
from demo.policy import Policy
from demo.policy_server import make_app
from reasoning_gym_environment import ReasoningGymEnv

from .fakes import TOKENIZER_FOLDER

Body = dict[str, Any]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


# ---------------------------------------------------------------------------- protocols that the policy server lacks


def make_sglang_app(generator: Generator) -> web.Application:
    """SGLang's native POST /generate, and the completions that Atropos asks it for as a health check."""

    async def generate(http_request: web.Request) -> web.Response:
        body = await http_request.json()
        sampling = body["sampling_params"]
        unknown = set(sampling) - {"n", "max_new_tokens", "temperature", "top_p"}
        if unknown or body["return_logprob"] is not True:
            return web.json_response({"error": {"message": f"unexpected keyword arguments {unknown}"}}, status=400)
        request = generator.read_request(
            {"prompt": body["input_ids"], "max_tokens": sampling.pop("max_new_tokens"), **sampling}
        )
        replies = [_sglang_reply(completion) for completion in generator.complete(request)]
        return web.json_response(replies if len(replies) > 1 else replies[0])

    async def completions(_request: web.Request) -> web.Response:
        choice = {"index": 0, "text": "2", "finish_reason": "length", "logprobs": None}
        return web.json_response(
            {"id": "1", "object": "text_completion", "created": 1, "model": "m", "choices": [choice]}
        )

    app = web.Application()
    app.router.add_post("/generate", generate)
    app.router.add_post("/v1/completions", completions)
    return app


def _sglang_reply(completion: Completion) -> Body:
    pairs = zip(completion.logprobs, completion.token_ids, strict=True)
    return {
        "text": completion.text,
        "meta_info": {
            "finish_reason": {"type": completion.finish_reason},
            "output_token_logprobs": [[logprob, token, None] for logprob, token in pairs],
        },
    }


def make_trl_app(generator: Generator) -> web.Application:
    """TRL's POST /generate/ with prompts as text and completions as token ids."""

    async def generate(http_request: web.Request) -> web.Response:
        body = await http_request.json()
        (prompt,) = body["prompts"]
        sampling = {key: body[key] for key in ("n", "max_tokens", "temperature")}
        request = generator.read_request({**sampling, "prompt": prompt})
        return web.json_response({"completion_ids": [entry.token_ids for entry in generator.complete(request)]})

    app = web.Application()
    app.router.add_post("/v1/generate/", generate)
    return app


# ---------------------------------------------------------------------------- a server that can misbehave


@dataclass
class Switchboard:
    """A server of one kind. While `fault` is set, it answers everything that `spared` does not let through."""

    kind: str
    url: str = ""
    fault: Handler | None = None
    spared: Callable[[web.Request, Body], bool] = lambda request, body: False
    posts: list[Body] = field(default_factory=list)
    released: asyncio.Event = field(default_factory=asyncio.Event)

    def make_app(self) -> web.Application:
        generator = Generator(Policy(skill=0.5, seed=3))
        generators = {"sglang": lambda: make_sglang_app(generator), "trl": lambda: make_trl_app(generator)}
        app = generators.get(self.kind, lambda: make_app(skill=0.5, seed=3))()
        app.middlewares.insert(0, self._route)
        return app

    @web.middleware
    async def _route(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        body = await request.json() if request.can_read_body else {}
        if not is_small(request, body):
            self.posts.append(body)
        if self.fault is not None and not self.spared(request, body):
            return await self.fault(request)
        return await handler(request)

    async def hang(self, _request: web.Request) -> web.Response:
        await self.released.wait()
        return web.Response(status=503)

    @property
    def config(self) -> APIServerConfig:
        model = str(TOKENIZER_FOLDER) if self.kind == "trl" else "m"
        return APIServerConfig(
            server_type=self.kind, base_url=f"{self.url}/v1", api_key="x", model_name=model, timeout=1200
        )


def is_small(request: web.Request, body: Body) -> bool:
    """Whether this is a health check or the probe at startup."""
    limit = body.get("max_tokens", body.get("sampling_params", {}).get("max_new_tokens"))
    return request.method == "GET" or limit == 1


class HttpEnv(ReasoningGymEnv):
    """The environment as it is, but for the OpenAI client's own retries, whose pauses would only cost time here."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.reported: list[Body] = []
        for entry in self.server.servers:
            if hasattr(entry, "openai"):
                entry.openai.max_retries = 0

    async def create_rollout_table(self, wandb_metrics: Body) -> Body:
        self.reported.append(wandb_metrics)
        return await super().create_rollout_table(wandb_metrics)

    async def report(self) -> Body:
        await self.wandb_log()
        return self.reported[-1]


async def next_group(env: Any, tries: int = 40) -> Any:
    """The next group that carries a signal."""
    for _ in range(tries):
        group, _ = await env.collect_trajectories(await env.get_next_item())
        if group is not None:
            return group
    raise AssertionError(f"no group with a signal in {tries}")


async def wait_until(condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        await asyncio.sleep(0.05)


# ---------------------------------------------------------------------------- bad replies


async def error_500(_request: web.Request) -> web.Response:
    return web.json_response({"error": "something broke"}, status=500)


async def error_404(_request: web.Request) -> web.Response:
    return web.json_response({"detail": "Not Found"}, status=404)


async def error_401(_request: web.Request) -> web.Response:
    return web.json_response({"error": {"message": "wrong api key"}}, status=401)


async def no_json(_request: web.Request) -> web.Response:
    return web.Response(text="}{", content_type="application/json")


async def a_web_page(_request: web.Request) -> web.Response:
    return web.Response(text="<html>Welcome</html>", content_type="text/html")


async def another_object(_request: web.Request) -> web.Response:
    return web.json_response({"hello": "world"})


async def a_list(_request: web.Request) -> web.Response:
    return web.json_response([1, 2, 3])


async def odd_values(_request: web.Request) -> web.Response:
    return web.json_response({"choices": 7, "text": 7, "logprobs": 7, "finish_reasons": 7})


async def hang_up(request: web.Request) -> web.Response:
    assert request.transport is not None
    request.transport.close()
    return web.Response()


def both_protocols(texts: list[str], logprobs: list[list[list[dict[str, float]]]]) -> web.Response:
    """A reply that reads as vLLM's and as OpenAI's."""
    choices = [{"index": i, "text": text, "finish_reason": "stop", "logprobs": None} for i, text in enumerate(texts)]
    openai = {"id": "1", "object": "text_completion", "created": 1, "model": "m", "choices": choices}
    return web.json_response({**openai, "text": texts, "finish_reasons": ["stop"] * len(texts), "logprobs": logprobs})


async def no_completion(_request: web.Request) -> web.Response:
    return both_protocols([], [])


async def one_completion(_request: web.Request) -> web.Response:
    return both_protocols(["<answer>nonsense</answer>"], [[[{"5": -0.1}]]])


async def two_completions(_request: web.Request) -> web.Response:
    return both_protocols(["<answer>1</answer>"] * 2, [[[{"5": -0.1}]]] * 2)


async def empty_texts(request: web.Request) -> web.Response:
    n = json.loads(await request.text()).get("n", 1)
    return both_protocols([""] * n, [[]] * n)
