"""Ask Atropos' server objects for completions, through their outages.

Servers of type vllm and sglang give the tokens they sampled, with log-probabilities; openai and trl give text, which is
tokenized here; chat servers give text that nobody tokenizes. Atropos' own clients wait for ever while no server is
healthy; the limits here end that.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial
from typing import Any

from atroposlib.envs.server_handling.openai_server import OpenAIServer
from atroposlib.envs.server_handling.trl_vllm_server import TrlVllmServer

from ...concurrency import cancel_all, take_turns
from ...errors import RefusedError, ServerError
from ...outage_log import OutageLog
from ...prompting import ChatFormat
from ...records import Prompt, Rollout, Sampling, Timeouts
from .chat import ChatRequests, PlainChat, is_chat
from .decoding import fast_decode
from .rollouts import rollout_from_node, rollout_from_text

logger = logging.getLogger(__name__)

FRUITLESS_REQUESTS = 3
"""How many requests in a row may bring no usable completion; as long as some come, the rest is asked for again."""
MAX_FAILURES = 3
"""Failures of one group, while others succeed, after which it is given up."""
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 4.0
RATE_LIMITED = 429
REFUSALS = (400, 401, 403, 404, 413, 422)
"""Statuses of replies that the same request gets every time."""
HEALTH_POLL_S = 1.0
UNHEALTHY_S = 3.0
"""How long no server may be healthy before the log says so."""
AVOID_S = 5.0
"""How long after a failed request other servers are preferred."""


class Mode(StrEnum):
    """What a server's reply holds."""

    TOKENS = "tokens"
    TEXT = "text"
    CHAT = "chat"


class IncompleteReply(Exception):
    """The server gave fewer usable completions than it was asked for, FRUITLESS_REQUESTS times."""


