"""A model on one or several servers, for training and evaluation.

Read `ServedModel.complete` first: it selects a server, sends the request, converts the reply to rollouts, and retries
failed requests (`PatientRequests`). `failures.decide` decides about retries.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from array import array
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Self, TypeVar

from ..errors import ServerError
from ..prompts.chat_format import ChatFormat
from ..prompts.messages import Messages
from ..records import Prompt, Rollout, Sampling
from ..runtime.retries import OutageLog, pauses
from ..runtime.turns import run_on_decoder
from .addresses import check_servers
from .completer import Completer
from .failures import BrokenOffError, FailureKind, History, RequestOutage, Timeouts, decide, explain_failure
from .formats import AUTO
from .formats.choices import ANSWER_END, PlainChat, rollout_from_text, rollout_without_tokens
from .formats.reply_format import ReplyKind, SentRequest, ServedCompletion, ServerReply, TokenCompletion
from .formats.tokens import rollout_from_tokens
from .server import MAX_FINISH_REASONS, Endings, RequestOptions, explain_ending
from .tokenizers import compare_tokenizers

logger = logging.getLogger(__name__)

T = TypeVar("T")

WATCH_S = 2.0
"""Seconds between two checks of unreachable servers and of waiting requests."""
HELLO = [{"role": "user", "content": "Hello"}]
"""The prompt of the request at startup that asks each server for one token."""


class UnusableCompletion(Exception):
    """The server returned no completion, or a completion that cannot be used."""


Received = Rollout | BrokenOffError | UnusableCompletion
"""A converted completion, or the error of a completion."""


# ---------------------------------------------------------------------------- the requests of a run

LONG_WAIT_S = 60.0
"""A request is late if it waits this many seconds longer than the slowest reply so far."""


class PatientRequests:
    """Sends the requests of all groups of a run, retries failed requests, and logs outages."""

    def __init__(self, logger: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._successes = 0
        self._outage = RequestOutage(logger, clock)
        self._problem = ""
        """The current outage, as the log describes it."""
        self._waits = OutageLog(logger)
        self._sent_at: list[float] = []
        """When each request in flight was sent."""
        self._longest_reply_s = 0.0
        self.ended: Counter[str] = Counter()
        """Number of problems that were dropped because the server broke completions off, by finish reason."""

    @property
    def outage_s(self) -> float:
        """How long requests have failed; 0 after a success."""
        return self._outage.duration_s

    def note_success(self) -> None:
        """Record that a server accepted a request at startup, so that a later refusal does not end the run."""
        self._successes += 1

    async def complete(
        self, n: int, ask: Callable[[int], Awaitable[list[Rollout]]], timeouts: Timeouts
    ) -> list[Rollout]:
        """Return exactly `n` rollouts. If a request fails, the rollouts that have arrived are kept.

        `ask` gets the number of missing rollouts and returns at least one rollout; it may raise any error. Failed
        requests are retried with pauses, as `decide` says.

        Raises:
            TimeoutError: A reply took longer than `timeouts.reply_s` while other requests succeeded.
            RefusedError: The server has refused all requests so far, and `timeouts.outage_s` is finite.
            ServerError: The server refuses this request.
            ServerError: MAX_REQUEST_FAILURES requests of this call failed while requests of other calls succeeded.
            ServerError: `timeouts.tries` requests of this call failed.
            ServerError: All requests failed for `timeouts.outage_s`.
            ServerError: `ask` raised ServerError, which is not retried.
        """
        rollouts: list[Rollout] = []
        history = History(successes=self._successes)
        waits = pauses()
        while len(rollouts) < n:
            try:
                missing = n - len(rollouts)
                rollouts += (await self._reply(ask(missing)))[:missing]
            except ServerError:
                raise
            except Exception as error:  # clients raise many kinds of errors if a server fails
                failure = explain_failure(error)
                if self._successes > history.successes:
                    waits = pauses()
                outage_s = self._outage.counted_s(failure)
                history = history.after(failure, successes=self._successes, outage_s=outage_s, pause_s=next(waits))
                decision = decide(failure, history, timeouts)
                if isinstance(decision, Exception):
                    if isinstance(error, BrokenOffError):
                        self._count_ended(error.finish_reason)
                    raise decision from error
                is_busy = failure.kind is FailureKind.BUSY
                busy, failing = (
                    "the server refuses some requests, so requests are sent more slowly",
                    "requests fail and are retried",
                )
                self._problem = f"{busy if is_busy else failing} ({failure.description})"
                self._outage.note(self._problem)
                await asyncio.sleep(decision)
        self._successes += 1
        self._outage.over("completions arrive again")
        return rollouts

    async def _reply(self, request: Awaitable[T]) -> T:
        """Return the result of a request, and note how long it took."""
        sent_s = time.monotonic()
        self._sent_at.append(sent_s)
        try:
            reply = await request
        finally:
            self._sent_at.remove(sent_s)
        self._longest_reply_s = max(self._longest_reply_s, time.monotonic() - sent_s)
        return reply

    def log_state(self) -> None:
        """Log the current outage and the number of late requests. Not every call logs."""
        # A failed request logs the outage too, but none fails while all wait as long as the server asked.
        if self.outage_s:
            self._outage.note(self._problem)
        waits = [time.monotonic() - sent_s for sent_s in self._sent_at]
        late = [wait_s for wait_s in waits if wait_s >= LONG_WAIT_S + self._longest_reply_s]
        if late:
            self._waits.note(f"requests still waiting for a reply: {len(late)}, the oldest for {max(late):.0f} s")
        else:
            self._waits.over("all late replies have arrived")

    def _count_ended(self, finish_reason: str) -> None:
        """Count a finish reason under a name that is valid in a metric. After MAX_FINISH_REASONS names, use `other`."""
        name = re.sub(r"[^a-z0-9]+", "_", finish_reason[:40].lower()).strip("_") or "other"
        self.ended[name if name in self.ended or len(self.ended) < MAX_FINISH_REASONS else "other"] += 1


# ---------------------------------------------------------------------------- the model


class ServedModel:
    """Returns completions of one model. The end of `async with` closes the connections to the servers.

    Args:
        completers: Function that returns the servers. Called for each request, so a new server is used at once.
        layout: The chat format, which builds prompts and tokenizes texts.
        options: The options of every request.
        timeouts: Function that returns the time limits of requests. Called for each request.
        model: Name of the model, for results.
    """

    def __init__(
        self,
        completers: Callable[[], Sequence[Completer]],
        layout: ChatFormat | PlainChat,
        options: RequestOptions,
        timeouts: Callable[[], Timeouts],
        *,
        model: str,
    ) -> None:
        self.model = model
        self._list_completers = completers
        self._seen: set[Completer] = set()
        """All servers used so far, replaced servers included."""
        self._layout = layout
        self._options = options
        self._timeouts = timeouts
        self._patience = PatientRequests(logger)
        self._endings = Endings()
        self._unusable = OutageLog(logger)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections to all servers used so far, replaced servers included."""
        for completer in self._seen:
            await completer.close()

    def _completers(self) -> Sequence[Completer]:
        completers = self._list_completers()
        self._seen.update(completers)
        return completers

    # ---- facts

    @property
    def server_type(self) -> str:
        reply_format = self._completers()[0].format
        return AUTO if reply_format is None else reply_format.name

    @property
    def base_url(self) -> str:
        return self._completers()[0].address

    @property
    def reply_kind(self) -> ReplyKind:
        """Which kind of reply to ask for: the worst kind that any server sends, in the order of ReplyKind.

        TOKENS if no server's kind is detected yet.
        """
        known = {completer.format.kind for completer in self._completers() if completer.format is not None}
        return next((kind for kind in reversed(ReplyKind) if kind in known), ReplyKind.TOKENS)

    @property
    def outage_s(self) -> float:
        """How long requests have failed; 0 after a success."""
        return self._patience.outage_s

    @property
    def ended(self) -> Mapping[str, int]:
        """Numbers of problems dropped because the server aborted completions, by finish reason."""
        return self._patience.ended

    async def context_lengths(self) -> Sequence[int | None]:
        """Return each server's context length in tokens; None for a server that does not report it."""
        return await asyncio.gather(*(completer.context_length() for completer in self._completers()))

    def describe_replies(self) -> str:
        """Return a description of the replies' kind and endpoint."""
        kind = self.reply_kind
        known = [(completer, completer.format) for completer in self._completers() if completer.format is not None]
        places = sorted({completer.place(reply_format) for completer, reply_format in known})
        return f"{kind.summary} ({', '.join(places)})" if kind is ReplyKind.TOKENS and places else kind.summary

    # ---- completions

    def prompt(self, messages: Messages) -> Prompt:
        """Return the prompt that the chat format builds from `messages`."""
        return self._layout.prompt(messages)

    async def complete(
        self, prompt: Prompt, n: int, sampling: Sampling, answered: list[SentRequest] | None = None
    ) -> list[Rollout]:
        """Return exactly `n` rollouts, after retries if needed. Raises the errors of `PatientRequests.complete`.

        Each request whose reply has a usable completion is appended to `answered`.
        """
        timeouts = self._timeouts()
        collected = [] if answered is None else answered

        def ask(missing: int) -> Awaitable[list[Rollout]]:
            return self._ask(prompt, missing, sampling, timeouts, collected)

        return await self._patience.complete(n, ask, timeouts)

    async def _ask(
        self, prompt: Prompt, n: int, sampling: Sampling, timeouts: Timeouts, answered: list[SentRequest]
    ) -> list[Rollout]:
        """Send a request to the server with the lowest load. Return the usable rollouts of its reply, at least one.

        Raises BrokenOffError or UnusableCompletion if no completion is usable, and the errors of `Completer.complete`.
        """
        completers = self._completers()
        there = [completer for completer in completers if not completer.is_away] or completers
        chosen = min(there, key=lambda completer: completer.load(sampling.split))
        kind = self.reply_kind if len(completers) > 1 else None
        reply = await chosen.complete(prompt, n, sampling, self._options, kind=kind, reply_s=timeouts.reply_s)
        if kind is None:
            assert chosen.format is not None, "internal error: the server's reply format is still unknown"
            kind = chosen.format.kind
        stops = self._options.stops(kind)
        received = await make_rollouts(
            reply, kind, self._layout, prompt, sampling, self._endings, stop_after_answer=stops
        )
        rollouts = self._usable(received)
        answered.extend(reply.requests)
        return rollouts

    def _usable(self, completions: Sequence[Received]) -> list[Rollout]:
        """Return the rollouts of a reply, and log its first error. If there are no rollouts, raise the first error."""
        rollouts = [completion for completion in completions if isinstance(completion, Rollout)]
        errors = [completion for completion in completions if not isinstance(completion, Rollout)]
        if not rollouts:
            raise errors[0] if errors else UnusableCompletion("the reply contains no completion")
        if errors:
            self._unusable.note(f"unusable completions are dropped: {errors[0]}")
        else:
            self._unusable.over("all completions are usable again")
        return rollouts

    async def watch(self) -> None:
        """Check unreachable servers forever. Log outages, and log requests that wait unusually long."""
        while True:
            await asyncio.sleep(WATCH_S)
            self._patience.log_state()
            for completer in self._completers():
                await completer.check_if_away()

    # ---- at the start

    async def check(self, timeout_s: float) -> None:
        """Wait until a server has generated a token. Raises the errors of `check_servers`."""
        await check_servers(self._completers, self.prompt(HELLO), self._options, timeout_s)
        self._patience.note_success()

    async def check_tokenizer(self) -> None:
        """Raise ConfigError if a server tokenizes a text differently from the configured tokenizer."""
        if isinstance(self._layout, ChatFormat):
            await compare_tokenizers(self._completers(), self._layout)


