"""Completions from Atropos' server objects, as rollouts whose tokens and masks have been checked.

Servers of type vllm and sglang give the tokens they sampled, with log-probabilities; openai and trl give text, which is
tokenized here. This module knows those objects by the methods it calls; it does not import Atropos.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import math
import time
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from ..errors import ServerError
from ..outage_log import OutageLog
from ..prompting import ChatFormat
from ..records import Prompt, Rollout, Sampling, Timeouts

logger = logging.getLogger(__name__)

FRUITLESS_REQUESTS = 3
"""How many requests in a row may bring no usable completion; as long as some come, the rest is asked for again."""
POLL_S = 1.0
PROBE_PATIENCE_S = 30.0
"""How long a server may take for its first token, where nothing else limits it."""
OTHERS_S = 2.0
"""How much longer the other servers are waited for at startup once one has answered."""
MAX_FAILURES = 3
"""Failures of one group, while others succeed, after which it is given up."""
FIRST_PAUSE_S = 0.5
MAX_PAUSE_S = 4.0
UNHEALTHY_S = 3.0
"""How long no server may be healthy before it is said."""
AVOID_S = 5.0
"""How long after a failed request other servers are preferred."""
NO_REPLY = "it accepts requests and does not reply"
UNREACHABLE_STATUS = (429, 500, 502, 503, 504)


class Mode(StrEnum):
    """What a server's reply holds."""

    TOKENS = "tokens"
    TEXT = "text"


class IncompleteReply(Exception):
    """The server gave fewer usable completions than asked for, repeatedly."""


