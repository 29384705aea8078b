"""Inference servers of Atropos' own kind whose replies are read here.

They are what ServerManager makes of the settings: health checks, limits of requests, retries and lists of nodes stay
Atropos'. Only how tokens are asked for and read is ours.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Mapping
from typing import Any

import aiohttp
from atroposlib.envs.server_handling.server_baseline import APIServer, ServerBaseline
from atroposlib.envs.server_handling.sglang_server import SGLangServer
from atroposlib.envs.server_handling.vllm_server import VLLMServer

from .failures import address
from .protocols import COMPLETIONS, SGLANG, VLLM
from .replies import Mode, ReplyError, TokenProtocol, TokenReply, TokenRequests
from .server_checks import find_out, what_comes

logger = logging.getLogger(__name__)


class VllmTokenServer(TokenRequests, VLLMServer):  # type: ignore[misc]  # atroposlib has no types
    """Atropos' own vLLM server, of type `vllm`."""

    protocol = VLLM


class SglangTokenServer(TokenRequests, SGLangServer):  # type: ignore[misc]
    """A server of type `sglang`."""

    protocol = SGLANG


class CompletionsTokenServer(TokenRequests, VLLMServer):  # type: ignore[misc]
    """A server of type `completions`: an ordinary `vllm serve`, asked for token ids."""

    protocol = COMPLETIONS


class AutoServer(TokenRequests, VLLMServer):  # type: ignore[misc]
    """A server of type `auto`: what it gives is found out at the start, or later, where it was not there then."""

    mode: Mode | None = None
    protocol: TokenProtocol | None = None

    async def _tokens_and_logprobs_completion_wrapper(self, **options: Any) -> TokenReply:
        if self.mode is None:
            mode = await find_out(self, lambda mode: {})
            logger.log(
                logging.INFO if mode is Mode.TOKENS else logging.WARNING,
                "%s: %s",
                address(self),
                what_comes(mode, [self]),
            )
        if self.mode is not Mode.TOKENS:
            raise ReplyError("the server gives text only")
        return await super()._tokens_and_logprobs_completion_wrapper(**options)

    async def check_server_status_task(self, chat_completion: bool = True) -> None:
        """Note every second whether anything answers at `/health`, even that there is no such page."""
        url = f"{self.config.base_url.rstrip('/').removesuffix('/v1')}/health"
        while True:
            try:
                async with (
                    aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=self.config.timeout)) as session,
                    session.get(url) as response,
                ):
                    self.server_healthy = response.status < 500
            except (aiohttp.ClientError, OSError, TimeoutError):
                self.server_healthy = False
            await asyncio.sleep(1)


_CLASSES: Mapping[str, type[APIServer]] = {
    "vllm": VllmTokenServer,
    "sglang": SglangTokenServer,
    "completions": CompletionsTokenServer,
    "auto": AutoServer,
}


def choose_server_class(server_cls: type[APIServer], configs: ServerBaseline | list[Any]) -> type[APIServer]:
    """Return the class of Atropos' servers for the configs; an environment's own `server_cls` stays."""
    if not inspect.isabstract(server_cls):
        return server_cls
    first = configs[0] if isinstance(configs, list) else configs
    return _CLASSES.get(first.server_type, server_cls)
