"""Completions from Atropos' server objects, as rollouts whose tokens and masks have been checked.

Servers of type vllm and sglang give the tokens they sampled, with log-probabilities; openai and trl give text, which is
tokenized here. This module knows those objects by the methods it calls; it does not import Atropos.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from .chat import ChatFormat, Prompt
from .errors import ServerError
from .records import Rollout

logger = logging.getLogger(__name__)

FRUITLESS_REQUESTS = 3
"""How many requests in a row may bring no usable completion; as long as some come, the rest is asked for again."""
SPECIAL_TOKENS_MARGIN = 2
"""Tokens kept free for the special tokens that a server may add around a prompt."""
POLL_S = 1.0
NO_REPLY = "it accepts requests and does not reply"
UNREACHABLE_STATUS = (429, 500, 502, 503, 504)


class Mode(str, Enum):
    """What a server's reply holds."""

    TOKENS = "tokens"
    TEXT = "text"


@dataclass(frozen=True)
class Sampling:
    """How to sample: nucleus and temperature, and the budget of which prompt and completion stay strictly below."""

    temperature: float
    top_p: float
    token_limit: int
    split: str

    def completion_budget(self, prompt: Prompt) -> int:
        """Tokens left for a completion; may be zero or negative."""
        return self.token_limit - 1 - SPECIAL_TOKENS_MARGIN - len(prompt.tokens)


@dataclass(frozen=True)
class Patience:
    """How long to wait for a reply in all (None: as long as it takes), and while no server is healthy, in seconds."""

    reply_s: float | None
    outage_s: float


class IncompleteReply(Exception):
    """The server gave fewer usable completions than asked for, repeatedly."""


class InferenceClient:
    """Asks a ServerManager for completions."""

    def __init__(self, servers: Any, chat: ChatFormat, tokenizer: Any, mode: Mode) -> None:
        self._servers = servers
        self._chat = chat
        self._tokenizer = tokenizer
        self._mode = mode

    async def complete(self, prompt: Prompt, n: int, sampling: Sampling) -> list[Rollout]:
        """Exactly `n` rollouts, by one request of `n` unless the server leaves some out.

        Raises IncompleteReply, and whatever the server's client raises after its own retries.
        """
        rollouts: list[Rollout] = []
        fruitless = 0
        while fruitless < FRUITLESS_REQUESTS:
            missing = n - len(rollouts)
            usable = await self._request(prompt, missing, sampling)
            rollouts += usable[:missing]
            if len(rollouts) == n:
                return rollouts
            fruitless = 0 if usable else fruitless + 1
        raise IncompleteReply(f"{len(rollouts)} usable completions of {n}, then none in {fruitless} requests")

    async def complete_in_time(self, prompt: Prompt, n: int, sampling: Sampling, patience: Patience) -> list[Rollout]:
        """`complete`, but raising ServerError instead of waiting without end for a server that is gone or stuck.

        Atropos' own clients wait for ever while no server is healthy, which a training run wants and others do not.
        """
        started = last_healthy = time.monotonic()
        work = asyncio.ensure_future(self.complete(prompt, n, sampling))
        try:
            while not (await asyncio.wait([work], timeout=POLL_S))[0]:
                now = time.monotonic()
                if any(getattr(server, "server_healthy", True) for server in self._servers.servers):
                    last_healthy = now
                if now - last_healthy > patience.outage_s:
                    raise ServerError(f"no inference server has been healthy for {patience.outage_s:g} s")
                if patience.reply_s is not None and now - started > patience.reply_s:
                    raise ServerError(f"no reply within {patience.reply_s:g} s")
            return work.result()
        finally:
            work.cancel()
            await asyncio.wait([work])

    async def _request(self, prompt: Prompt, n: int, sampling: Sampling) -> list[Rollout]:
        arguments = {
            "prompt": prompt.text,
            "n": n,
            "max_tokens": sampling.completion_budget(prompt),
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "split": sampling.split,
        }
        if self._mode is Mode.TEXT:
            reply = await self._servers.completion(**arguments)
            # Tokenizing long completions takes longer than the loop may stand still.
            return await asyncio.to_thread(self._rollouts_from_texts, prompt, reply.choices, sampling)
        async with self._servers.managed_server(tokenizer=_PromptTokenizer(self._tokenizer, prompt)) as managed:
            reply = await managed.completion(**arguments)
            nodes = managed.get_state()["nodes"]
        paired = zip(reply.choices, nodes, strict=True)
        rollouts = (_rollout_from_node(choice, node, sampling.token_limit) for choice, node in paired)
        return [rollout for rollout in rollouts if rollout is not None]

    def _rollouts_from_texts(self, prompt: Prompt, choices: Sequence[Any], sampling: Sampling) -> list[Rollout]:
        rollouts = (self._rollout_from_text(prompt, choice, sampling) for choice in choices)
        return [rollout for rollout in rollouts if rollout is not None]

    def _rollout_from_text(self, prompt: Prompt, choice: Any, sampling: Sampling) -> Rollout | None:
        text = self._chat.strip_end_of_turn(choice.text or "")
        finish_reason = choice.finish_reason or "stop"
        completion = self._chat.completion_tokens(text, finished=finish_reason == "stop")
        if not completion:
            logger.warning("a completion is left out: the server returned no text, and says that it was cut short")
            return None
        room = sampling.token_limit - 1 - len(prompt.tokens)
        if len(completion) > room:
            # Tokenized here, the text can be longer than what the server counted.
            completion, finish_reason = completion[:room], "length"
        return Rollout(
            text=text,
            tokens=(*prompt.tokens, *completion),
            masks=(*(-100 for _ in prompt.tokens), *completion),
            logprobs=None,
            finish_reason=finish_reason,
        )


