"""Servers of type chat: any OpenAI-compatible `/v1/chat/completions`, hosted ones too.

Such a server lays out the prompt itself and answers with text, so no tokenizer is needed, and there are no tokens to
train on. Each completion is a request of its own: many hosted servers ignore or refuse `n`, and the number of tokens is
told by request. Thinking that a server gives apart from the text stays apart: no answer is looked for in it. Health is
not asked for, because at a hosted server that would cost money every second.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, Literal

from atroposlib.envs import base
from atroposlib.envs.server_handling.server_baseline import APIServerConfig, ServerBaseline
from pydantic import Field

from ...errors import ConfigError
from ...prompts.thinking import choose_thinking
from ...records import Prompt, Rollout, Sampling
from ...runtime.concurrency import cancel_all

logger = logging.getLogger(__name__)

AUTO, CHAT = "auto", "chat"
NO_KEY = "x"
"""The key for servers that need none; the client refuses to be made without a key."""
THINKING = ("reasoning_content", "reasoning")
"""Where servers put the thinking: vLLM, SGLang and DeepSeek, and newer ones of vLLM and others."""
OPTIONAL = ("temperature", "top_p", "extra_body")
"""Parameters that some hosted models refuse; they are then left out, which the log says."""

SERVER_TYPES = Literal["auto", "openai", "trl", "sglang", "vllm", "completions", "chat"]

# Atropos' own config is how a server is named in files, on the command line and from Python.
for _config in (ServerBaseline, APIServerConfig):
    _config.model_fields["server_type"].annotation = SERVER_TYPES
    _config.model_rebuild(force=True)


class ServerConfig(APIServerConfig):  # type: ignore[misc]  # atroposlib has no types
    """An inference server of which nothing is known but its address."""

    server_type: SERVER_TYPES = Field(
        default="auto",
        description="How it is asked. `auto` finds out the best that it gives; any other type is kept to.",
    )


class ChatServerConfig(APIServerConfig):  # type: ignore[misc]
    """A chat server for Atropos, to which it is one of type openai."""


def is_chat(config: object) -> bool:
    """Tell whether a server's config is that of a chat server."""
    return isinstance(config, ChatServerConfig)


def read_key(config: Any) -> str:
    """Return a server's key (`$NAME`: from that variable); raises ConfigError if the variable is not set."""
    key = str(config.api_key or "")
    if key.startswith("$"):
        if not os.environ.get(key[1:]):
            raise ConfigError(f"openai.api_key: the environment variable {key[1:]} is not set")
        return os.environ[key[1:]]
    if config.server_type == CHAT and key in ("", NO_KEY):
        return os.environ.get("OPENAI_API_KEY") or NO_KEY
    return key or NO_KEY


@contextlib.contextmanager
def tokenizer_if_needed(configs: object, *, testing: bool = False) -> Iterator[None]:
    """Keep BaseEnv from loading a tokenizer if all servers are chat servers; `tokenizer` is then None.

    With `testing`, a tokenizer that is not on this machine is not downloaded.
    """
    several = configs if isinstance(configs, list) else [configs]
    loader = base.AutoTokenizer
    if all(map(is_chat, several)):
        base.AutoTokenizer = _NoTokenizer
    elif testing:
        base.AutoTokenizer = SimpleNamespace(from_pretrained=partial(_load_local, loader))
    try:
        yield
    finally:
        base.AutoTokenizer = loader


def _load_local(loader: Any, name: str) -> Any:
    try:
        return loader.from_pretrained(name, local_files_only=True)
    except OSError as error:
        raise OSError(f"{name!r} is not on this machine, and testing=True downloads nothing") from error


class _NoTokenizer:
    @staticmethod
    def from_pretrained(_name: str) -> None:
        return None