# ---------------------------------------------------------------------------- rollouts


async def make_rollouts(
    reply: ServerReply,
    kind: ReplyKind,
    layout: ChatFormat | PlainChat,
    prompt: Prompt,
    sampling: Sampling,
    endings: Endings,
    *,
    stop_after_answer: bool,
) -> list[Received]:
    """Convert each completion of a reply into a rollout, or into an error if the completion cannot be used.

    Errors of completions that the server broke off come first in the result.
    """
    broken_off = [explain_ending(one, endings) for one in reply.completions]
    whole = [one for one, error in zip(reply.completions, broken_off, strict=True) if error is None]
    # Use an array, because each rollout copies the prompt's tokens, and copying a list is slower.
    prompt_tokens = array("i", prompt.tokens if reply.prompt_tokens is None else reply.prompt_tokens)
    stop = ANSWER_END if stop_after_answer else None

    def convert(completion: ServedCompletion) -> Received:
        if isinstance(completion, TokenCompletion):
            assert isinstance(layout, ChatFormat), "internal error: tokens were requested, but no tokenizer is loaded"
            found = rollout_from_tokens(layout, sampling.token_limit, prompt_tokens, completion)
        elif kind is ReplyKind.TEXT and isinstance(layout, ChatFormat):
            found = rollout_from_text(layout, prompt, sampling, completion, stop=stop)
        else:
            return rollout_without_tokens(completion)
        return UnusableCompletion(f"the server returned {found}") if isinstance(found, str) else found

    if isinstance(layout, PlainChat):
        rollouts = list(map(convert, whole))
    else:
        rollouts = await run_on_decoder(lambda: list(map(convert, whole)))
    return [*filter(None, broken_off), *rollouts]