class InferenceClient:
    """Asks a ServerManager for completions."""

    def __init__(self, servers: Any, chat: ChatFormat, tokenizer: Any, mode: Mode) -> None:
        self._servers = servers
        self._chat = chat
        self._tokenizer = tokenizer
        self._mode = mode
        self._successes = 0
        self._failed_at: dict[int, float] = {}
        self._under_way: Counter[int] = Counter()
        self._outage = OutageLog(logger)
        self._unusable = OutageLog(logger)

    @property
    def healthy(self) -> bool:
        """Whether any server passed its last health check, as far as Atropos knows."""
        return any(map(_is_healthy, self._servers.servers))

    async def watch(self) -> None:
        """Say when no server has been healthy for some seconds, since requests then wait in silence; never returns."""
        healthy_at = time.monotonic()
        while True:
            await asyncio.sleep(POLL_S)
            if self.healthy:
                healthy_at = time.monotonic()
            elif time.monotonic() - healthy_at > UNHEALTHY_S:
                addresses = ", ".join(map(_address, self._servers.servers))
                self._outage.note(f"no inference server is healthy; requests wait for {addresses}")

    @property
    def outage_s(self) -> float:
        """How long requests have been failing, or waiting for a healthy server."""
        return self._outage.lasting_s

    @property
    def successes(self) -> int:
        """How many groups got all their completions."""
        return self._successes

    async def complete_through_outages(self, prompt: Prompt, n: int, sampling: Sampling) -> list[Rollout]:
        """`complete`, tried again after failures, with pauses, as long as it takes.

        Raises ServerError after several failures while other requests succeeded: it is this prompt, then.
        """
        failures, pause_s = 0, FIRST_PAUSE_S
        successes = self._successes
        while True:
            try:
                return await self.complete(prompt, n, sampling)
            except Exception as error:  # clients raise all sorts of things for servers that are gone or talk nonsense
                failures += self._successes > successes
                successes = self._successes
                if failures >= MAX_FAILURES:
                    raise ServerError(
                        f"{failures} failures while others succeeded: {describe_failure(error)}"
                    ) from error
                self._outage.note(f"requests for completions fail, and are tried again ({describe_failure(error)})")
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, MAX_PAUSE_S)

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
                self._successes += 1
                self._outage.over("completions arrive again")
                return rollouts
            fruitless = 0 if usable else fruitless + 1
        raise IncompleteReply(f"{len(rollouts)} usable completions of {n}, then none in {fruitless} requests")

    async def complete_in_time(self, prompt: Prompt, n: int, sampling: Sampling, timeouts: Timeouts) -> list[Rollout]:
        """`complete`, but raising ServerError instead of waiting without end for a server that is gone or stuck.

        Atropos' own clients wait for ever while no server is healthy, which a training run wants and others do not.
        """
        started = last_healthy = time.monotonic()
        work = asyncio.ensure_future(self.complete(prompt, n, sampling))
        try:
            while not (await asyncio.wait([work], timeout=POLL_S))[0]:
                now = time.monotonic()
                if self.healthy:
                    last_healthy = now
                if now - last_healthy > timeouts.outage_s:
                    raise ServerError(f"no inference server has been healthy for {timeouts.outage_s:g} s")
                if timeouts.reply_s is not None and now - started > timeouts.reply_s:
                    raise ServerError(f"no reply within {timeouts.reply_s:g} s")
            return work.result()
        finally:
            work.cancel()
            await asyncio.wait([work])

    async def _request(self, prompt: Prompt, n: int, sampling: Sampling) -> list[Rollout]:
        """One request; where there are several servers, it leaves one that falls ill for one that is well."""
        servers = self._servers.servers
        if len(servers) == 1:
            return await self._ask(self._servers, prompt, n, sampling)
        while True:
            server = self._choose(servers, sampling.split)
            self._under_way[id(server)] += 1
            manager = copy.copy(self._servers)
            manager.servers = [server]
            work = asyncio.ensure_future(self._ask(manager, prompt, n, sampling))
            try:
                while _is_healthy(server) or not self.healthy:
                    if (await asyncio.wait([work], timeout=POLL_S))[0]:
                        return work.result()
            except Exception:
                self._failed_at[id(server)] = time.monotonic()
                raise
            finally:
                self._under_way[id(server)] -= 1
                work.cancel()
                await asyncio.wait([work])
            logger.debug("a request leaves %s, which is not healthy", _address(server))

    def _choose(self, servers: Sequence[Any], split: str) -> Any:
        """The healthy server with the most room, as Atropos chooses, but one that has just failed comes last."""
        now = time.monotonic()

        def rank(server: Any) -> tuple[bool, bool, float]:
            failed = now - self._failed_at.get(id(server), -math.inf) < AVOID_S
            slots = server.sem if split == "train" else server.eval_sem
            # Atropos takes a slot a moment after the choice: requests that begin together would all see the same.
            return _is_healthy(server), not failed, slots.max_val - self._under_way[id(server)]

        return max(servers, key=rank)

    async def _ask(self, manager: Any, prompt: Prompt, n: int, sampling: Sampling) -> list[Rollout]:
        arguments = {
            "prompt": prompt.text,
            "n": n,
            "max_tokens": sampling.completion_budget(prompt),
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "split": sampling.split,
        }
        if self._mode is Mode.TEXT:
            reply = await manager.completion(**arguments)
            # Tokenizing long completions takes longer than the loop may stand still.
            return self._usable(await asyncio.to_thread(self._rollouts_from_texts, prompt, reply.choices, sampling))
        async with manager.managed_server(tokenizer=_PromptTokenizer(self._tokenizer, prompt)) as managed:
            reply = await managed.completion(**arguments)
            nodes = managed.get_state()["nodes"]
        paired = zip(reply.choices, nodes, strict=True)
        return self._usable([_rollout_from_node(choice, node, sampling.token_limit) for choice, node in paired])

    def _usable(self, rollouts: Sequence[Rollout | str]) -> list[Rollout]:
        """The rollouts among these; the others say why there is none."""
        unusable = [rollout for rollout in rollouts if isinstance(rollout, str)]
        if unusable:
            self._unusable.note(f"completions are left out: the server returned {unusable[0]}")
        else:
            self._unusable.over("all completions can be used again")
        return [rollout for rollout in rollouts if isinstance(rollout, Rollout)]

    def _rollouts_from_texts(self, prompt: Prompt, choices: Sequence[Any], sampling: Sampling) -> list[Rollout | str]:
        return [self._rollout_from_text(prompt, choice, sampling) for choice in choices]

    def _rollout_from_text(self, prompt: Prompt, choice: Any, sampling: Sampling) -> Rollout | str:
        text = self._chat.strip_end_of_turn(choice.text or "")
        finish_reason = choice.finish_reason or "stop"
        completion = self._chat.completion_tokens(text, finished=finish_reason == "stop")
        if not completion:
            return "no text, and says that it was cut short"
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