class InferenceClient:
    """Gets completions from a ServerManager's servers; `mode` is what their replies hold."""

    def __init__(self, manager: Any, chat: ChatFormat | PlainChat, tokenizer: Any) -> None:
        text_only = any(isinstance(server, (OpenAIServer, TrlVllmServer)) for server in manager.servers)
        self.mode = Mode.TEXT if text_only else Mode.TOKENS
        if any(is_chat(getattr(server, "config", None)) for server in manager.servers):
            self.mode = Mode.CHAT
        self._manager = manager
        self._chat_requests = ChatRequests()
        self._chat = chat
        self._tokenizer = tokenizer
        self._decode = fast_decode(tokenizer) if self.mode is Mode.TOKENS else str
        self._successes = 0
        self._failed_at: dict[int, float] = {}
        self._under_way: Counter[int] = Counter()
        self._outage = OutageLog(logger)
        self._unusable = OutageLog(logger)

    @property
    def healthy(self) -> bool:
        """Whether any server passed its last health check."""
        return any(map(_is_healthy, self._manager.servers))

    @property
    def outage_s(self) -> float:
        """How long requests have failed, or waited for a healthy server; 0 after a success."""
        return self._outage.lasting_s

    async def watch(self) -> None:
        """Log when no server was healthy for UNHEALTHY_S, as requests then wait silently; never returns."""
        healthy_at = time.monotonic()
        while True:
            await asyncio.sleep(HEALTH_POLL_S)
            if self.healthy:
                healthy_at = time.monotonic()
            elif time.monotonic() - healthy_at > UNHEALTHY_S:
                addresses = ", ".join(map(address, self._manager.servers))
                self._outage.note(f"no inference server is healthy; requests wait for {addresses}")

    async def complete(self, prompt: Prompt, n: int, sampling: Sampling, timeouts: Timeouts) -> list[Rollout]:
        """Return exactly `n` rollouts; failed requests are tried again, with pauses, through an outage.

        Raises TimeoutError when a reply takes over `timeouts.reply_s` while other requests succeed, and ServerError for
        a request that the server refuses, after several failures while others succeed, or when requests have failed,
        or no server was healthy, for `timeouts.outage_s`. Where that is not for ever, a server that refuses even the
        first requests is a RefusedError.
        """
        failures, pause_s, successes = 0, FIRST_PAUSE_S, self._successes
        while True:
            try:
                return await self._complete_once(prompt, n, sampling, timeouts)
            except ServerError:
                raise
            except Exception as error:  # clients raise all sorts of things for servers that are gone or talk nonsense
                others_succeed = self._successes > successes
                if others_succeed and isinstance(error, TimeoutError):
                    raise
                # A server that asks for patience is no failure of a group.
                failures += others_succeed and status_of(error) != RATE_LIMITED
                successes = self._successes
                description = describe_failure(error)
                if status_of(error) in REFUSALS:
                    never = not successes and math.isfinite(timeouts.outage_s)
                    kind = RefusedError if never else ServerError
                    remedy = remedy_of_refusal(status_of(error))
                    raise kind(f"the inference server refuses requests ({description}); {remedy}") from error
                if failures >= MAX_FAILURES:
                    raise ServerError(f"{failures} failures while others succeeded: {description}") from error
                self._outage.note(f"requests for completions fail, and are tried again ({description})")
                if self._outage.lasting_s + pause_s > timeouts.outage_s:
                    raise ServerError(f"requests fail for {timeouts.outage_s:g} s: {description}") from error
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _complete_once(self, prompt: Prompt, n: int, sampling: Sampling, timeouts: Timeouts) -> list[Rollout]:
        """Try once; raises TimeoutError at `reply_s`, ServerError at `outage_s`, and what clients raise."""
        healthy_at = time.monotonic()
        work = asyncio.ensure_future(self._collect(prompt, n, sampling))
        try:
            async with asyncio.timeout(timeouts.reply_s):
                while not (await asyncio.wait([work], timeout=HEALTH_POLL_S))[0]:
                    if self.healthy:
                        healthy_at = time.monotonic()
                    elif time.monotonic() - healthy_at > timeouts.outage_s:
                        raise ServerError(f"no inference server has been healthy for {timeouts.outage_s:g} s")
            return work.result()
        finally:
            await cancel_all([work])

    async def _collect(self, prompt: Prompt, n: int, sampling: Sampling) -> list[Rollout]:
        """Ask until there are `n` rollouts; raises IncompleteReply once requests are fruitless."""
        rollouts: list[Rollout] = []
        fruitless = 0
        while fruitless < FRUITLESS_REQUESTS:
            missing = n - len(rollouts)
            usable = await self._request(prompt, missing, sampling)
            rollouts += usable[:missing]
            if len(rollouts) == n:
                self._successes += 1
                self._outage.over("completions arrive again")
                return rollouts
            fruitless = 0 if usable else fruitless + 1
        raise IncompleteReply(f"{len(rollouts)} usable completions of {n}, then none in {fruitless} requests")

    async def _request(self, prompt: Prompt, n: int, sampling: Sampling) -> list[Rollout]:
        """Send one request; of several servers, it leaves one that becomes unhealthy for one that is healthy."""
        servers = self._manager.servers
        if len(servers) == 1:
            return await self._ask(self._manager, prompt, n, sampling)
        while True:
            server = self._choose(servers, sampling.split)
            self._under_way[id(server)] += 1
            manager = copy.copy(self._manager)
            manager.servers = [server]
            work = asyncio.ensure_future(self._ask(manager, prompt, n, sampling))
            try:
                while _is_healthy(server) or not self.healthy:
                    if (await asyncio.wait([work], timeout=HEALTH_POLL_S))[0]:
                        return work.result()
            except Exception:
                self._failed_at[id(server)] = time.monotonic()
                raise
            finally:
                self._under_way[id(server)] -= 1
                await cancel_all([work])
            logger.debug("a request leaves %s, which is not healthy", address(server))

    def _choose(self, servers: Sequence[Any], split: str) -> Any:
        """Return the healthy server with most free slots, as Atropos does; recently failed ones come last."""
        now = time.monotonic()

        def rank(server: Any) -> tuple[bool, bool, float]:
            failed = now - self._failed_at.get(id(server), -math.inf) < AVOID_S
            slots = server.sem if split == "train" else server.eval_sem
            # Atropos takes a slot only after the choice, so requests that begin together would choose the same server.
            return _is_healthy(server), not failed, slots.max_val - self._under_way[id(server)]

        return max(servers, key=rank)

    async def _ask(self, manager: Any, prompt: Prompt, n: int, sampling: Sampling) -> list[Rollout]:
        # Atropos works for milliseconds on a reply with tokens, and many replies can come together.
        return await take_turns(self._sample(manager, prompt, n, sampling))

    async def _sample(self, manager: Any, prompt: Prompt, n: int, sampling: Sampling) -> list[Rollout]:
        arguments = {
            "prompt": prompt.text,
            "n": n,
            "max_tokens": sampling.completion_budget(prompt),
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "split": sampling.split,
        }
        if self.mode is Mode.CHAT:
            return await self._chat_requests.complete(manager.servers[0], prompt, n, sampling)
        if isinstance(self._chat, ChatFormat) and self.mode is Mode.TEXT:
            reply = await manager.completion(**arguments)
            # Tokenizing long completions takes longer than the event loop may stand still.
            convert = partial(rollout_from_text, self._chat, prompt, sampling)
            return self._usable(await asyncio.to_thread(lambda: list(map(convert, reply.choices))))
        async with manager.managed_server(tokenizer=_PromptTokenizer(self._tokenizer, prompt, self._decode)) as managed:
            reply = await managed.completion(**arguments)
            nodes = managed.get_state()["nodes"]
        paired = zip(reply.choices, nodes, strict=True)
        return self._usable([rollout_from_node(choice, node, sampling.token_limit) for choice, node in paired])

    def _usable(self, rollouts: Sequence[Rollout | str]) -> list[Rollout]:
        """Return the rollouts among these; the others are texts that say why there is none."""
        unusable = [rollout for rollout in rollouts if isinstance(rollout, str)]
        if unusable:
            self._unusable.note(f"completions are left out: the server returned {unusable[0]}")
        else:
            self._unusable.over("all completions can be used again")
        return [rollout for rollout in rollouts if isinstance(rollout, Rollout)]