class PlainChat:
    """Stands for a chat format where the server has it: prompts are messages alone.

    No tokenizer says which formats of thinking the model knows, so that `auto` takes `<think>` only.
    """

    hides_thinking = False
    vocabulary_size = 0

    def __init__(self, thinking: str = "auto") -> None:
        self.thinking = choose_thinking(thinking)

    def prompt(self, messages: Sequence[Mapping[str, str]]) -> Prompt:
        characters = sum(len(message["content"]) for message in messages)
        # Common tokenizers have more than two characters a token, so that no prompt takes more than is reserved for it.
        return Prompt(tuple(messages), "", (), estimated_tokens=characters // 2)

    def count_tokens(self, text: str) -> int:
        """Return at least as many tokens as common tokenizers make of a text."""
        return len(text) // 2

    def decode(self, tokens: Sequence[int]) -> str:
        return ""

    def completion_text(self, tokens: Any) -> str:
        return ""


class ChatRequests:
    """Asks chat servers for completions, and remembers which parameters they refuse."""

    def __init__(self) -> None:
        self._turns = itertools.count()
        self._limit_name = "max_tokens"
        self._left_out: set[str] = set()

    async def complete(
        self,
        servers: Sequence[Any],
        prompt: Prompt,
        n: int,
        sampling: Sampling,
        more: Mapping[str, Any] | None = None,
    ) -> list[Rollout]:
        """Ask the servers in turn for `n` rollouts; return those that came, or raise what the client raised for all."""
        budget = sampling.completion_budget(prompt)
        options = {"temperature": sampling.temperature, "top_p": sampling.top_p, **(more or {})}
        messages = list(map(dict, prompt.messages))

        async def request_one() -> Rollout:
            server = servers[next(self._turns) % len(servers)]
            async with server.sem if sampling.split == "train" else server.eval_sem:
                return await self.ask(server, messages, budget, options)

        requests = [asyncio.ensure_future(request_one()) for _ in range(n)]
        try:
            replies = await asyncio.gather(*requests, return_exceptions=True)
        finally:
            await cancel_all(requests)
        failures = [reply for reply in replies if isinstance(reply, BaseException)]
        if len(failures) == n:
            raise failures[0]
        return [reply for reply in replies if isinstance(reply, Rollout)]

    async def ask(
        self, server: Any, messages: list[dict[str, str]], budget: int, options: Mapping[str, Any]
    ) -> Rollout:
        """Send one request, and again without what the server refuses."""
        create, model = server.openai.chat.completions.create, server.config.model_name
        while True:
            sent = {name: value for name, value in options.items() if name not in self._left_out}
            arguments = {"model": model, "messages": messages, self._limit_name: budget, **sent}
            try:
                reply = await create(**arguments)
            except Exception as error:
                if not self._do_without(error, arguments):
                    raise
            else:
                return rollout_from_message(
                    reply.choices[0], getattr(getattr(reply, "usage", None), "completion_tokens", None)
                )

    def _do_without(self, error: Exception, sent: Mapping[str, Any]) -> bool:
        """Note which parameter the error refuses; False when it is about something else."""
        text = str(error)
        if getattr(error, "status_code", None) not in (400, 422):
            return False
        if "max_completion_tokens" in text and "max_tokens" in sent:
            self._limit_name = "max_completion_tokens"
            return True
        refused = [
            name for name in OPTIONAL if name in sent and any(word in text for word in _words_for(name, sent[name]))
        ]
        for name in refused:
            if name not in self._left_out:
                told = ", ".join(_words_for(name, sent[name]))
                logger.warning("the server takes no %s; completions are sampled with its own", told)
        self._left_out.update(refused)
        return bool(refused)


def _words_for(name: str, value: Any) -> list[str]:
    """Return what a refusal calls a parameter; the extra ones have names of their own."""
    return list(value) if name == "extra_body" else [name]


def rollout_from_message(choice: Any, token_count: object = None) -> Rollout:
    """Return a rollout of a chat server's text; there are no tokens to train on."""
    thinking = [getattr(choice.message, name, None) for name in THINKING]
    return Rollout(
        text=choice.message.content or "",
        tokens=(),
        masks=(),
        logprobs=None,
        finish_reason=choice.finish_reason or "stop",
        token_count=token_count if isinstance(token_count, int) else None,
        thinking=next((text for text in thinking if isinstance(text, str)), ""),
    )
