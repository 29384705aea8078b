"""Inference servers of Atropos' own kind whose replies are read here, and what an unknown server turns out to give.

They are what ServerManager makes of the settings: health checks, limits of requests, retries and lists of nodes stay
Atropos'. Only how tokens are asked for and read is ours. A server of type `auto` is asked for one token in each way,
the best first, and keeps to the first way that works.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from enum import StrEnum
from functools import partial
from typing import Any

import aiohttp
from atroposlib.envs.server_handling.openai_server import OpenAIServer
from atroposlib.envs.server_handling.server_baseline import APIServer, ServerBaseline
from atroposlib.envs.server_handling.sglang_server import SGLangServer
from atroposlib.envs.server_handling.trl_vllm_server import TrlVllmServer
from atroposlib.envs.server_handling.vllm_server import VLLMServer

from ...errors import ServerError
from .chat import ChatRequests, ChatServerConfig
from .failures import Meaning, address, describe_failure, explain_failure
from .replies import COMPLETIONS, SGLANG, VLLM, ReplyError, TokenProtocol, in_turn, room_for_reply

logger = logging.getLogger(__name__)

STALL_S = 10.0
"""How long a reply that has begun may stand still; servers send a whole group at once."""
ONE_TOKEN = "1 + 1 ="
"""What servers are asked to continue by a single token, to find out what they give."""


TokenReply = tuple[list[int], list[Any], list[Any], list[str | None]]
"""What Atropos' servers return: the prompt's tokens; the tokens, log-probabilities and finish reason of completions."""


TEXT_ONLY = (
    "text only: tokens are made again from the text, without log-probabilities; fine for evaluation and data, not for "
    "training"
)


class Mode(StrEnum):
    """What a server's reply holds, the best first."""

    TOKENS = "tokens"
    TEXT = "text"
    CHAT = "chat"


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
            while (one := await in_turn(partial(next, pieces, None))) is not None:
                some_ids, some_logprobs = await in_turn(partial(protocol.read, one))
                ids.append(some_ids if arrays else some_ids.tolist())
                logprobs.append(some_logprobs if arrays else some_logprobs.tolist())
                reasons.append(one.finish_reason)
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


async def _read_body(response: aiohttp.ClientResponse) -> bytes:
    """Return the whole body; raises ReplyError where it stops on the way, or all other replies would wait for it."""
    parts: list[bytes] = []
    try:
        while True:
            async with asyncio.timeout(STALL_S):
                part = await response.content.readany()
            if not part:
                # To join 20 MB takes 9 ms, in which a thread leaves the event loop free.
                return await asyncio.to_thread(b"".join, parts)
            parts.append(part)
    except TimeoutError as error:
        size = sum(map(len, parts))
        raise ReplyError(f"a reply that stopped after {size} bytes, for {STALL_S:g} s") from error


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
    """A server of type `auto`: what it gives is found out by its first request, or by `find_out` before."""

    mode: Mode | None = None
    protocol: TokenProtocol | None = None

    async def find_out(self, options: Callable[[Mode], Mapping[str, Any]]) -> Mode:
        """Return what the server gives, and keep to it; `options` are those of training's requests.

        Raises what a client raises where the server is not there, and ServerError where it gives nothing at all.
        """
        refusals: list[str] = []
        passing: Exception | None = None
        for mode, protocol in WAYS:
            try:
                if not await ask_for_one_token(self, mode, options(mode), protocol):
                    raise ReplyError("no token")
            except Exception as error:
                failure = explain_failure(error)
                if failure.status in (401, 403):
                    raise
                if failure.meaning in (Meaning.ABSENT, Meaning.BUSY):
                    if failure.status is None:
                        raise
                    passing = error
                refusals.append(f"{endpoint(mode, protocol)}: {describe_failure(error)}")
            else:
                self.mode, self.protocol = mode, protocol
                return mode
        if passing is not None:
            raise passing
        raise ServerError(
            f"the inference server at {address(self)} gives no completions in any way that was tried "
            f"({'; '.join(refusals)}); check openai.base_url, which mostly ends in /v1, and openai.model_name"
        )

    async def _tokens_and_logprobs_completion_wrapper(self, **options: Any) -> TokenReply:
        if self.mode is None:
            mode = await self.find_out(lambda mode: {})
            logger.log(
                logging.INFO if mode is Mode.TOKENS else logging.WARNING, "%s: %s", address(self), what_comes([self])
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


WAYS: Sequence[tuple[Mode, TokenProtocol | None]] = (
    (Mode.TOKENS, VLLM),
    (Mode.TOKENS, SGLANG),
    (Mode.TOKENS, COMPLETIONS),
    (Mode.TEXT, None),
    (Mode.CHAT, None),
)
"""How an unknown server is asked, the best way first."""

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
    found = {server.mode for server in servers if isinstance(server, AutoServer)}
    return next((mode for mode in (Mode.CHAT, Mode.TEXT) if mode in found), Mode.TOKENS)


def what_comes(servers: Sequence[Any]) -> str:
    """Return in words what the servers give; empty for stand-ins."""
    match mode_of(servers):
        case Mode.TOKENS:
            endpoints = {server.protocol.endpoint for server in servers if getattr(server, "protocol", None)}
            named = f" ({', '.join(sorted(endpoints))})" if endpoints else ""
            return f"tokens and log-probabilities as sampled{named}"
        case Mode.TEXT:
            return TEXT_ONLY
        case Mode.CHAT:
            return "chat only: text without tokens; for evaluation and data, not for training"
        case None:
            return ""


def endpoint(mode: Mode, protocol: TokenProtocol | None = None) -> str:
    """Return what a server must answer."""
    if mode is Mode.TOKENS:
        return protocol.endpoint if protocol else "POST /generate with tokens and log-probabilities"
    return "POST /v1/completions" if mode is Mode.TEXT else "POST /v1/chat/completions"


async def ask_for_one_token(
    server: Any, mode: Mode, options: Mapping[str, Any], protocol: TokenProtocol | None = None
) -> bool:
    """Ask as training does, but for one token; return whether one came. Raises what clients raise.

    `protocol` is that of a server of type `auto`.
    """
    arguments = {
        "model": server.config.model_name,
        "prompt": ONE_TOKEN,
        "n": 1,
        "max_tokens": 1,
        "temperature": 1.0,
        **options,
    }
    if mode is Mode.CHAT:
        await ChatRequests().ask(server, [{"role": "user", "content": ONE_TOKEN}], 1, options)
        return True
    if mode is Mode.TEXT:
        reply = await server._completion_wrapper(**arguments)
        return bool(reply.choices)
    sample = server._tokens_and_logprobs_completion_wrapper if protocol is None else partial(server.sample, protocol)
    _, outputs, _, _ = await sample(**arguments)
    return bool(outputs) and len(outputs[0]) > 0
