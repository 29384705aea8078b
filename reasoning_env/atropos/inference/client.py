"""Ask inference servers for completions, through their outages, and make rollouts of their replies.

Atropos' manager chooses the server. Servers of type vllm and sglang give the tokens they sampled, with
log-probabilities; openai and trl give text, which is tokenized here; chat servers give text that nobody tokenizes.
Atropos' own clients wait for ever while no server is healthy; the limits here end that.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from atroposlib.envs.server_handling.openai_server import OpenAIServer
from atroposlib.envs.server_handling.server_baseline import APIServer
from atroposlib.envs.server_handling.server_manager import ServerManager
from atroposlib.envs.server_handling.trl_vllm_server import TrlVllmServer

from ...errors import RefusedError, ServerError
from ...prompts.chat_format import ChatFormat
from ...records import Prompt, Rollout, Sampling, Timeouts
from ...runtime.concurrency import cancel_all
from ...runtime.outage_log import OutageLog
from ...runtime.retries import pauses
from ...runtime.turns import DECODER, in_background
from .chat import ChatRequests, ChatServerConfig, PlainChat, rollout_from_message
from .failures import Meaning, address, explain_failure, explain_no_reply
from .replies import Mode, TokenRequests, reads_here
from .rollouts import rollout_from_text, rollout_from_tokens

logger = logging.getLogger(__name__)

MAX_FAILURES = 3
"""How often a group may fail while others succeed, and how many requests in a row may bring no usable completion."""
ANSWER_END = "</answer>"
HEALTH_POLL_S = 2.0
"""How often the servers' health is read. Atropos asks them for their health every second."""


METHODS: Mapping[Mode, str] = {
    Mode.TOKENS: "tokens_and_logprobs_completion",
    Mode.TEXT: "completion",
    Mode.CHAT: "chat_completion",
}
"""The method of Atropos' servers, and of their manager, that gives such replies."""


class IncompleteReply(Exception):
    """The server gave fewer usable completions than it was asked for, MAX_FAILURES times."""


