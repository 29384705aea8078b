"""Request completions from objects that have only Atropos' server methods: tests' mocks, and users' own classes."""

from __future__ import annotations

import asyncio
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..errors import ServerError
from ..inference.addresses import find_format, public_url
from ..inference.formats.choices import read_choice, read_finish_reason, read_name
from ..inference.formats.reply_format import ReplyFormat, ReplyKind, SentRequest, ServerReply, TokenCompletion
from ..inference.server import Reachability, RequestOptions, is_empty
from ..records import Prompt, Sampling


class MethodCompleter:
    """Requests completions by calling the methods of `server`, which has Atropos' server interface.

    `formats` are the reply formats to try, in order of preference. A stand-in (`is_stand_in`) is a mock, or a server
    whose methods were replaced. A stand-in gets any number of requests at once, and no trial request at startup.
    """

    def __init__(self, server: object, formats: Sequence[ReplyFormat], *, is_stand_in: bool) -> None:
        self.server = server
        self._is_stand_in = is_stand_in
        self.formats = formats
        self.format = formats[0] if len(formats) == 1 else None
        self._reachability = Reachability(self.url)

    @property
    def address(self) -> str:
        return public_url(self.url)

    @property
    def url(self) -> str:
        url = getattr(self._config, "base_url", None)
        return url if url and isinstance(url, str) else type(self.server).__name__

    @property
    def _config(self) -> Any:
        return getattr(self.server, "config", None)

    def place(self, reply_format: ReplyFormat) -> str:
        return f"{reply_format.kind.method} of {type(self.server).__name__}"

    @property
    def is_away(self) -> bool:
        return not getattr(self.server, "server_healthy", True) or self._reachability.is_away

    def load(self, split: str) -> float:
        server: Any = self.server
        if self._is_stand_in:
            return 0.0
        slots = server.sem if split == "train" else server.eval_sem
        return float(1 - slots._value / slots.max_val)

    async def complete(
        self,
        prompt: Prompt,
        n: int,
        sampling: Sampling,
        options: RequestOptions,
        *,
        kind: ReplyKind | None = None,
        reply_s: float | None = None,
    ) -> ServerReply:
        """Request `n` completions from a method of `server`. Errors of this method are raised unchanged.

        Raises:
            ServerError: `server` has no such method, or the method returned None.
            ServerAwayError: The server became unreachable after the request was sent.
        """
        kind = kind or (self.format or await find_format(self, prompt, options)).kind
        arguments = {
            "n": n,
            "max_tokens": sampling.completion_budget(prompt),
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "split": sampling.split,
            **_as_arguments(prompt, kind, options),
        }
        method = getattr(self.server, kind.method, None)
        if method is None:
            name = type(self.server).__name__
            raise ServerError(f"env.server ({name}) cannot return completions: it needs a method {kind.method}")
        async with asyncio.timeout(reply_s):
            reply = await self._reachability.outlast(method(**arguments))
        if reply is None:
            words = textwrap.shorten(prompt.text or prompt.messages[0]["content"], 100)
            name = type(self.server).__name__
            raise ServerError(f"{name}.{kind.method} returned None for the prompt that begins with {words!r}")
        parameters = {
            **{name: arguments[name] for name in ("max_tokens", "temperature", "top_p")},
            **options.of(kind),
        }
        reply = _read(reply, kind)
        return replace(reply, requests=[SentRequest(parameters, parameters, reply.model)])

    async def gives_token(self, reply_format: ReplyFormat, prompt: Prompt, options: RequestOptions) -> bool:
        """Request one token, without Atropos' retries and waits, and return whether the reply has a token.

        If `server` is a stand-in, return True without a request.
        """
        if self._is_stand_in:
            return True
        kind = reply_format.kind
        wrapper = getattr(self.server, f"_{kind.method}_wrapper")
        arguments = {"n": 1, "max_tokens": 1, "temperature": 1.0, **_as_arguments(prompt, kind, options)}
        completions = _read(await wrapper(model=self._config.model_name, **arguments), kind).completions
        return not all(map(is_empty, completions)) if kind is ReplyKind.TOKENS else bool(completions)

    async def context_length(self) -> int | None:
        """Return None, because no method of Atropos' servers reports a context length."""
        return None

    async def read_text(self, text: str) -> None:
        """Return None, because no method of Atropos' servers reports how the server tokenizes a string."""

    async def check_if_away(self) -> None:
        await self._reachability.check_if_away()

    async def close(self) -> None:
        """Do nothing: the code that created `server` closes it."""


def _as_arguments(prompt: Prompt, kind: ReplyKind, options: RequestOptions) -> dict[str, Any]:
    """Return prompt and options as keyword arguments; `extra_body` has options unknown to OpenAI's client."""
    parameters = options.of(kind)
    parameters.pop("reasoning_effort", None)  # Atropos' own code adds this parameter
    known = {"stop": parameters.pop("stop")} if "stop" in parameters else {}
    extra: dict[str, Any] = {"extra_body": parameters} if parameters else {}
    if kind is ReplyKind.CHAT:
        return {"messages": [dict(message) for message in prompt.messages], **known, **extra}
    tokens = {"input_ids": list(prompt.tokens)} if kind is ReplyKind.TOKENS else {}
    return {"prompt": prompt.text, **tokens, **known, **extra}


def _read(reply: Any, kind: ReplyKind) -> ServerReply:
    """Return the completions of a method's reply."""
    if kind is not ReplyKind.TOKENS:
        return ServerReply(
            [read_choice(choice) for choice in reply.choices], model=read_name(getattr(reply, "model", None))
        )
    prompt_tokens, *lists = reply
    completions = [
        TokenCompletion(ids, logprobs, read_finish_reason(reason)) for ids, logprobs, reason in zip(*lists, strict=True)
    ]
    return ServerReply(completions, prompt_tokens)
