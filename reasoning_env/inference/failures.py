"""What a failed request to an inference server means, what a user can do, and whether the request is sent again.

`explain_failure` is one table for the start and for the run. `decide` is the policy of the run, for all clients;
`PatientRequests` sends failed requests again until it gives up.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import math
import os
import re
import resource
import ssl
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from enum import Enum, auto
from functools import cached_property
from http import HTTPStatus
from typing import Any, TypeVar

from ..errors import RefusedError, ServerError
from ..records import ENDING_WORDS, Ending, Rollout, Timeouts
from ..runtime.concurrency import cancel_all
from ..runtime.retries import OutageLog, pauses
from ..runtime.text import visible
from .addresses import describe_connection, goes_through_proxy, try_connection

T = TypeVar("T")

logger = logging.getLogger(__name__)

MAX_REQUEST_FAILURES = 3
"""How often the request of a group may fail while other requests succeed."""
CLOSED = ("RemoteProtocolError", "ReadError", "ConnectionResetError", "EndOfStream", "ServerDisconnectedError")
"""Causes of such errors where a server closes the connection."""
CONNECTION_ERRORS = (
    "APIConnectionError",
    "ClientConnectorError",
    "ClientConnectorDNSError",
    "ClientConnectorSSLError",
    "ClientConnectorCertificateError",
    "ServerDisconnectedError",
    "TooManyRedirects",
)
"""Errors of clients without a reply, by the name of their class: this module imports no client."""


class FailureKind(Enum):
    """What a failure says about the next request."""

    ABSENT = auto()
    """The server is unreachable or not ready yet: the same request may succeed later."""
    BUSY = auto()
    """The server asks to wait; the request itself is sound."""
    REFUSED = auto()
    """The server will never take this request."""
    UNUSABLE = auto()
    """Any other failure, such as a web page instead of JSON."""


@dataclass(frozen=True)
class Remedy:
    """What a user can do: check `settings`, or follow the `advice`; beside settings, the advice is one more check.

    The advice has settings in braces, as in `errors.ReasoningEnvError`.
    """

    advice: str = ""
    settings: tuple[str, ...] = ()

    def without(self, setting: str) -> Remedy:
        """Return the remedy without a setting that the user does not have."""
        return replace(self, settings=tuple(name for name in self.settings if name != setting))

    def __str__(self) -> str:
        if not self.settings:
            return self.advice
        *first, last = [*(f"{{{name}}}" for name in self.settings), *filter(None, [self.advice])]
        return f"check {', '.join(first)} and {last}" if first else f"check {last}"


@dataclass(frozen=True)
class Failure:
    """A failed request in plain words.

    - `description`: one line with the kind of the error and its message.
    - `kind`: what the failure says about the next request.
    - `remedy`: what a user can do.
    - `status`: the HTTP status; None without a reply.
    - `timed_out`: whether the request ended by a time limit.
    - `ended`: the server's word for a completion that it broke off; None for other failures.
    - `retry_after_s`: how long the server asks to wait, in seconds; None if it does not say.
    """

    description: str
    kind: FailureKind
    remedy: Remedy
    status: int | None
    timed_out: bool = False
    ended: str | None = None
    retry_after_s: float | None = None


def explain_failure(error: BaseException) -> Failure:
    """Return what an error that a client raised for a request means."""
    cause = _cause(error)
    if isinstance(cause, BrokenOffError):
        remedy = Remedy("look into the server's log")
        return Failure(str(cause), FailureKind.UNUSABLE, remedy, None, ended=cause.word)
    bad_reply = _find_bad_reply(cause)
    description = bad_reply.description if bad_reply else describe_failure(error)
    status = http_status(cause)
    kind, remedy = _explain_status(status)
    timed_out = isinstance(error, TimeoutError)
    if kind is not FailureKind.UNUSABLE:
        return Failure(description, kind, remedy, status, timed_out, retry_after_s=_retry_after_s(cause))
    if getattr(_root(cause), "errno", None) in (errno.EMFILE, errno.ENFILE):
        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        description = f"{description}: this process may have {most} files and connections open at a time (ulimit -n)"
        return Failure(description, FailureKind.BUSY, Remedy("raise the limit with ulimit -n"), None)
    error_name = type(cause).__name__
    # Errors of clients for a server that cannot be reached; errors of the system are OSError.
    no_connection = error_name in ("APIConnectionError", "APITimeoutError", "ServerDisconnectedError")
    if status is None and (no_connection or isinstance(cause, (OSError, TimeoutError))):
        remedy = Remedy("start one, or correct {openai.base_url}")
        return Failure(description, FailureKind.ABSENT, remedy, None, timed_out)
    if bad_reply is not None and bad_reply.remedy is not None:
        remedy = bad_reply.remedy
    return Failure(description, FailureKind.UNUSABLE, remedy, status, timed_out)


# ---------------------------------------------------------------------------- how completions ended

MOST_WORDS = 32
"""Different words for endings that are told apart; Gemini, which has most, has 17. A server may make up any number."""
_KNOWN_WORDS = frozenset(" ".join(ENDING_WORDS.values()).split())
SAYS_NOTHING = "null"
"""Word of a completion that was broken off without a word."""


class BrokenOffError(Exception):
    """The server broke a completion off: the completion is not the model's."""

    def __init__(self, word: str, said: object = None) -> None:
        message = "" if not said else f": {visible(str(said), 200)}"
        super().__init__(f"the server broke a completion off, with the finish reason {visible(word, 60)!r}{message}")
        self.word = word


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


