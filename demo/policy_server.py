"""An inference server without a model: the scripted policy behind vLLM's native protocol and OpenAI's completions.

`python -m demo.policy_server --port 0` listens on a free port and prints `policy_server: port=N` once it does.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import time
import uuid
from collections.abc import Awaitable, Callable

from aiohttp import web

from .generation import BadRequestError, Completion, GenerationRequest, Generator
from .policy import Policy

MODEL_NAME = "scripted-policy"
DEFAULT_SKILL = 0.6
DEFAULT_LATENCY_S = 0.05
LATENCY_SPREAD = 0.5
"""A request takes the chosen latency, give or take this share of it."""
PORT_LINE = "policy_server: port="

Answer = Callable[[GenerationRequest], Awaitable[list[Completion]]]


def make_app(*, skill: float = DEFAULT_SKILL, seed: int = 0, latency_s: float = 0.0) -> web.Application:
    """Return the server as an aiohttp application.

    Args:
        skill: probability that a rollout on a task that the policy knows is right, 0 to 1.
        seed: where all chance comes from.
        latency_s: mean seconds that a generation takes.
    """
    generator = Generator(Policy(skill=skill, seed=seed))
    delays = random.Random(seed)

    async def answer(request: GenerationRequest) -> list[Completion]:
        completions = generator.complete(request)
        await asyncio.sleep(latency_s * delays.uniform(1 - LATENCY_SPREAD, 1 + LATENCY_SPREAD))
        return completions

    async def handle_generate(http_request: web.Request) -> web.Response:
        request = generator.read_request(await _read_json(http_request))
        return web.json_response(_native_response(await answer(request)))

    async def handle_completions(http_request: web.Request) -> web.Response:
        request = generator.read_request(await _read_json(http_request))
        return web.json_response(_openai_response(request, await answer(request)))

    app = web.Application(middlewares=[_report_bad_requests])
    app.router.add_get("/health", _handle_health)
    app.router.add_get("/v1/models", _handle_models)
    app.router.add_post("/generate", handle_generate)
    app.router.add_post("/v1/completions", handle_completions)
    return app


@web.middleware
async def _report_bad_requests(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    try:
        return await handler(request)
    except BadRequestError as error:
        detail = {"message": str(error), "type": "BadRequestError", "code": 400}
        return web.json_response({"error": detail}, status=400)


async def _read_json(request: web.Request) -> object:
    try:
        body: object = await request.json()
    except ValueError as error:  # UnicodeDecodeError and JSONDecodeError both are
        raise BadRequestError(f"expected a JSON body: {error}") from error
    return body


async def _handle_health(_request: web.Request) -> web.Response:
    return web.Response()


async def _handle_models(_request: web.Request) -> web.Response:
    return web.json_response({"object": "list", "data": [{"id": MODEL_NAME, "object": "model", "owned_by": "demo"}]})


def _native_response(completions: list[Completion]) -> dict[str, object]:
    return {
        "text": [completion.text for completion in completions],
        "finish_reasons": [completion.finish_reason for completion in completions],
        "logprobs": [
            [[{str(token): logprob}] for token, logprob in zip(completion.token_ids, completion.logprobs, strict=True)]
            for completion in completions
        ],
    }


def _openai_response(request: GenerationRequest, completions: list[Completion]) -> dict[str, object]:
    completion_tokens = sum(len(completion.token_ids) for completion in completions)
    return {
        "id": f"cmpl-{uuid.uuid4().hex}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": MODEL_NAME,
        "choices": [
            {"index": index, "text": completion.text, "finish_reason": completion.finish_reason, "logprobs": None}
            for index, completion in enumerate(completions)
        ],
        "usage": {
            "prompt_tokens": request.prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": request.prompt_tokens + completion_tokens,
        },
    }


async def serve(app: web.Application, host: str, port: int) -> None:
    """Serve until SIGINT or SIGTERM; a line on stdout says the port once requests are taken."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        print(f"{PORT_LINE}{runner.addresses[0][1]}", flush=True)
        await stop.wait()
    finally:
        await runner.cleanup()


def main(argv: list[str] | None = None) -> int:
    """Run the server with the options of a command line."""
    parser = argparse.ArgumentParser(prog="policy_server", description="A scripted policy as an inference server.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one (default: %(default)s)")
    parser.add_argument("--skill", type=float, default=DEFAULT_SKILL, help="share of right rollouts, 0 to 1")
    parser.add_argument("--seed", type=int, default=0, help="seed of the policy's chance (default: %(default)s)")
    parser.add_argument("--latency-s", type=float, default=DEFAULT_LATENCY_S, help="mean seconds a generation takes")
    options = parser.parse_args(argv)
    if not 0.0 <= options.skill <= 1.0 or options.latency_s < 0:
        parser.error("--skill must lie between 0 and 1, --latency-s must not be negative")
    app = make_app(skill=options.skill, seed=options.seed, latency_s=options.latency_s)
    asyncio.run(serve(app, options.host, options.port))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