class _PromptTokenizer:
    """A tokenizer that knows the tokens of one prompt.

    Atropos would tokenize the prompt again, and add special tokens to those that the chat template has written.
    """

    def __init__(self, tokenizer: Any, prompt: Prompt, decode: Callable[..., str]) -> None:
        self._tokenizer = tokenizer
        self._prompt = prompt
        self.decode = decode

    def encode(self, text: str, **options: Any) -> list[int]:
        if text == self._prompt.text:
            return list(self._prompt.tokens)
        return list(self._tokenizer.encode(text, **options))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status that a client's error stands for, where it stands for one."""
    cause = _cause(error)
    return getattr(cause, "status_code", None) or getattr(cause, "status", None)


def remedy_of_refusal(status: int | None) -> str:
    """Return what to do about a reply with one of REFUSALS, as its words alone do not name the setting."""
    if status in (401, 403):
        return "check openai.api_key"
    if status == 404:
        return "check openai.model_name and openai.base_url"
    return "check openai.model_name, and that env.max_token_length is not above the server's context"


def describe_failure(error: BaseException) -> str:
    """Return the failure in one line; of tenacity's RetryError, the failure of its last attempt."""
    cause = _cause(error)
    return f"{type(cause).__name__}: {cause}".rstrip(": ").splitlines()[0][:300]


def _cause(error: BaseException) -> BaseException:
    """Return the failure of the last attempt of tenacity's RetryError, and any other error as it is."""
    last_attempt = getattr(error, "last_attempt", None)
    return (last_attempt.exception() if last_attempt is not None else None) or error


def _is_healthy(server: Any) -> bool:
    return bool(getattr(server, "server_healthy", True))


def address(server: Any) -> str:
    """Return what a server is called in messages."""
    return str(getattr(server.config, "base_url", None) or type(server).__name__)