@dataclass(frozen=True)
class Retry:
    """Send the request again after a pause."""

    pause_s: float


@dataclass(frozen=True)
class Drop:
    """Give up the group; other groups go on. `error` is raised for it."""

    error: ServerError | TimeoutError


@dataclass(frozen=True)
class End:
    """End the run: no request of another group can succeed."""

    error: RefusedError


def decide(failure: Failure, history: History, limits: Timeouts) -> Retry | Drop | End:
    """Return what follows from the last failure of a group's request; `history` contains that failure.

    In this order:

    1. A time-out while other requests succeed: drop. The server works, and this prompt takes too long.
    2. A refusal: end if no request has ever succeeded, for all other requests will be refused too; else drop. A run
       that waits without limit (`serve`) is not ended: the server may be exchanged.
    3. MAX_REQUEST_FAILURES failures while other requests succeed: drop. The server works, and this prompt is at fault.
    4. As many failures as `limits.tries`: drop.
    5. Requests of all groups fail for longer than `limits.outage_s`: drop. Where the server says how long to wait, the
       limit is that of a reply if that is longer.
    6. Else: retry, after as long as the server says.
    """
    said = failure.description
    if failure.timed_out and history.others_succeeded:
        return Drop(TimeoutError(f"no reply in time while other requests succeeded ({said})"))
    if failure.kind is FailureKind.REFUSED:
        message = f"the inference server refuses requests ({said})"
        if history.successes == 0 and math.isfinite(limits.outage_s):
            return End(RefusedError(message, remedy=str(failure.remedy)))
        return Drop(ServerError(message, remedy=str(failure.remedy)))
    if history.failures_beside_successes >= MAX_REQUEST_FAILURES:
        return Drop(ServerError(f"{history.failures_beside_successes} failures while others succeeded: {said}"))
    if limits.tries is not None and history.failures >= limits.tries:
        return Drop(ServerError(f"{limits.tries} requests failed: {said}"))
    if limits.tries is not None:
        return Retry(0.0)
    pause_s, limit_s = history.pause_s, limits.outage_s
    if failure.retry_after_s is not None:
        pause_s, limit_s = failure.retry_after_s, max(limit_s, limits.reply_s or math.inf)
    if history.outage_s + pause_s > limit_s:
        return Drop(ServerError(f"requests fail for {limit_s:g} s: {said}"))
    return Retry(pause_s)


# ---------------------------------------------------------------------------- errors in words


@dataclass(frozen=True)
class _BadReply:
    """A reply that the client could not read. Without a `remedy`, the status tells what a user can do."""

    description: str
    remedy: Remedy | None = None


NO_WHOLE_JSON = _BadReply(
    "its reply is no whole JSON", Remedy("look into the server's log, or check {openai.base_url}")
)
NO_JSON = _BadReply("its reply is no JSON", Remedy("that is no JSON, but perhaps a web page: check {openai.base_url}"))
NO_COMPLETION = _BadReply("its reply holds no completion")


