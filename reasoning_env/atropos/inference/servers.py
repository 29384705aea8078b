"""Inference servers of Atropos' own kind whose replies are read here.

They are what ServerManager makes of the settings: health checks, limits of requests, retries and lists of nodes stay
Atropos'. Only how tokens are asked for and read is ours.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import mmap
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import aiohttp
from atroposlib.envs.server_handling.openai_server import OpenAIServer
from atroposlib.envs.server_handling.server_baseline import APIServer, ServerBaseline
from atroposlib.envs.server_handling.sglang_server import SGLangServer
from atroposlib.envs.server_handling.trl_vllm_server import TrlVllmServer
from atroposlib.envs.server_handling.vllm_server import VLLMServer

from ...turns import in_turn, in_turns, room_for_reply
from .chat import ChatServerConfig
from .failures import address
from .protocols import COMPLETIONS, SGLANG, VLLM
from .replies import Body, Mode, ReplyError, TokenProtocol
from .server_checks import find_out, what_comes

logger = logging.getLogger(__name__)

STALL_S = 10.0
"""How long a reply that has begun may stand still; servers send a whole group at once."""

TokenReply = tuple[list[int], list[Any], list[Any], list[str | None]]
"""What Atropos' servers return: the prompt's tokens; the tokens, log-probabilities and finish reason of completions."""


class _TokenRequests:
    """Asks in a token protocol, and reads the reply here; in front of one of Atropos' servers.

    With `arrays`, token ids and log-probabilities come as numpy's arrays. Else they are lists, as Atropos' own code
    that may call wants them.
    """

    protocol: TokenProtocol | None
    config: Any
    tokenizer: Any

    async def _tokens_and_logprobs_completion_wrapper(self, **options: Any) -> TokenReply:
        assert self.protocol is not None
        return await self.sample(self.protocol, **options)

    async def sample(self, protocol: TokenProtocol, *, arrays: bool = False, **options: Any) -> TokenReply:
        """Ask for completions in a protocol; raises ReplyError, and what aiohttp raises."""
        prompt, model = options.pop("prompt", None), options.pop("model")
        tokens = options.pop("input_ids", None) or self.tokenizer.encode(prompt)
        # As in Atropos' own servers: the chat template and the tokenizer may have written the beginning of text both.
        if len(tokens) >= 2 and tokens[0] == self.tokenizer.bos_token_id == tokens[1]:
            tokens = tokens[1:]
        for name in ("max_new_tokens", "max_completion_tokens"):
            if name in options:
                options["max_tokens"] = options.pop(name)
        request = protocol.request(tokens, model, options)
        ids, logprobs, reasons = [], [], []
        async with self._post(protocol.url(self.config.base_url), request) as response, room_for_reply():
            body = await _read_body(response)
            pieces = protocol.cut(body)
            while (completion := await in_turn(partial(next, pieces, None))) is not None:
                some_ids, some_logprobs = await in_turns(protocol.read(completion))
                ids.append(some_ids if arrays else some_ids.tolist())
                logprobs.append(some_logprobs if arrays else some_logprobs.tolist())
                reasons.append(completion.finish_reason)
        return list(tokens), ids, logprobs, reasons

    async def read_text(self, text: str) -> list[int] | int | None:
        """Return the tokens as which the server reads a text, or only their number; None where it does not tell."""
        assert self.protocol is not None
        request = self.protocol.request_for_text(text, self.config.model_name)
        async with self._post(self.protocol.url(self.config.base_url), request) as response:
            return self.protocol.prompt_of(await response.read())

    @asynccontextmanager
    async def _post(self, url: str, request: Mapping[str, Any]) -> AsyncIterator[aiohttp.ClientResponse]:
        """Yield a reply of JSON; raises what aiohttp raises, with what the server says of its refusal."""
        headers = {"Authorization": f"Bearer {self.config.api_key}"} if self.config.api_key else {}
        timeout = aiohttp.ClientTimeout(total=self.config.timeout)
        async with (
            aiohttp.ClientSession(timeout=timeout, headers=headers) as session,
            session.post(url, json=request) as response,
        ):
            if response.status < 400 and "json" in response.content_type:
                yield response
                return
            error = aiohttp.ContentTypeError if response.status < 400 else aiohttp.ClientResponseError
            said = " ".join((await response.content.read(1000)).decode(errors="replace").split())[:200]
            raise error(response.request_info, response.history, status=response.status, message=said)


async def _read_body(response: aiohttp.ClientResponse) -> Body:
    """Return the whole body; raises ReplyError where it stops on the way, or all other replies would wait for it.

    Where its length is known, its memory is mapped, so that it is taken part by part: to grow an array to 9 MB, or to
    fill one with zeros, holds the event loop for up to 39 ms.
    """
    length = None if "Content-Encoding" in response.headers else response.content_length
    body: bytearray | mmap.mmap = mmap.mmap(-1, length) if length else bytearray()
    filled = 0
    try:
        while True:
            async with asyncio.timeout(STALL_S):
                part = await response.content.readany()
            if not part:
                return body
            if isinstance(body, mmap.mmap):
                body[filled : filled + len(part)] = part
            else:
                body += part
            filled += len(part)
    except TimeoutError as error:
        raise ReplyError(f"a reply that stopped after {filled} bytes, for {STALL_S:g} s") from error


class VllmTokenServer(_TokenRequests, VLLMServer):  # type: ignore[misc]  # atroposlib has no types
    """Atropos' own vLLM server, of type `vllm`."""

    protocol = VLLM


class SglangTokenServer(_TokenRequests, SGLangServer):  # type: ignore[misc]
    """A server of type `sglang`."""

    protocol = SGLANG


class CompletionsTokenServer(_TokenRequests, VLLMServer):  # type: ignore[misc]
    """A server of type `completions`: an ordinary `vllm serve`, asked for token ids."""

    protocol = COMPLETIONS


class AutoServer(_TokenRequests, VLLMServer):  # type: ignore[misc]
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


def reads_here(server: object) -> bool:
    """Tell whether a server's replies are read here, so that arrays can be asked for."""
    return isinstance(server, _TokenRequests)


def mode_of(servers: Sequence[Any]) -> Mode | None:
    """Return what replies of Atropos' own servers hold; None where there is a stand-in among them, or no server.

    Where several of type `auto` give different things, what all of them give.
    """
    if not servers or not all(isinstance(server, APIServer) for server in servers):
        return None
    if any(isinstance(getattr(server, "config", None), ChatServerConfig) for server in servers):
        return Mode.CHAT
    if any(isinstance(server, (OpenAIServer, TrlVllmServer)) for server in servers):
        return Mode.TEXT
    modes = {server.mode for server in servers if isinstance(server, AutoServer)}
    return next((mode for mode in (Mode.CHAT, Mode.TEXT) if mode in modes), Mode.TOKENS)
