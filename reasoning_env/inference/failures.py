"""Explain failed requests to inference servers, and decide whether to retry them.

`explain_failure` returns what an error means and what a user can do. `decide` returns whether and when to retry.
"""

from __future__ import annotations

import json
import math
import re
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import Enum, auto
from http import HTTPStatus
from typing import Any

from ..errors import RefusedError, ServerError
from ..runtime.retries import OutageLog
from ..runtime.text import describe_connection, printable

CONNECTION_ERRORS = ("APIConnectionError", "APITimeoutError", "ServerDisconnectedError")
"""Names of HTTP clients' connection errors that are no OSErrors. This module does not import the clients."""
LONGEST_WAIT_S = 3600.0
"""Longer pauses that a server asks for are cut to this many seconds. A header could name the year 9999."""
NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")
"""Reasons of an SSLError if the server speaks http, not https. Newer versions of OpenSSL use the second reason."""


class FailureKind(Enum):
    """Whether and when another try may succeed."""

    ABSENT = auto()
    """The server is unreachable or not ready yet: the same request may succeed later."""
    BUSY = auto()
    """The server is overloaded; the request itself is valid."""
    REFUSED = auto()
    """The server will never accept this request."""
    UNUSABLE = auto()
    """Any other failure, such as a web page instead of JSON."""


@dataclass(frozen=True)
class Failure:
    """A failed request in plain words.

    - `description`: one line with the kind of the error, its message, and how long the server asks to wait.
    - `kind`: whether and when the next request may succeed.
    - `remedy`: what a user can do, with settings in braces as in `errors.ReasoningEnvError`.
    - `status`: the HTTP status; None if there is no reply.
    - `timed_out`: whether the request ended by a time limit.
    - `retry_after_s`: how long the server asks to wait, in seconds; None if it does not say.
    - `is_unreachable`: True if no connection was made, or if the server became unreachable while the request waited.
    """

    description: str
    kind: FailureKind
    remedy: str
    status: int | None = None
    timed_out: bool = False
    retry_after_s: float | None = None
    is_unreachable: bool = False

    @property
    def may_be_overload(self) -> bool:
        """True if the server is overloaded or unavailable. The request itself may be valid."""
        return self.kind is FailureKind.BUSY or self.status == HTTPStatus.SERVICE_UNAVAILABLE

    @property
    def nobody_answers(self) -> bool:
        """True if the server is absent or busy. Then the prompt did not cause the failure."""
        is_away = self.kind is FailureKind.ABSENT and self.status != HTTPStatus.INTERNAL_SERVER_ERROR
        return is_away or self.kind is FailureKind.BUSY


def explain_failure(error: BaseException) -> Failure:
    """Return a Failure that explains the error that a client raised for a request."""
    cause = _cause(error)
    root = _root(cause)
    status = http_status(cause)
    description = describe_failure(error)
    retry_after_s = seconds_asked(_header(cause, "Retry-After"), _header(cause, "Date"))
    if retry_after_s is not None:
        description += f"; the server asks to wait {retry_after_s:.0f} s"
    if NO_QUOTA in error_names(cause):
        kind, remedy = FailureKind.BUSY, "check {openai.api_key}, or the quota of your account"
    elif is_overload(cause):
        kind, remedy = _explain_status(HTTPStatus.TOO_MANY_REQUESTS)
    elif isinstance(root, ssl.SSLError) and root.reason in NO_TLS:
        kind, remedy = FailureKind.REFUSED, "write http:// instead of https:// in {openai.base_url}"
    elif status is None and (isinstance(cause, OSError) or type(cause).__name__ in CONNECTION_ERRORS):
        kind, remedy = FailureKind.ABSENT, "start the server, or correct {openai.base_url}"
    else:
        kind, remedy = _explain_status(status)
    return Failure(
        description,
        kind,
        remedy,
        status,
        timed_out=isinstance(error, TimeoutError),
        retry_after_s=retry_after_s,
        is_unreachable=isinstance(root, (ConnectionRefusedError, ServerAwayError))
        or type(cause).__name__.startswith("ClientConnector"),
    )


class ServerAwayError(ConnectionError):
    """The server could not be reached while the request waited, so the request will get no reply."""


class BrokenOffError(Exception):
    """The server ended a completion before the model did, because of a failure.

    - `finish_reason`: the name under which this error is counted.
    - `detail`: the error message in the reply.
    - `why`: the message of this exception, if it differs from the usual message.
    """

    def __init__(self, finish_reason: str, detail: object = None, *, why: str = "") -> None:
        message = "" if not detail else f": {printable(str(detail), 200)}"
        ended = f"the server interrupted a completion, with the finish reason {printable(finish_reason, 60)!r}{message}"
        super().__init__(why or ended)
        self.finish_reason = finish_reason