def _find_bad_reply(cause: BaseException) -> _BadReply | None:
    """Return what is wrong with a reply that the client could not read; None for any other failure.

    Clients of vLLM and SGLang raise ContentTypeError for a web page; other clients take the page's text for the reply.
    """
    if isinstance(cause, json.JSONDecodeError):
        return NO_WHOLE_JSON
    is_text = isinstance(cause, AttributeError) and isinstance(cause.obj, str)
    if type(cause).__name__ == "ContentTypeError" or is_text:
        return NO_JSON
    if isinstance(cause, (TypeError, IndexError, KeyError, AttributeError)):
        return NO_COMPLETION
    return None


def describe_status(error: BaseException) -> str:
    """Return in plain words the reply of a server that cannot serve now: its status, and how long it asks to wait."""
    cause = _cause(error)
    status = http_status(cause)
    wait = _retry_after(cause)
    asks = ""
    if wait:  # seconds, or a date
        asks = f", and asks to wait {wait} s" if str(wait).strip().isdecimal() else f", and asks to wait until {wait}"
    phrase = f" ({HTTPStatus(status).phrase})" if status in set(HTTPStatus) else ""
    return f"it answers with status {status}{phrase}{asks}: {describe_failure(error)}"


def _retry_after(cause: BaseException) -> str | None:
    """Return the header Retry-After of an error's reply, in seconds or a date; None without one."""
    headers = getattr(getattr(cause, "response", None), "headers", None) or getattr(cause, "headers", None) or {}
    return headers.get("Retry-After") or headers.get("retry-after")


def _retry_after_s(cause: BaseException) -> float | None:
    """Return how many seconds a reply asks to wait; None if it does not say."""
    wait = _retry_after(cause)
    if wait is None:
        return None
    try:
        seconds = float(wait)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(wait).timestamp() - time.time()
        except ValueError:
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def http_status(error: BaseException) -> Any:
    """Return the HTTP status that an error of OpenAI's client or of aiohttp carries, else None."""
    return getattr(error, "status_code", None) or getattr(error, "status", None)


def is_quota(error: BaseException) -> bool:
    """Tell whether a hosted server refuses because the quota is used up; waiting does not help then."""
    return any(word in str(_cause(error)) for word in ("insufficient_quota", "exceeded your current quota"))


def _explain_status(status: int | None) -> tuple[FailureKind, Remedy]:
    """Return what a reply's HTTP status means, and what a user can do; `status` is None without a reply."""
    match status:
        case 400 | 413 | 422:
            advice = "that {env.max_token_length} is not above the server's context"
            return FailureKind.REFUSED, Remedy(advice, ("openai.model_name", "openai.server_type"))
        case 401 | 403:
            return FailureKind.REFUSED, Remedy(settings=("openai.api_key",))
        case 404:
            settings = ("openai.model_name", "openai.base_url", "openai.server_type")
            return FailureKind.REFUSED, Remedy(settings=settings)
        case 429:
            return FailureKind.BUSY, Remedy("wait, or lower {env.max_num_workers}")
        case 500:
            return FailureKind.ABSENT, Remedy("look into the server's log")
        case 502 | 504:
            return FailureKind.ABSENT, Remedy("start the server behind {openai.base_url}")
        case 503:
            return FailureKind.ABSENT, Remedy("wait until the server has loaded its model")
        case int() if status >= 500:  # 529 of an overloaded provider, 520 to 524 of a proxy before one
            return FailureKind.ABSENT, Remedy("wait, or look into the server's log")
        case _:
            settings = ("openai.server_type", "openai.model_name", "openai.api_key")
            return FailureKind.UNUSABLE, Remedy(settings=settings)


def describe_failure(error: BaseException) -> str:
    """Return the failure in one line; for tenacity's RetryError, the failure of the last attempt."""
    cause = _cause(error)
    if type(cause).__name__ in CONNECTION_ERRORS and (described := _describe_connection(cause)) is not None:
        return described
    return f"{type(cause).__name__}: {cause}".rstrip(": ").splitlines()[0][:300]