class InferenceClient:
    """Gets completions from Atropos' servers.

    `manager` returns the environment's ServerManager, or what a test has put in its place. It is called for each
    request, so that a manager or a server that is replaced later is asked from then on. A stand-in needs no more than
    the method that is called (see METHODS), and of several that of `usual_mode`; a server that says nothing about its
    health counts as healthy.
    """

    def __init__(
        self,
        manager: Callable[[], Any],
        chat: ChatFormat | PlainChat,
        *,
        usual_mode: Mode = Mode.TOKENS,
        stop_after_answer: bool = False,
        chat_template_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        self._manager = manager
        self._chat = chat
        self._stop_after_answer = stop_after_answer
        self._chat_template_kwargs = dict(chat_template_kwargs or {})
        self._chat_requests = ChatRequests()
        self._usual_mode = mode_of(self.servers) or usual_mode
        self._successes = 0
        self._outage = OutageLog(logger)
        self._unusable = OutageLog(logger)

    @property
    def servers(self) -> Sequence[Any]:
        """The manager's servers; a stand-in for the manager that has none is the one server itself."""
        manager = self._manager()
        servers = getattr(manager, "servers", None)
        return servers if isinstance(servers, (list, tuple)) else [manager]

    @property
    def clients(self) -> Sequence[APIServer]:
        """Atropos' own among the servers; stand-ins have no connections, limits and timings."""
        return [server for server in self.servers if isinstance(server, APIServer)]

    @property
    def mode(self) -> Mode:
        """What the servers' replies hold."""
        mode = mode_of(self.servers)
        if mode is not None:
            return mode
        # A stand-in is asked as the servers before it were, if it can be.
        asked = self._whom_to_ask()
        offered = [mode for mode in (self._usual_mode, *Mode) if hasattr(asked, METHODS[mode])]
        return offered[0] if offered else self._usual_mode

    def options(self, mode: Mode, split: str = "train") -> Mapping[str, Any]:
        """Return what every request says besides prompt and sampling, as keywords of the servers' method.

        Token servers return the tokens of the stop text anyway; the others are asked to keep it, vLLM by the first name
        and SGLang by the second.
        """
        stop: dict[str, Any] = {"stop": [ANSWER_END]} if self._stop_after_answer else {}
        if mode is Mode.TOKENS and split == "train" and self._read_here:
            # Else a model's generation_config.json filters what is sampled, and log-probabilities do not show it.
            penalties = {"repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
            return {**stop, "top_k": -1, "min_p": 0.0, **penalties}
        if mode is Mode.TOKENS:
            return stop
        extra: dict[str, Any] = {"include_stop_str_in_output": True, "no_stop_trim": True} if stop else {}
        if mode is Mode.TEXT and self._chat.hides_thinking:
            extra["skip_special_tokens"] = False
        if mode is Mode.CHAT and self._chat_template_kwargs:
            extra["chat_template_kwargs"] = self._chat_template_kwargs
        return {**stop, "extra_body": extra} if extra else stop

    @property
    def _read_here(self) -> bool:
        """Whether every reply is read here, whichever server gives it."""
        return isinstance(self._manager(), ServerManager) and all(map(reads_here, self.servers))

    @property
    def healthy(self) -> bool:
        """Whether any server passed its last health check."""
        return any(getattr(server, "server_healthy", True) for server in self.servers)

    @property
    def outage_s(self) -> float:
        """How long requests have failed, or waited for a healthy server; 0 after a success."""
        return self._outage.lasting_s

    async def watch(self) -> None:
        """Log when no server is healthy at two checks in a row, as requests then wait silently; never returns."""
        was_healthy = True
        while True:
            await asyncio.sleep(HEALTH_POLL_S)
            healthy = self.healthy
            if not healthy and not was_healthy:
                addresses = ", ".join(map(address, self.servers))
                self._outage.note(f"no inference server is healthy; requests wait for {addresses}")
            was_healthy = healthy

    async def complete(self, prompt: Prompt, n: int, sampling: Sampling, timeouts: Timeouts) -> list[Rollout]:
        """Return exactly `n` rollouts; failed requests are tried again, with pauses, through an outage.

        Raises TimeoutError when a reply takes over `timeouts.reply_s` while other requests succeed, and ServerError for
        a request that the server refuses, or to which a stand-in has no reply, after MAX_FAILURES failures while others
        succeed, after `timeouts.tries`, or when requests have failed, or no server was healthy, for
        `timeouts.outage_s`. A server that refuses even the first requests is a RefusedError where that is not for ever.
        """
        failures, successes, waits = 0, self._successes, None
        while True:
            try:
                return await self._complete_once(prompt, n, sampling, timeouts)
            except ServerError:
                raise
            except Exception as error:  # clients raise all sorts of things for servers that are gone or talk nonsense
                others_succeed = self._successes > successes
                if others_succeed and isinstance(error, TimeoutError):
                    raise
                successes = self._successes
                failure = explain_failure(error)
                if failure.meaning is Meaning.REFUSED:
                    none_succeeded = not successes and math.isfinite(timeouts.outage_s)
                    error_class = RefusedError if none_succeeded else ServerError
                    raise error_class(
                        f"the inference server refuses requests ({failure.description}); {failure.remedy}"
                    ) from error
                if others_succeed and failure.meaning is not Meaning.BUSY:
                    failures += 1
                if failures >= MAX_FAILURES:
                    raise ServerError(f"{failures} failures while others succeeded: {failure.description}") from error
                self._outage.note(f"requests for completions fail, and are tried again ({failure.description})")
                if waits is None:
                    waits = pauses() if timeouts.tries is None else itertools.repeat(0.0, timeouts.tries - 1)
                pause_s = next(waits, None)
                if pause_s is None:
                    raise ServerError(f"{timeouts.tries} requests failed: {failure.description}") from error
                if self._outage.lasting_s + pause_s > timeouts.outage_s:
                    raise ServerError(f"requests fail for {timeouts.outage_s:g} s: {failure.description}") from error
            await asyncio.sleep(pause_s)

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
            if not work.done():
                await cancel_all([work])

    async def _collect(self, prompt: Prompt, n: int, sampling: Sampling) -> list[Rollout]:
        """Ask until there are `n` rollouts; raises IncompleteReply once requests are fruitless."""
        rollouts: list[Rollout] = []
        fruitless = 0
        while fruitless < MAX_FAILURES:
            missing = n - len(rollouts)
            usable = self._usable(await self._request(prompt, missing, sampling))
            rollouts += usable[:missing]
            if len(rollouts) == n:
                self._successes += 1
                self._outage.over("completions arrive again")
                return rollouts
            fruitless = 0 if usable else fruitless + 1
        raise IncompleteReply(f"{len(rollouts)} usable completions of {n}, then none in {fruitless} requests")

    async def _request(self, prompt: Prompt, n: int, sampling: Sampling) -> Sequence[Rollout | str]:
        """Send one request; return rollouts, and in the place of each unusable completion why it is unusable."""
        mode = self.mode
        if mode is Mode.CHAT and mode_of(self.servers):
            return await self._chat_requests.complete(self.servers, prompt, n, sampling, self.options(mode))
        ask = partial(self._ask, METHODS[mode], prompt)
        asked_with = {"messages": list(map(dict, prompt.messages))} if mode is Mode.CHAT else {"prompt": prompt.text}
        arguments: dict[str, Any] = {
            **asked_with,
            "n": n,
            "max_tokens": sampling.completion_budget(prompt),
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "split": sampling.split,
            **self.options(mode, sampling.split),
        }
        convert: Callable[[Any], Rollout | str]
        if mode is Mode.CHAT:
            return [rollout_from_message(choice) for choice in (await ask(**arguments)).choices]
        if mode is Mode.TEXT:
            completions: Sequence[Any] = (await ask(**arguments)).choices
            stop = ANSWER_END if self._stop_after_answer else None
            convert = partial(rollout_from_text, self._chat, prompt, sampling, stop=stop)
        else:
            # The prompt's own tokens: the server would add special tokens to those that the chat template has written.
            arguments["input_ids"] = list(prompt.tokens)
            if self._read_here:
                arguments["arrays"] = True
            prompt_tokens, *lists = await ask(**arguments)
            completions = list(zip(*lists, strict=True))
            convert = partial(rollout_from_tokens, self._chat, sampling.token_limit, prompt_tokens)
        return await in_background(lambda: [convert(completion) for completion in completions], executor=DECODER)

    async def _ask(self, method: str, prompt: Prompt, /, **arguments: Any) -> Any:
        """Return the reply; raises ServerError where a stand-in has no such method, or no reply."""
        asked = self._whom_to_ask()
        reply = await getattr(asked, method)(**arguments) if hasattr(asked, method) else None
        if reply is None:
            raise ServerError(explain_no_reply(asked, method, prompt))
        return reply

    def _whom_to_ask(self) -> Any:
        """Return the manager, or a stand-in for a server, since Atropos' manager cannot choose among those."""
        manager = self._manager()
        if not isinstance(manager, ServerManager):
            return manager
        return next((server for server in self.servers if not isinstance(server, APIServer)), manager)

    def _usable(self, rollouts: Sequence[Rollout | str]) -> list[Rollout]:
        """Return the rollouts among these; the others are texts that say why there is none."""
        unusable = [rollout for rollout in rollouts if isinstance(rollout, str)]
        if unusable:
            self._unusable.note(f"completions are left out: the server returned {unusable[0]}")
        else:
            self._unusable.over("all completions can be used again")
        return [rollout for rollout in rollouts if isinstance(rollout, Rollout)]


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
    modes = {server.mode for server in servers if isinstance(server, TokenRequests)}
    return next((mode for mode in (Mode.CHAT, Mode.TEXT) if mode in modes), Mode.TOKENS)