class ErrorReply(Exception):
    """A reply of status 200 contains an error, as some proxies send it.

    `names` are the error's code, type and status. A code from 500 to 599 counts as the status of the reply.
    """

    def __init__(self, error: object) -> None:
        super().__init__(message_of(error))
        self.names = names_of_error(error)
        self.status = next((int(name) for name in self.names if re.fullmatch(r"5\d\d", name)), None)


def overload_in_choice(error: object) -> ErrorReply | None:
    """Return a completion's error as an ErrorReply if the error may mean an overloaded server; else None."""
    reply = ErrorReply(error)
    return reply if explain_failure(reply).may_be_overload else None


def message_of(error: object) -> str:
    """Return the message of an error in a reply."""
    return str(_field(error, "message") or error)


def names_of_error(error: object) -> list[str]:
    """Return the code, type and status of an error in a reply. If the error is a string, return [error]."""
    if isinstance(error, str):
        return [error]
    return [str(value) for name in ("code", "type", "status") if (value := _field(error, name)) is not None]


def _field(error: object, name: str) -> object:
    return error.get(name) if isinstance(error, Mapping) else getattr(error, name, None)


ERROR_BYTES = 2**14
"""An error is read from at most this many bytes of a reply. Some servers repeat the request in their errors."""


def error_in_place(body: bytes) -> ErrorReply | None:
    """Return the error that a reply contains instead of completions; None for any other reply."""
    try:
        error = json.loads(body)["error"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return ErrorReply(error) if error else None


MAX_MESSAGE_CHARACTERS = 4096
"""The messages of an error body are truncated to this many characters."""
NO_MESSAGES = frozenset({"code", "type", "status", "object", "id", "request_id", "url", "input", "body", "request"})
"""Fields of an error that contain no message: names and numbers of the error, or parts of the request."""


def all_messages(body: bytes) -> str:
    """Return all messages in an error body of any JSON structure, joined by spaces, up to MAX_MESSAGE_CHARACTERS.

    Names of fields are included, because some servers use a refused parameter as a field's name. JSON in a string is
    parsed.
    """
    text = body.decode(errors="replace")
    return " ".join(_messages_in(text))[:MAX_MESSAGE_CHARACTERS]


def _messages_in(value: object, depth: int = 8) -> Iterator[str]:
    if isinstance(value, str):
        with suppress(ValueError, RecursionError):
            if depth and value[:1] in ("{", "["):
                yield from _messages_in(json.loads(value), depth - 1)
                return
        yield value
    elif isinstance(value, Mapping) and depth:
        for name, item in value.items():
            if name not in NO_MESSAGES:
                yield name
                yield from _messages_in(item, depth - 1)
    elif isinstance(value, list) and depth:
        for item in value:
            yield from _messages_in(item, depth - 1)


OVERLOAD_CODES = frozenset({429, 529})
"""Statuses and error codes of an overloaded server; Anthropic uses 529."""
OVERLOAD_WORDS = re.compile(
    r"rate.?limit|too.?many.?(concurrent.?)?requests|over.?load|throttl|resource.?exhausted|slow.?down"
    r"|\b(server|engine|model|system).?(is.?)?busy|queue.?(is.?)?full",
    re.IGNORECASE,
)
"""Words of overloaded servers in an error's code, type or message."""
NO_QUOTA = "insufficient_quota"
"""Error code of OpenAI for a key without credit. The status is 429, but waiting does not help."""


def error_names(cause: BaseException) -> list[str]:
    """Return the code, type and status of the error in a reply."""
    return [*getattr(cause, "names", ()), *names_of_error(getattr(cause, "body", None))]  # OpenAI's errors have a body


def is_overload(cause: BaseException) -> bool:
    """Return whether the status, code, type or message of an error says that the server is overloaded."""
    names = error_names(cause)
    if http_status(cause) in OVERLOAD_CODES or any(str(code) in names for code in OVERLOAD_CODES):
        return True
    if isinstance(cause, ErrorReply):
        names.append(str(cause))
    return any(OVERLOAD_WORDS.search(name) for name in names)


# ---------------------------------------------------------------------------- errors in words


def _header(cause: BaseException, name: str) -> str | None:
    """Return a header of the reply that caused an error; None if there is no reply or no such header."""
    headers = getattr(getattr(cause, "response", None), "headers", None) or getattr(cause, "headers", None) or {}
    return headers.get(name) or headers.get(name.lower())


def seconds_asked(retry_after: str | None, sent_at: str | None = None) -> float | None:
    """Return how many seconds a header Retry-After (a number or a date) asks to wait; None if there is no header.

    `sent_at` is the reply's header Date. The result is at most LONGEST_WAIT_S.
    """
    if retry_after is None:
        return None
    try:
        seconds = float(retry_after)
    except ValueError:
        try:
            # The server's clock may differ from this machine's clock.
            now = time.time() if sent_at is None else parsedate_to_datetime(sent_at).timestamp()
            seconds = parsedate_to_datetime(retry_after).timestamp() - now
        except (ValueError, OverflowError):
            return None
    return min(max(0.0, seconds), LONGEST_WAIT_S) if math.isfinite(seconds) else None


def http_status(error: BaseException) -> Any:
    """Return the HTTP status of an error of OpenAI's client or of aiohttp; None if the error has no status."""
    if _is_unreadable(error):
        return None
    return getattr(error, "status_code", None) or getattr(error, "status", None)


def _is_unreadable(error: BaseException) -> bool:
    """Return True for a reply that aiohttp cannot parse. aiohttp's error then has a status that no server sent."""
    return any(each.__name__ == "HttpProcessingError" for each in type(error.__cause__).__mro__)


def _explain_status(status: int | None) -> tuple[FailureKind, str]:
    """Return what a reply's HTTP status means, and what a user can do; `status` is None if there is no reply."""
    match status:
        case 400 | 413 | 422:
            limit = "that {env.max_token_length} does not exceed the server's context length"
            return FailureKind.REFUSED, f"check {{openai.model_name}} and {{openai.server_type}}, and {limit}"
        case 401 | 403:
            return FailureKind.REFUSED, "check {openai.api_key}, or the variable OPENAI_API_KEY"
        case 404:
            return FailureKind.REFUSED, "check {openai.model_name}, {openai.base_url} and {openai.server_type}"
        case 429:
            return FailureKind.BUSY, "wait, or lower {env.max_num_workers}"
        case 500:
            return FailureKind.ABSENT, "see the server's log"
        case 502 | 504:
            return FailureKind.ABSENT, "start the inference server, because only a proxy answers at {openai.base_url}"
        case 503:
            return FailureKind.ABSENT, "wait until the server has loaded its model"
        case int() if status < 400:
            return FailureKind.UNUSABLE, "check {openai.base_url}, because the server redirects requests"
        case int() if status >= 500:  # 529: the provider is overloaded; 520 to 524: a proxy cannot reach the server
            return FailureKind.ABSENT, "wait, or see the server's log"
        case _:
            return FailureKind.UNUSABLE, "check {openai.base_url} and {openai.model_name}, or see the server's log"


def describe_failure(error: BaseException) -> str:
    """Return the failure in one line; for tenacity's RetryError, the failure of the last attempt."""
    cause = _cause(error)
    if _is_unreadable(cause):
        return f"the reply is not valid HTTP ({_first_line(cause)})"
    if _has_no_connection(cause) and (described := _describe_connection(cause)) is not None:
        return described
    message = _first_line(cause) or ("no reply within the time limit" if isinstance(cause, TimeoutError) else "")
    return f"{type(cause).__name__}: {message}".rstrip(": ")[:300]


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), "").rstrip(": ")