def _describe_connection(error: BaseException) -> str | None:
    """Return why a client has no connection, which its own message does not tell; None if that is not known."""
    root = _root(error)
    if isinstance(getattr(root, "certificate_error", None), ssl.SSLCertVerificationError):
        root = root.certificate_error
    if isinstance(root, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({root.verify_message}); SSL_CERT_FILE names further certificates"
    if isinstance(root, ssl.SSLError):
        return f"no TLS connection ({root.reason or root}); does the server speak http, not https?"
    if type(root).__name__ in CLOSED:
        return "it closes the connection without a reply"
    if type(root).__name__ == "TooManyRedirects":
        return "it redirects in a loop"
    if isinstance(root, OSError) and root.errno:
        return os.strerror(root.errno) if root.errno > 0 else str(root)
    return None


def _root(error: BaseException) -> Any:
    """Return the error that a client's error comes from."""
    root: Any = getattr(error, "os_error", None) or error  # aiohttp's errors keep their cause themselves
    while (below := root.__cause__ or root.__context__) is not None:
        root = below
    return root


def _cause(error: BaseException) -> BaseException:
    """Return the failure of the last attempt for tenacity's RetryError; any other error unchanged."""
    last_attempt = getattr(error, "last_attempt", None)
    return (last_attempt.exception() if last_attempt is not None else None) or error


def address(server: object) -> str:
    """Return what messages call a server: its URL, or the name of its class."""
    url = getattr(getattr(server, "config", None), "base_url", None)
    return url if url and isinstance(url, str) else type(server).__name__


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
        """Requests that were sent before this time are lost."""
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
            self._was_refused |= isinstance(error, ConnectionRefusedError)
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

    def note_success(self) -> None:
        """Count a group that has its completions, and end the outage."""
        self._successes += 1
        self._outage.over("completions arrive again")

    async def complete(self, attempt: Callable[[], Awaitable[list[Rollout]]], timeouts: Timeouts) -> list[Rollout]:
        """Return the rollouts of the first attempt that succeeds. Failed attempts are repeated, with pauses.

        An attempt that was lost with its server is repeated at once, and is no failure.

        `decide` is the policy. `attempt` calls `note_success`, and may raise any error.

        Raises:
            TimeoutError: A reply took over `timeouts.reply_s` while other requests succeeded.
            RefusedError: The server refuses requests and has never taken any; unless `timeouts.outage_s` is infinite.
            ServerError: The server refuses this request.
            ServerError: Requests failed MAX_REQUEST_FAILURES times while others succeeded.
            ServerError: Requests failed `timeouts.tries` times, or for `timeouts.outage_s`.
            ServerError: An attempt raised ServerError, which is final.
        """
        history = History(successes=self._successes)
        waits = pauses()
        while True:
            try:
                return await attempt()
            except ServerError:
                raise
            except ServerAwayError as error:
                self._outage.note(f"requests are sent again ({error})")
                if self.outage_s > timeouts.outage_s:
                    raise ServerError(f"requests fail for {timeouts.outage_s:g} s: {error}") from error
                continue
            except Exception as error:  # clients raise all sorts of things for servers that are gone or talk nonsense
                failure = explain_failure(error)
                if self._successes > history.successes:
                    waits = pauses()
                history = history.after(failure, successes=self._successes, outage_s=self.outage_s, pause_s=next(waits))
                decision = decide(failure, history, timeouts)
                if not isinstance(decision, Retry):
                    if failure.ended is not None:
                        self._count_ended(failure.ended)
                    raise decision.error from error
                if failure.kind is FailureKind.BUSY:
                    self._outage.note(f"requests are refused for now, and are sent more slowly ({failure.description})")
                else:
                    self._outage.note(f"requests for completions fail, and are tried again ({failure.description})")
            await asyncio.sleep(decision.pause_s)

    def _count_ended(self, word: str) -> None:
        """Count a word as a part of a metric's name; words beyond MOST_WORDS are one."""
        name = re.sub(r"[^a-z0-9]+", "_", word[:40].lower()).strip("_") or "other"
        self.ended[name if name in self.ended or len(self.ended) < MOST_WORDS else "other"] += 1
