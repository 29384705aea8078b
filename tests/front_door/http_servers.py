"""The environment before inference servers that speak real HTTP, and the ways in which those go wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from aiohttp import web

from reasoning_gym_environment import ReasoningGymEnv
from testing import respond
from testing.http_server import Handler

Metrics = dict[str, Any]


class HttpEnv(ReasoningGymEnv):
    """The environment as it is, but for the OpenAI client's own retries, whose pauses would only cost time here."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.reported: list[Metrics] = []
        for entry in self.server.servers:
            if hasattr(entry, "openai"):
                entry.openai.max_retries = 0

    async def create_rollout_table(self, wandb_metrics: Metrics) -> Metrics:
        self.reported.append(wandb_metrics)
        return await super().create_rollout_table(wandb_metrics)

    async def report(self) -> Metrics:
        await self.wandb_log()
        return self.reported[-1]


async def next_group(env: Any, tries: int = 40) -> Any:
    """The next group that carries a signal."""
    for _ in range(tries):
        group, _ = await env.collect_trajectories(await env.get_next_item())
        if group is not None:
            return group
    raise AssertionError(f"no group with a signal in {tries}")


async def wait_until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 (what it waits for sets no event)
            await asyncio.sleep(0.05)


# ---------------------------------------------------------------------------- bad replies

error_500 = respond(500, {"error": "something broke"})
error_404 = respond(404, {"detail": "Not Found"})
error_401 = respond(401, {"error": {"message": "wrong api key"}})
another_object = respond(200, {"hello": "world"})
a_list = respond(200, [1, 2, 3])
odd_values = respond(200, {"choices": 7, "text": 7, "logprobs": 7, "finish_reasons": 7})


async def no_json(_request: web.Request, _handler: Handler) -> web.Response:
    return web.Response(text="}{", content_type="application/json")


async def a_web_page(_request: web.Request, _handler: Handler) -> web.Response:
    return web.Response(text="<html>Welcome</html>", content_type="text/html")


def both_protocols(texts: list[str], logprobs: list[list[list[dict[str, float]]]]) -> dict[str, Any]:
    """A reply that reads as vLLM's and as OpenAI's."""
    choices = [{"index": i, "text": text, "finish_reason": "stop", "logprobs": None} for i, text in enumerate(texts)]
    openai = {"id": "1", "object": "text_completion", "created": 1, "model": "m", "choices": choices}
    return {**openai, "text": texts, "finish_reasons": ["stop"] * len(texts), "logprobs": logprobs}


no_completion = respond(200, both_protocols([], []))
two_completions = respond(200, both_protocols(["<answer>1</answer>"] * 2, [[[{"5": -0.1}]]] * 2))
