"""Ask inference servers for completions, through their outages, and make rollouts of their replies.

Atropos' manager chooses the server. `servers.py` says what the replies of each type of server hold: the sampled tokens
with log-probabilities, text that is tokenized here, or chat messages that nobody tokenizes. Atropos' own clients wait
for ever while no server is healthy; the limits here end that.
"""

from __future__ import annotations

import asyncio
import logging
import textwrap
import time
from array import array
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from atroposlib.envs.server_handling.server_baseline import APIServer
from atroposlib.envs.server_handling.server_manager import ServerManager

from ...errors import ServerError
from ...inference.chat import ChatRequests, PlainChat, choice_error, ending_word, rollout_from_choice
from ...inference.failures import BrokenOffError
from ...inference.requests import PatientRequests, finish_word
from ...inference.text import ANSWER_END, KEEPS_STOP
from ...prompts.chat_format import ChatFormat
from ...records import Prompt, Rollout, Sampling, Timeouts
from ...runtime.concurrency import cancel_all
from ...runtime.retries import OutageLog
from ...runtime.turns import together
from .replies import TokenRequests
from .rollouts import rollout_from_text, rollout_from_tokens
from .servers import LimitedChat, ReplyKind, address, chat_client, shared_reply_kind, takes_chat_requests, watched

logger = logging.getLogger(__name__)

HEALTH_POLL_S = 2.0
"""Seconds between two readings of the servers' health, which Atropos updates every second."""


Received = Rollout | BrokenOffError | str
"""What came of a completion; a text says why the completion is unusable."""


class UnusableReply(Exception):
    """The server gave no usable completion."""