class _PromptTokenizer:
    """The tokenizer, but for one prompt whose tokens are known.

    Atropos would tokenize the prompt a second time, and add special tokens to those that the chat template has written.
    """

    def __init__(self, tokenizer: Any, prompt: Prompt) -> None:
        self._tokenizer = tokenizer
        self._prompt = prompt
        # Where it does nothing else, half of the time that decoding takes is spent around the backend.
        plain = getattr(tokenizer, "is_fast", False) and not tokenizer.clean_up_tokenization_spaces
        self.decode = tokenizer.backend_tokenizer.decode if plain else tokenizer.decode

    def encode(self, text: str, **options: Any) -> list[int]:
        if text == self._prompt.text:
            return list(self._prompt.tokens)
        return list(self._tokenizer.encode(text, **options))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)


def _rollout_from_node(choice: Any, node: Any, token_limit: int) -> Rollout | None:
    """A rollout from the server's tokens, or None where they cannot be trained on."""
    tokens, masks, logprobs = tuple(node.tokens), tuple(node.masked_tokens), tuple(node.logprobs)
    prompt_length = masks.count(-100)
    problem = None
    if not len(tokens) == len(masks) == len(logprobs):
        problem = f"{len(tokens)} tokens, {len(masks)} masks and {len(logprobs)} log-probabilities"
    elif prompt_length == len(masks):
        problem = "no completion tokens"
    elif masks[prompt_length:] != tokens[prompt_length:]:
        problem = "masks that differ from the tokens"
    elif len(tokens) >= token_limit:
        problem = f"{len(tokens)} tokens, at or over the limit of {token_limit}"
    elif not math.isfinite(sum(logprobs)):
        problem = "log-probabilities that are not finite"
    if problem is not None:
        logger.warning("a completion is left out: the server returned %s", problem)
        return None
    return Rollout(
        text=choice.text or "",
        tokens=tokens,
        masks=masks,
        logprobs=logprobs,
        finish_reason=choice.finish_reason or "stop",
    )


async def check_servers(servers: Sequence[Any], mode: Mode, timeout_s: float) -> None:
    """Ask every server for one token the way training will; return when one of them answers.

    Raises ServerError when a server answers but cannot do what its type promises, or when none is there in time.
    """
    deadline = time.monotonic() + timeout_s
    told: set[str] = set()
    problems: list[str | None] = [None] * len(servers)
    while True:
        patience_s = max(POLL_S, deadline - time.monotonic())
        replies = await asyncio.gather(*(_probe_in_time(server, mode, patience_s) for server in servers))
        # A probe cut short tells less than the one before it.
        problems = [
            known if reply == NO_REPLY and known else reply for reply, known in zip(replies, problems, strict=True)
        ]
        silent = [(server, problem) for server, problem in zip(servers, problems, strict=True) if problem]
        if len(silent) < len(servers):
            for server, problem in silent:
                logger.warning("the inference server at %s does not answer yet: %s", _address(server), problem)
            return
        summary = "; ".join(f"{_address(server)}: {problem}" for server, problem in silent)
        if time.monotonic() >= deadline:
            raise ServerError(
                f"no inference server answered within {timeout_s:g} s ({summary}); "
                "start one, or correct openai.base_url"
            )
        if summary not in told:
            told.add(summary)
            logger.info("waiting for an inference server (%s)", summary)
        await asyncio.sleep(min(POLL_S, timeout_s))


async def _probe_in_time(server: Any, mode: Mode, patience_s: float) -> str | None:
    try:
        return await asyncio.wait_for(_probe(server, mode), patience_s)
    except asyncio.TimeoutError:
        return NO_REPLY


async def _probe(server: Any, mode: Mode) -> str | None:
    """None when the server works, a word on why when it is not there; raises ServerError when it never will."""
    arguments = {"model": server.config.model_name, "prompt": "1 + 1 =", "n": 1, "max_tokens": 1, "temperature": 1.0}
    try:
        if mode is Mode.TEXT:
            reply = await server._completion_wrapper(**arguments)
            usable = bool(reply.choices)
        else:
            _, outputs, _, _ = await server._tokens_and_logprobs_completion_wrapper(**arguments)
            usable = bool(outputs) and bool(outputs[0])
    except Exception as error:
        return _judge_failure(server, mode, error)
    if usable:
        return None
    raise ServerError(f"the inference server at {_address(server)} answered a request for one token with none")


def _judge_failure(server: Any, mode: Mode, error: Exception) -> str:
    status = getattr(error, "status_code", None) or getattr(error, "status", None)
    description = f"{type(error).__name__}: {error}".splitlines()[0][:300]
    unreachable = isinstance(error, (OSError, asyncio.TimeoutError)) or type(error).__name__ in (
        "APIConnectionError",
        "APITimeoutError",
        "ServerDisconnectedError",
    )
    if status in UNREACHABLE_STATUS or (status is None and unreachable):
        return description
    wanted = "POST /generate with tokens and log-probabilities" if mode is Mode.TOKENS else "POST /v1/completions"
    raise ServerError(
        f"the inference server at {_address(server)} cannot be used: it does not answer {wanted} ({description}); "
        f"check openai.server_type (now {getattr(server.config, 'server_type', 'unknown')!r}; 'openai' works with any "
        "OpenAI-compatible server), openai.model_name and openai.api_key"
    ) from error


def _address(server: Any) -> str:
    return str(getattr(server.config, "base_url", None) or type(server).__name__)
