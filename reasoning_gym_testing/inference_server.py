"""An inference server without a model. It serves a policy in the protocols of vLLM, SGLang, OpenAI and TRL.

`python -m reasoning_gym_testing --policy MODULE:FACTORY` runs the server as a process. When the server listens, it
prints one line of JSON: `{"url": ...}`.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import inspect
import json
import random
import signal
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aiohttp import web

from .completions import TOKENIZER, Answer, Completion, GenerationRequest, Policy, always_wrong, read_tokens
from .http_server import FaultyServer
from .protocols import MODEL_NAME, all_paths, read_request, write_reply, write_stream

LATENCY_SPREAD = 0.5
"""The latency of a request differs from the mean latency by at most this share of the mean."""
MAX_KEPT_REQUESTS = 1000


def generations(request: web.Request, body: bytes) -> bool:
    """Return True for requests for completions. Health checks and probes request at most one token."""
    if request.method == "GET":
        return False
    asked = json.loads(body)
    asked = asked.get("sampling_params", asked)
    return bool(asked.get("max_tokens", asked.get("max_new_tokens")) != 1)


def server_settings(url: str, server_type: str = "vllm") -> dict[str, str]:
    """Return an environment's settings for this server, as in section `openai` of a settings file."""
    return {"server_type": server_type, "base_url": f"{url}/v1", "model_name": MODEL_NAME, "api_key": "x"}


class InferenceServer(FaultyServer):
    """Serves completions of a policy, each after `latency_s`, plus or minus half.

    - `policy` and `latency_s` may be replaced while the server runs.
    - `paths`: the URL paths to serve; by default those of all protocols.
    - `tokenizer`: a folder in the format of transformers; must be the environment's.
    - `requests`: the most recent requests passed to the policy. The server replies to requests for a single token
      (health checks and probes) without the policy.
    """

    def __init__(
        self,
        policy: Policy = always_wrong,
        *,
        latency_s: float = 0.0,
        tokenizer: str = TOKENIZER,
        port: int | None = None,
        paths: Sequence[str] | None = None,
    ) -> None:
        super().__init__(port)
        self.paths = all_paths() if paths is None else paths
        self.policy = policy
        self.latency_s = latency_s
        self.requests: deque[GenerationRequest] = deque(maxlen=MAX_KEPT_REQUESTS)
        self._tokens = read_tokens(tokenizer)
        self._tokenizer = tokenizer
        self._chance = random.Random(0)

    def config(self, server_type: str = "vllm", **fields: Any) -> Any:
        """Return an environment's config for this server; needs atroposlib."""
        from reasoning_env.atropos import ServerConfig

        return ServerConfig(**{**server_settings(self.url, server_type), **fields})

    def make_app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/health", self._health)
        app.router.add_get("/v1/models", self._models)
        for path in self.paths:
            app.router.add_post(path, self._complete)
        return app

    async def _complete(self, request: web.Request) -> web.Response:
        try:
            asked = read_request(request.path, await request.read(), self._tokens)
        except ValueError as error:
            return web.json_response({"error": {"message": str(error), "code": 400}}, status=400)
        if asked.max_tokens == 1:
            return self._reply(asked, ["2"] * asked.n)
        self.requests.append(asked)
        answer = self.policy(asked)
        completions = await answer if inspect.isawaitable(answer) else answer
        if self.latency_s:
            await asyncio.sleep(self.latency_s * self._chance.uniform(1 - LATENCY_SPREAD, 1 + LATENCY_SPREAD))
        return self._reply(asked, completions)

    def _reply(self, asked: GenerationRequest, answer: Answer) -> web.Response:
        completions = (
            completion if isinstance(completion, Completion) else Completion(completion) for completion in answer
        )
        finish = self._tokens.finish
        finished = tuple(
            finish(completion, asked.max_tokens, asked.stop, asked.keeps_stop) for completion in completions
        )
        if asked.stream:
            return web.Response(body=write_stream(finished, len(asked.prompt_ids)), content_type="text/event-stream")
        body = write_reply(asked, finished, self._tokens)
        return web.Response(body=body, content_type="application/json")

    async def _health(self, _request: web.Request) -> web.Response:
        return web.Response()

    async def _models(self, _request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": MODEL_NAME, "object": "model"}]})


async def serve(server: InferenceServer) -> None:
    """Print the server's URL as a line of JSON, and serve until SIGINT or SIGTERM."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with server:
        print(json.dumps({"url": server.url}), flush=True)
        await stop.wait()


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(
        prog="python -m reasoning_gym_testing", description="An inference server without a model."
    )
    parser.add_argument(
        "--policy", metavar="MODULE:FACTORY", help="function or class that creates the policy, as MODULE:NAME"
    )
    parser.add_argument(
        "--options", metavar="JSON", type=_mapping, default={}, help="arguments of the policy, as a JSON object"
    )
    parser.add_argument("--latency-s", type=float, default=0.0, help="mean duration of a request, in seconds")
    parser.add_argument("--tokenizer", default=TOKENIZER, help="tokenizer: a folder in the format of transformers")
    parser.add_argument("--port", type=int, help="port to listen on (default: a free port)")
    options = parser.parse_args(argv)
    policy: Policy = always_wrong
    if not Path(options.tokenizer).is_dir():
        parser.error(f"--tokenizer: {options.tokenizer} is not a folder")
    if options.latency_s < 0:
        parser.error("--latency-s must not be negative")
    if options.policy:
        module, _, factory = options.policy.partition(":")
        try:
            policy = getattr(importlib.import_module(module), factory)(**options.options)
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            parser.error(f"--policy: cannot create {options.policy}: {type(error).__name__}: {error}")
    try:
        server = InferenceServer(policy, latency_s=options.latency_s, tokenizer=options.tokenizer, port=options.port)
        asyncio.run(serve(server))
    except (OSError, OverflowError) as error:
        parser.error(f"the server cannot be started: {error}")
    return 0


def _mapping(text: str) -> dict[str, Any]:
    """Read --options. Raises ArgumentTypeError."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"must be JSON: {error}") from error
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f'must be an object, as in {{"skill": 0.5}}; got {text!r}')
    return value