def _has_no_connection(error: BaseException) -> bool:
    """Return True for the errors of OpenAI's client and of aiohttp if no connection could be made."""
    return type(error).__name__.startswith(("APIConnectionError", "ClientConnector"))


def _describe_connection(error: BaseException) -> str | None:
    """Return why no connection was made; None if the cause is unknown. The client's own message is less precise."""
    root = _root(error)
    if isinstance(root, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({root.verify_message}); SSL_CERT_FILE can name trusted certificates"
    if isinstance(root, ssl.SSLError):
        return f"no TLS connection ({root.reason or root}); does the server speak http, not https?"
    return describe_connection(root) if isinstance(root, OSError) and root.errno else None


def _root(error: BaseException) -> Any:
    """Return the innermost cause of an error of an HTTP client."""
    root: Any = getattr(error, "os_error", None) or error  # errors of aiohttp have their cause in an attribute
    while (below := root.__cause__ or root.__context__) is not None:
        root = below
    return root


def _cause(error: BaseException) -> BaseException:
    """Return the error of the last attempt if `error` is tenacity's RetryError, else `error` itself."""
    last_attempt = getattr(error, "last_attempt", None)
    return (last_attempt.exception() if last_attempt is not None else None) or error


# ---------------------------------------------------------------------------- retry or give up

MAX_REQUEST_FAILURES = 3
"""A group is given up after this many failed requests, if other groups' requests succeeded meanwhile."""


@dataclass(frozen=True)
class History:
    """The failures of one group's requests, compared with the successes of all groups' requests.

    - `failures`: failed requests of this group.
    - `failures_beside_successes`: failed requests of this group while other groups' requests succeeded. Failures of a
      busy, unavailable or unreachable server do not count.
    - `successes`: how many requests of all groups had succeeded at this group's last failure. Before the first failure:
      how many had succeeded at the group's first request.
    - `others_succeeded`: whether any request succeeded between this group's last two failures.
    - `outage_s`: how long requests of all groups have failed without a success.
    - `pause_s`: how long to wait before this group's request is retried.
    """

    failures: int = 0
    failures_beside_successes: int = 0
    successes: int = 0
    others_succeeded: bool = False
    outage_s: float = 0.0
    pause_s: float = 0.0

    def after(self, failure: Failure, *, successes: int, outage_s: float, pause_s: float) -> History:
        """Return the history with one more failure. `successes`: successful requests of all groups so far."""
        others_succeeded = successes > self.successes
        beside_successes = self.failures_beside_successes
        if others_succeeded and not failure.may_be_overload and not failure.is_unreachable:
            beside_successes += 1
        return History(self.failures + 1, beside_successes, successes, others_succeeded, outage_s, pause_s)


class RequestOutage(OutageLog):
    """Tracks how long requests have failed, and when the server was last absent or busy."""

    _absent_at = -math.inf

    def counted_s(self, failure: Failure) -> float:
        """Return how long requests have failed, in seconds, for the limits in `decide`.

        If the server is absent or busy, the whole outage counts. For any other failure, only the time since the
        server was last absent or busy counts.
        """
        if failure.nobody_answers:
            self._absent_at = self._clock()
            return self.duration_s
        return min(self.duration_s, self._clock() - self._absent_at)


@dataclass(frozen=True)
class Timeouts:
    """Time limits of a request for completions, in seconds.

    - `reply_s`: one attempt; None for no limit.
    - `outage_s`: give up when all requests have failed for this long; infinite for no limit.
    - `away_s`: replaces a shorter `outage_s` while no server answers at all, because servers may be restarting.
    - `tries`: the maximum number of attempts. If set, `outage_s` has no effect, and attempts follow without pauses.
    """

    reply_s: float | None
    outage_s: float
    tries: int | None = None
    away_s: float | None = None


def decide(failure: Failure, history: History, limits: Timeouts) -> float | ServerError | TimeoutError:
    """Return the seconds to wait before a group's request is retried, or the error with which the group is given up.

    `history` already contains `failure`. The first rule that applies decides:

    1. A timeout while other requests succeeded: give up, because this prompt takes too long.
    2. A refusal: give up. If no request ever succeeded, a RefusedError ends the run, unless `limits.outage_s` is
       infinite: then the user may replace the server.
    3. MAX_REQUEST_FAILURES failures while other requests succeeded: give up, because this prompt causes the failures.
    4. `limits.tries` is set: give up after this many failures. Until then, retry immediately.
    5. All requests of the run have failed for `limits.outage_s`: give up. While no server answers, the limit is at
       least `limits.away_s`. If the server asks for a wait, the limit is at least `limits.reply_s` (None: infinite).
    6. Otherwise: retry after `history.pause_s`, or after the server's `retry_after_s`.
    """
    said = failure.description
    if failure.timed_out and history.others_succeeded:
        return TimeoutError(f"a request got no reply within the time limit, although other requests succeeded ({said})")
    if failure.kind is FailureKind.REFUSED:
        # With an infinite limit, as in `serve`, the user may replace the server.
        is_first = history.successes == 0 and math.isfinite(limits.outage_s)
        refused = RefusedError if is_first else ServerError
        return refused(f"the inference server refuses requests ({said})", remedy=failure.remedy)
    if history.failures_beside_successes >= MAX_REQUEST_FAILURES:
        failed = f"{history.failures_beside_successes} requests of one group failed"
        return ServerError(f"{failed} while requests of other groups succeeded: {said}")
    if limits.tries is not None and history.failures >= limits.tries:
        return ServerError(f"a group's request failed {limits.tries} times: {said}")
    if limits.tries is not None:
        return 0.0
    pause_s, limit_s = history.pause_s, limits.outage_s
    if failure.nobody_answers and limits.away_s is not None:
        limit_s = max(limit_s, limits.away_s)
    if failure.retry_after_s is not None:
        pause_s, limit_s = failure.retry_after_s, max(limit_s, limits.reply_s or math.inf)
    if history.outage_s + pause_s > limit_s:
        return ServerError(
            f"no request has succeeded for {history.outage_s:.0f} s, and a retry would exceed the limit of "
            f"{limit_s:g} s ({said})",
            remedy=f"{failure.remedy}; or raise {{env.startup_timeout_s}}",
        )
    return pause_s
