"""Send requests to inference servers until they succeed, or are given up.

`Endings` tells which completions a server broke off. `decide` is what follows from a failure, for all clients.
`Reachability` ends requests to a server that was stopped, and `PatientRequests` sends requests again.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from ..errors import RefusedError, ServerError
from ..records import ENDING_WORDS, Ending, Rollout, Timeouts
from ..runtime.concurrency import cancel_all
from ..runtime.retries import OutageLog, pauses
from ..runtime.text import describe_connection, visible
from .addresses import goes_through_proxy, try_connection
from .failures import BrokenOffError, Failure, FailureKind, explain_failure

T = TypeVar("T")

logger = logging.getLogger(__name__)

# ---------------------------------------------------------------------------- how completions ended

MOST_WORDS = 32
"""Different words for endings that are told apart; Gemini, which has most, has 17. A server may make up any number."""
_KNOWN_WORDS = frozenset(" ".join(ENDING_WORDS.values()).split())
SAYS_NOTHING = "null"
"""Word of a completion that was broken off without a word."""


def finish_word(finish_reason: object, stop_reason: object = None) -> str:
    """Return the server's word for how a completion ended; "" if the server does not say.

    SGLang's finish reason is an object with the word as its `type`. Some gateways leave `finish_reason` null, and say
    `stop_reason`; where vLLM has the stop text, which is no word of the table.
    """
    if isinstance(finish_reason, Mapping):
        finish_reason = finish_reason.get("type")
    finish_reason = getattr(finish_reason, "type", finish_reason)
    if finish_reason is None or finish_reason == "":
        is_known = isinstance(stop_reason, str) and stop_reason.lower() in _KNOWN_WORDS
        return str(stop_reason) if is_known else ""
    return str(finish_reason)


class Endings:
    """Tells which completions of some servers were broken off, and logs each word that no table knows once."""

    def __init__(self) -> None:
        self._has_words = False
        """Whether a completion came with a word: servers that never say one leave it out of whole completions too."""
        self._unknown: set[str] = set()

    def broken_off(self, word: str, *, is_empty: bool, said: object = None) -> BrokenOffError | None:
        """Return the error for a completion that was broken off; None for any other.

        Args:
            word: The server's word; "" if the server does not say.
            is_empty: Whether nothing came of the completion.
            said: What the server said beside the word.
        """
        if not word:
            return BrokenOffError(SAYS_NOTHING, said) if is_empty or self._has_words else None
        self._has_words = True
        if Ending.of(word) is not Ending.BROKEN_OFF:
            return None
        lower = word.lower()
        is_new = lower not in _KNOWN_WORDS and lower not in self._unknown
        if is_new and len(self._unknown) < MOST_WORDS:
            self._unknown.add(lower)
            logger.warning(
                "a server ended a completion with %r, a word that is not known here: such completions count as broken "
                "off, and are asked for again",
                visible(word, 60),
            )
        return BrokenOffError(word, said)


# ---------------------------------------------------------------------------- what follows from a failure

MAX_REQUEST_FAILURES = 3
"""How often the request of a group may fail while other requests succeed."""


@dataclass(frozen=True)
class History:
    """The failures of one group's requests, and the successes of all groups' requests beside them.

    - `failures`: failed requests of this group.
    - `failures_beside_successes`: failures while requests of other groups succeeded. BUSY is not counted: the server
      asks for patience, and the request is sound.
    - `successes`: successful requests of all groups until the last failure of this group, or until its first request.
    - `others_succeeded`: whether a request of any group succeeded between that failure and the one before.
    - `outage_s`: how long requests of all groups have failed without a success.
    - `pause_s`: how long to wait before this group's next request, if it has one.
    """

    failures: int = 0
    failures_beside_successes: int = 0
    successes: int = 0
    others_succeeded: bool = False
    outage_s: float = 0.0
    pause_s: float = 0.0

    def after(self, failure: Failure, *, successes: int, outage_s: float, pause_s: float) -> History:
        """Return the history with one more failure; `successes` counts the successful requests of all groups so far."""
        others_succeeded = successes > self.successes
        beside_successes = self.failures_beside_successes
        if others_succeeded and failure.kind is not FailureKind.BUSY:
            beside_successes += 1
        return History(self.failures + 1, beside_successes, successes, others_succeeded, outage_s, pause_s)


def decide(failure: Failure, history: History, limits: Timeouts) -> float | ServerError | TimeoutError:
    """Return the seconds to wait before a group's request is sent again, or the error with which the group is given up.

    `history` contains the failure, the last one. In this order:

    1. A time-out while other requests succeed: give up. The server works, and this prompt takes too long.
    2. A refusal: end the run with a RefusedError if no request has ever succeeded, for all other requests will be
       refused too; else give up. A run that waits without limit (`serve`) is not ended: the server may be exchanged.
    3. MAX_REQUEST_FAILURES failures while other requests succeed: give up. The server works, and this prompt is at
       fault.
    4. As many failures as `limits.tries`: give up.
    5. Requests of all groups fail for longer than `limits.outage_s`: give up. Where the server says how long to wait,
       the limit is that of a reply if that is longer.
    6. Else: send again, after as long as the server says.
    """
    said = failure.description
    if failure.timed_out and history.others_succeeded:
        return TimeoutError(f"no reply in time while other requests succeeded ({said})")
    if failure.kind is FailureKind.REFUSED:
        is_first = history.successes == 0 and math.isfinite(limits.outage_s)
        refused = RefusedError if is_first else ServerError
        return refused(f"the inference server refuses requests ({said})", remedy=failure.remedy)
    if history.failures_beside_successes >= MAX_REQUEST_FAILURES:
        return ServerError(f"{history.failures_beside_successes} failures while others succeeded: {said}")
    if limits.tries is not None and history.failures >= limits.tries:
        return ServerError(f"{limits.tries} requests failed: {said}")
    if limits.tries is not None:
        return 0.0
    pause_s, limit_s = history.pause_s, limits.outage_s
    if failure.retry_after_s is not None:
        pause_s, limit_s = failure.retry_after_s, max(limit_s, limits.reply_s or math.inf)
    if history.outage_s + pause_s > limit_s:
        return ServerError(f"requests fail for {limit_s:g} s: {said}")
    return pause_s


# ---------------------------------------------------------------------------- a server that goes away and comes back


REACH_POLL_S = 1.0
"""Seconds between two trials of a connection while requests wait, which is how often Atropos checks health."""
CONNECT_S = 2.0
"""How long a trial may take; a server on the same network accepts within milliseconds."""
AWAY_S = 10.0
"""How long a server may be unreachable until the requests to it end. Shorter, a restart or a failing network may be
over before long, and requests on a network that fails for seconds still get their replies."""


class ServerAwayError(ConnectionError):
    """The server was unreachable since the request was sent; whoever has its connection will not reply."""


class Reachability:
    """Ends the requests to a server that was stopped after they were sent.

    A server that is stopped may leave open connections to a process that never replies, and its successor takes the
    same port: vLLM did so for ten minutes. So connections are tried beside requests that wait. Requests are lost if
    connections were refused meanwhile and are accepted again, or fail in any way for AWAY_S. Only plain http without a
    proxy is watched: behind TLS and proxies stands something that stays reachable.

    `disconnect` closes all connections when requests are lost: those that idle may lead to the former process too.
    """

    def __init__(self, url: str, disconnect: Callable[[], Awaitable[None]] | None = None) -> None:
        self._url = url
        self._disconnect = disconnect
        self._log = OutageLog(logger)
        self._away_since: float | None = None
        self._was_refused = False
        self._lost_before = -math.inf
        """Every request that was sent before this time is lost. The time moves when a server that refused connections
        is back, and every AWAY_S while it stays away."""
        self._tried_at = -math.inf

    @cached_property
    def _is_watched(self) -> bool:
        return self._url.startswith("http://") and not goes_through_proxy(self._url)

    async def outlast(self, request: Awaitable[T]) -> T:
        """Return what a request returns, or raise ServerAwayError once the request is lost."""
        sent = time.monotonic()
        work = asyncio.ensure_future(request)
        try:
            while not (await asyncio.wait([work], timeout=REACH_POLL_S))[0]:
                await self.check()
                if sent < self._lost_before:
                    break
            if sent < self._lost_before and not (work.done() and work.exception() is None):
                raise ServerAwayError(f"the server {self._url} was unreachable since the request was sent")
            reply = work.result()
        finally:
            if not work.done():
                await cancel_all([work])
        if self._away_since is not None and sent > self._away_since:
            await self._note_back()
        return reply

    async def check(self) -> None:
        """Try a connection, unless one was tried within REACH_POLL_S."""
        now = time.monotonic()
        if now - self._tried_at < REACH_POLL_S or not self._is_watched:
            return
        self._tried_at = now
        error = await try_connection(self._url, CONNECT_S)
        if error is not None:
            self._away_since = now if self._away_since is None else self._away_since
            # Refused, or reset where the server stops at this moment: the machine answers that nobody listens.
            self._was_refused |= isinstance(error, ConnectionError)
            self._log.note(f"server {self._url} cannot be reached ({describe_connection(error)})")
            if now - max(self._away_since, self._lost_before) >= AWAY_S:
                is_first_loss = self._lost_before < self._away_since
                await self._lose_requests(disconnect=is_first_loss)
        elif self._away_since is not None:
            await self._note_back()

    async def look_after(self) -> None:
        """Notice when a server that is away is back."""
        if self._away_since is not None:
            await self.check()

    async def _note_back(self) -> None:
        was_refused, self._was_refused = self._was_refused, False
        self._away_since = None
        self._log.over(f"server {self._url} is back")
        if was_refused:
            await self._lose_requests(disconnect=True)

    async def _lose_requests(self, *, disconnect: bool) -> None:
        self._lost_before = time.monotonic()
        if disconnect and self._disconnect is not None:
            await self._disconnect()


# ---------------------------------------------------------------------------- the requests of a run


class PatientRequests:
    """The requests of all groups of a run: their successes, and the outage that they notice together."""

    def __init__(self, logger: logging.Logger) -> None:
        self._successes = 0
        self._outage = OutageLog(logger)
        self.ended: Counter[str] = Counter()
        """Groups that were given up because completions were broken off, by the server's word."""

    @property
    def outage_s(self) -> float:
        """How long requests have failed; 0 after a success."""
        return self._outage.duration_s

    def note_outage(self, message: str) -> None:
        """Notice an outage that no request has met yet."""
        self._outage.note(message)

    async def complete(
        self, n: int, ask: Callable[[int], Awaitable[list[Rollout]]], timeouts: Timeouts
    ) -> list[Rollout]:
        """Return exactly `n` rollouts. What came is kept, whatever happens to the other requests.

        `ask` asks for as many as are missing and returns those that came, at least one; it may raise any error. Failed
        requests are repeated, with pauses; `decide` is the policy. Requests that were lost with their server are sent
        again at once, and are no failure.

        Raises:
            TimeoutError: A reply took over `timeouts.reply_s` while other requests succeeded.
            RefusedError: The server refuses requests and has never taken any; unless `timeouts.outage_s` is infinite.
            ServerError: The server refuses this request.
            ServerError: Requests failed MAX_REQUEST_FAILURES times while others succeeded.
            ServerError: Requests failed `timeouts.tries` times, or for `timeouts.outage_s`.
            ServerError: `ask` raised ServerError, which is final.
        """
        rollouts: list[Rollout] = []
        history = History(successes=self._successes)
        waits = pauses()
        while len(rollouts) < n:
            try:
                missing = n - len(rollouts)
                rollouts += (await ask(missing))[:missing]
            except ServerError:
                raise
            except ServerAwayError as error:
                self._outage.note(f"requests are sent again ({error})")
                if self.outage_s > timeouts.outage_s:
                    raise ServerError(f"requests fail for {timeouts.outage_s:g} s: {error}") from error
            except Exception as error:  # clients raise all sorts of things for servers that are gone or talk nonsense
                failure = explain_failure(error)
                if self._successes > history.successes:
                    waits = pauses()
                history = history.after(failure, successes=self._successes, outage_s=self.outage_s, pause_s=next(waits))
                decision = decide(failure, history, timeouts)
                if isinstance(decision, Exception):
                    if failure.ended is not None:
                        self._count_ended(failure.ended)
                    raise decision from error
                if failure.kind is FailureKind.BUSY:
                    self._outage.note(f"requests are refused for now, and are sent more slowly ({failure.description})")
                else:
                    self._outage.note(f"requests for completions fail, and are tried again ({failure.description})")
                await asyncio.sleep(decision)
        self._successes += 1
        self._outage.over("completions arrive again")
        return rollouts

    def _count_ended(self, word: str) -> None:
        """Count a word as a part of a metric's name; words beyond MOST_WORDS are one."""
        name = re.sub(r"[^a-z0-9]+", "_", word[:40].lower()).strip("_") or "other"
        self.ended[name if name in self.ended or len(self.ended) < MOST_WORDS else "other"] += 1