class InferenceClient:
    """Gets completions from Atropos' servers.

    `manager` returns the environment's ServerManager. `manager` is called for each request, so a replaced manager or
    server is used from then on.

    A stand-in is any object in the place of the manager or of a server: tests of users put one there, as
    docs/testing.md shows, and so do importers with a client of their own. Without stand-ins, all servers are Atropos'
    and of one ReplyKind. A stand-in needs only the method of one ReplyKind. If it has several, the kind of the servers
    at construction is used, else `expected_kind`. A server without a health state counts as healthy.
    """

    def __init__(
        self,
        manager: Callable[[], object],
        chat: ChatFormat | PlainChat,
        *,
        expected_kind: ReplyKind = ReplyKind.TOKENS,
        stop_after_answer: bool = False,
        chat_template_kwargs: Mapping[str, object] | None = None,
    ) -> None:
        self._manager = manager
        self._chat = chat
        self._stop_after_answer = stop_after_answer
        self._chat_template_kwargs = dict(chat_template_kwargs or {})
        self._chat_requests = ChatRequests()
        self._expected_kind = shared_reply_kind(self.servers) or expected_kind
        self._requests = PatientRequests(logger)
        self._unusable = OutageLog(logger)

    # ---- the servers

    @property
    def servers(self) -> Sequence[object]:
        """The manager's servers; a stand-in for the manager without servers is itself the only server."""
        manager = self._manager()
        servers = getattr(manager, "servers", None)
        return servers if isinstance(servers, (list, tuple)) else [manager]

    @property
    def clients(self) -> Sequence[APIServer]:
        """Atropos' own among the servers; stand-ins have no connections, limits and timings."""
        return [server for server in self.servers if isinstance(server, APIServer)]

    @property
    def reply_kind(self) -> ReplyKind:
        """What the servers' replies hold."""
        kind = shared_reply_kind(self.servers)
        if kind is not None:
            return kind
        # A stand-in is asked as the servers before it were, if it has that method.
        asked = self._manager_or_stand_in()
        offered = [kind for kind in (self._expected_kind, *ReplyKind) if hasattr(asked, kind.method)]
        return offered[0] if offered else self._expected_kind

    @property
    def healthy(self) -> bool:
        """Whether any server passed its last health check."""
        return any(getattr(server, "server_healthy", True) for server in self.servers)

    @property
    def outage_s(self) -> float:
        """How long requests have failed, or waited for a healthy server; 0 after a success."""
        return self._requests.outage_s

    @property
    def ended(self) -> Mapping[str, int]:
        """Groups that were given up because completions were broken off, by the server's word."""
        return self._requests.ended

    async def watch(self) -> None:
        """Log when no server is healthy at two checks in a row, as requests then wait silently; never returns.

        Servers that are away are looked after too: lost requests go to other servers.
        """
        was_healthy = True
        while True:
            await asyncio.sleep(HEALTH_POLL_S)
            for server in self.clients:
                await watched(server).look_after()
            healthy = self.healthy
            if not healthy and not was_healthy:
                addresses = ", ".join(map(address, self.servers))
                self._requests.note_outage(f"no inference server is healthy; requests wait for {addresses}")
            was_healthy = healthy

    # ---- completions

    async def complete(self, prompt: Prompt, n: int, sampling: Sampling, timeouts: Timeouts) -> list[Rollout]:
        """Return exactly `n` rollouts, through outages.

        Raises the errors of `PatientRequests.complete`, and ServerError if no server was healthy for
        `timeouts.outage_s`, or if a stand-in has no reply to the prompt.
        """

        def ask(missing: int) -> Awaitable[list[Rollout]]:
            return self._ask_healthy(prompt, missing, sampling, timeouts)

        return await self._requests.complete(n, ask, timeouts)

    async def _ask_healthy(self, prompt: Prompt, n: int, sampling: Sampling, timeouts: Timeouts) -> list[Rollout]:
        """Send one request and return the usable rollouts of its reply, at least one; raises what clients raise.

        Raises:
            TimeoutError: it took over `timeouts.reply_s`.
            ServerError: no server was healthy for `timeouts.outage_s`.
            BrokenOffError: no completion is usable, and the server broke one off.
            UnusableReply: no completion is usable.
        """
        healthy_at = time.monotonic()
        work = asyncio.ensure_future(self._request(prompt, n, sampling))
        try:
            async with asyncio.timeout(timeouts.reply_s):
                while not (await asyncio.wait([work], timeout=HEALTH_POLL_S))[0]:
                    if self.healthy:
                        healthy_at = time.monotonic()
                    elif time.monotonic() - healthy_at > timeouts.outage_s:
                        raise ServerError(f"no inference server has been healthy for {timeouts.outage_s:g} s")
            return self._usable(work.result())
        finally:
            if not work.done():
                await cancel_all([work])

    def _usable(self, completions: Sequence[Received]) -> list[Rollout]:
        """Return the rollouts, and log why others are left out; raises an error if there is no rollout."""
        rollouts = [completion for completion in completions if isinstance(completion, Rollout)]
        broken_off = [completion for completion in completions if isinstance(completion, BrokenOffError)]
        reasons = [f"the server returned {completion}" for completion in completions if isinstance(completion, str)]
        if not rollouts:
            raise broken_off[0] if broken_off else UnusableReply(next(iter(reasons), "its reply holds no completion"))
        if len(rollouts) < len(completions):
            self._unusable.note(f"completions are left out: {[*broken_off, *reasons][0]}")
        else:
            self._unusable.over("all completions can be used again")
        return rollouts

    # ---- one request

    async def _request(self, prompt: Prompt, n: int, sampling: Sampling) -> Sequence[Received]:
        """Send one request; return rollouts, and for each unusable completion the reason."""
        kind = self.reply_kind
        options = self.options(kind, sampling.split)
        endings = self._chat_requests.endings
        if kind is ReplyKind.CHAT and all(map(takes_chat_requests, self.servers)):
            is_training = sampling.split == "train"
            clients = [
                LimitedChat(chat_client(server), server.sem if is_training else server.eval_sem)
                for server in self.clients
            ]
            return await self._chat_requests.complete(clients, prompt, n, sampling, options)
        for server in self.clients:
            watched(server)
        arguments: dict[str, object] = {
            "n": n,
            "max_tokens": sampling.completion_budget(prompt),
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "split": sampling.split,
            **options,
        }
        if kind is ReplyKind.CHAT:
            reply = await self._ask(kind, prompt, messages=[dict(message) for message in prompt.messages], **arguments)
            return [rollout_from_choice(choice, endings) for choice in reply.choices]
        convert: Callable[[Any], Rollout | str]
        if kind is ReplyKind.TEXT:
            reply = await self._ask(kind, prompt, prompt=prompt.text, **arguments)
            stop = ANSWER_END if self._stop_after_answer else None
            completions: Sequence[Any] = reply.choices
            broken_off = [
                endings.broken_off(ending_word(choice), is_empty=not choice.text, said=choice_error(choice))
                for choice in completions
            ]
            convert = partial(rollout_from_text, self._chat, prompt, sampling, stop=stop)
        else:
            # The prompt's own tokens: the server would add special tokens to those that the chat template has written.
            arguments["input_ids"] = list(prompt.tokens)
            if self._reads_all_token_replies:
                arguments["arrays"] = True
            prompt_tokens, *lists = await self._ask(kind, prompt, prompt=prompt.text, **arguments)
            completions = list(zip(*lists, strict=True))
            broken_off = [
                endings.broken_off(finish_word(reason), is_empty=len(tokens) == 0) for tokens, _, reason in completions
            ]
            # An array, so that each rollout copies bytes.
            convert = partial(rollout_from_tokens, self._chat, sampling.token_limit, array("i", prompt_tokens))
        whole = [each for each, error in zip(completions, broken_off, strict=True) if error is None]
        rollouts = await together(lambda: [convert(completion) for completion in whole])
        return [*rollouts, *filter(None, broken_off)]

    async def _ask(self, kind: ReplyKind, asked_for: Prompt, /, **arguments: Any) -> Any:
        """Return the manager's reply; raises ServerError if a stand-in has no method for such replies, or no reply."""
        asked = self._manager_or_stand_in()
        reply = await getattr(asked, kind.method)(**arguments) if hasattr(asked, kind.method) else None
        if reply is None:
            raise ServerError(_explain_no_reply(asked, kind.method, asked_for))
        return reply

    def _manager_or_stand_in(self) -> object:
        """Return the manager, or a stand-in for a server: Atropos' manager cannot choose among stand-ins."""
        manager = self._manager()
        if not isinstance(manager, ServerManager):
            return manager
        return next((server for server in self.servers if not isinstance(server, APIServer)), manager)

    def options(self, kind: ReplyKind, split: str = "train") -> Mapping[str, Any]:
        """Return what every request says besides prompt and sampling, as keywords of the servers' method.

        Token servers return the tokens of the stop text anyway; other servers are asked to keep the stop text.
        """
        stop: dict[str, object] = {"stop": [ANSWER_END]} if self._stop_after_answer else {}
        if kind is ReplyKind.TOKENS and split == "train" and self._reads_all_token_replies:
            # Otherwise a model's generation_config.json may filter samples, and log-probabilities hide the filters.
            penalties = {"repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
            return {**stop, "top_k": -1, "min_p": 0.0, **penalties}
        if kind is ReplyKind.TOKENS:
            return stop
        extra: dict[str, object] = dict(KEEPS_STOP) if stop else {}
        if kind is ReplyKind.TEXT and self._chat.hides_thinking:
            extra["skip_special_tokens"] = False
        if kind is ReplyKind.CHAT and self._chat_template_kwargs:
            extra["chat_template_kwargs"] = self._chat_template_kwargs
        return {**stop, "extra_body": extra} if extra else stop

    @property
    def _reads_all_token_replies(self) -> bool:
        """Whether this package reads the token replies of all servers itself, so that arrays can be requested."""
        is_manager = isinstance(self._manager(), ServerManager)
        return is_manager and all(isinstance(server, TokenRequests) for server in self.servers)


def _explain_no_reply(asked: object, method: str, prompt: Prompt) -> str:
    """Return why a stand-in for a server has no reply to a prompt."""
    name = type(asked).__name__
    if not hasattr(asked, method):
        return f"env.server ({name}) cannot be asked for completions: it needs a method {method}"
    words = textwrap.shorten(prompt.text or prompt.messages[0]["content"], 100)
    return f"{method} of {name} has no reply to the prompt that begins {words!r}"