def _rollout_from_node(choice: Any, node: Any, token_limit: int) -> Rollout | str:
    """A rollout from the server's tokens, or what is wrong with them where they cannot be trained on."""
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
        return problem
    return Rollout(
        text=choice.text or "",
        tokens=tokens,
        masks=masks,
        logprobs=logprobs,
        finish_reason=choice.finish_reason or "stop",
    )


async def check_servers(servers: Sequence[Any], mode: Mode, timeout_s: float) -> None:
    """Ask every server for one token the way training will; return when one of them answers.

    Raises ServerError when a server answers but cannot do what its type promises, or when none is there in time;
    `timeout_s` may be infinite.
    """
    deadline = time.monotonic() + timeout_s
    absent = OutageLog(logger)
    problems: list[str | None] = [None] * len(servers)
    while True:
        patience_s = min(PROBE_PATIENCE_S, max(POLL_S, deadline - time.monotonic()))
        replies = await _probe_all(servers, mode, patience_s)
        # A probe cut short tells less than the one before it.
        problems = [
            known if reply == NO_REPLY and known else reply for reply, known in zip(replies, problems, strict=True)
        ]
        silent = [(server, problem) for server, problem in zip(servers, problems, strict=True) if problem]
        if len(silent) < len(servers):
            absent.over("an inference server answers")
            for server, problem in silent:
                logger.warning("the inference server at %s does not answer yet: %s", _address(server), problem)
            return
        summary = "; ".join(f"{_address(server)}: {problem}" for server, problem in silent)
        if time.monotonic() >= deadline:
            raise ServerError(
                f"no inference server answered within {timeout_s:g} s ({summary}); "
                "start one, or correct openai.base_url"
            )
        absent.note(f"waiting for an inference server ({summary})")
        await asyncio.sleep(min(POLL_S, timeout_s))


async def _probe_all(servers: Sequence[Any], mode: Mode, patience_s: float) -> list[str | None]:
    """What is wrong with each server, None where nothing is; one that is well does not wait long for the others."""
    probes = [asyncio.ensure_future(_probe(server, mode)) for server in servers]
    left, deadline = set(probes), time.monotonic() + patience_s
    try:
        while left and (wait_s := deadline - time.monotonic()) > 0:
            done, left = await asyncio.wait(left, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
            if any(probe.result() is None for probe in done):
                deadline = min(deadline, time.monotonic() + OTHERS_S)
        return [probe.result() if probe.done() else NO_REPLY for probe in probes]
    finally:
        for probe in probes:
            probe.cancel()
        await asyncio.gather(*probes, return_exceptions=True)


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
    description = describe_failure(error)
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


def describe_failure(error: BaseException) -> str:
    """One line; what tenacity gave up on is named rather than the giving up."""
    last_attempt = getattr(error, "last_attempt", None)
    cause = last_attempt.exception() if last_attempt is not None else error
    return f"{type(cause).__name__}: {cause}".splitlines()[0][:300]


def _is_healthy(server: Any) -> bool:
    return bool(getattr(server, "server_healthy", True))


def _address(server: Any) -> str:
    return str(getattr(server.config, "base_url", None) or type(server).__name__)
