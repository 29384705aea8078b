"""Explain failed requests to inference servers, at startup and during a run: meaning, remedy and next step.

`explain_failure` says what an error means. `decide` says whether and when the request is sent again.
"""

from __future__ import annotations

import errno
import json
import math
import re
import resource
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import Enum, auto
from http import HTTPStatus
from typing import Any

from ..errors import RefusedError, ServerError
from ..records import Timeouts
from ..runtime.retries import OutageLog
from ..runtime.text import describe_connection, visible

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
LONGEST_WAIT_S = 3600.0
"""Longest pause that a server may ask for: a header may name the year 9999."""
NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")
"""Reasons of an SSLError for a server that answers in plain text; the second is that of newer OpenSSL."""


class FailureKind(Enum):
    """Whether and when the next request may succeed."""

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

    - `description`: one line with the kind of the error and its message.
    - `kind`: what the failure says about the next request.
    - `remedy`: what a user can do, with settings in braces as in `errors.ReasoningEnvError`.
    - `status`: the HTTP status; None without a reply.
    - `timed_out`: whether the request ended by a time limit.
    - `ended`: the server's word for a completion that it broke off; None for other failures.
    - `retry_after_s`: how long the server asks to wait, in seconds; None if it does not say.
    - `is_unreachable`: whether no connection was made.
    """

    description: str
    kind: FailureKind
    remedy: str
    status: int | None
    timed_out: bool = False
    ended: str | None = None
    retry_after_s: float | None = None
    is_unreachable: bool = False

    @property
    def may_be_overload(self) -> bool:
        """Whether the server reports that it is overloaded, or is unavailable: the request is sound."""
        return self.kind is FailureKind.BUSY or self.status == HTTPStatus.SERVICE_UNAVAILABLE

    @property
    def nobody_answers(self) -> bool:
        """Whether no server, or a busy one, is behind the failure, so the prompt is not at fault."""
        is_away = self.kind is FailureKind.ABSENT and self.status != HTTPStatus.INTERNAL_SERVER_ERROR
        return is_away or self.kind is FailureKind.BUSY


def explain_failure(error: BaseException) -> Failure:
    """Return what an error that a client raised for a request means."""
    cause = _cause(error)
    if isinstance(cause, BrokenOffError):
        return Failure(str(cause), FailureKind.UNUSABLE, "see the server's log", None, ended=cause.word)
    bad_reply = _find_bad_reply(cause)
    description = bad_reply.description if bad_reply else describe_failure(error)
    status = http_status(cause)
    kind, remedy = _explain_status(status)
    if kind is not FailureKind.BUSY and is_overload(cause):
        kind, remedy = _explain_status(HTTPStatus.TOO_MANY_REQUESTS)
    timed_out = isinstance(error, TimeoutError)
    if kind is not FailureKind.UNUSABLE:
        return Failure(
            description,
            kind,
            remedy,
            status,
            timed_out,
            retry_after_s=seconds_asked(_header(cause, "Retry-After"), _header(cause, "Date")),
        )
    root = _root(cause)
    if isinstance(root, ssl.SSLError) and root.reason in NO_TLS:
        return Failure(description, FailureKind.REFUSED, "write http:// in {openai.base_url}", None)
    if getattr(root, "errno", None) in (errno.EMFILE, errno.ENFILE):
        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        description = f"{description}: this process may have {most} files and connections open at a time (ulimit -n)"
        return Failure(description, FailureKind.BUSY, "raise the limit with ulimit -n", None)
    error_name = type(cause).__name__
    # Errors of clients for a server that cannot be reached; errors of the system are OSError.
    no_connection = error_name in ("APIConnectionError", "APITimeoutError", "ServerDisconnectedError")
    if status is None and (no_connection or isinstance(cause, (OSError, TimeoutError))):
        is_unreachable = isinstance(root, ConnectionRefusedError) or error_name.startswith("ClientConnector")
        return Failure(
            description,
            FailureKind.ABSENT,
            "start one, or correct {openai.base_url}",
            None,
            timed_out,
            is_unreachable=is_unreachable,
        )
    if bad_reply is not None and bad_reply.remedy is not None:
        remedy = bad_reply.remedy
    return Failure(description, FailureKind.UNUSABLE, remedy, status, timed_out)


class BrokenOffError(Exception):
    """The server broke a completion off: the completion is not the model's.

    `word` is the server's word for the ending, `said` what the server said beside it. `why` takes the place of both in
    the message if the reply itself shows that it is not whole; `word` then only counts such replies.
    """

    def __init__(self, word: str, said: object = None, *, why: str = "") -> None:
        message = "" if not said else f": {visible(str(said), 200)}"
        ended = f"the server broke a completion off, with the finish reason {visible(word, 60)!r}{message}"
        super().__init__(why or ended)
        self.word = word


class ErrorReply(Exception):
    """A reply of status 200 holds an error, as those of some proxies do, or a message that nobody can read.

    `names` are the error's code, type and status. A code from 500 to 599 counts as the status of the reply.
    """

    def __init__(self, said: str, names: Sequence[str] = ()) -> None:
        super().__init__(said)
        self.names = names
        self.status = next((int(name) for name in names if re.fullmatch(r"5\d\d", name)), None)


def error_of_reply(error: object) -> ErrorReply:
    """Return the exception for an error in a reply: its message, code and type."""
    return ErrorReply(message_of(error), names_of_error(error))


def overload_in_choice(error: object) -> ErrorReply | None:
    """Return the exception if a choice holds an error by which the server reports that it is overloaded.

    The server has sent a reply, so 503 does not mean that its model is loading.
    """
    reply = error_of_reply(error) if error else None
    if reply is None or not (is_overload(reply) or reply.status == HTTPStatus.SERVICE_UNAVAILABLE):
        return None
    return reply


def message_of(error: object) -> str:
    """Return what an error in a reply says."""
    return str(_field(error, "message") or error)


def names_of_error(error: object) -> list[str]:
    """Return the code, type and status of an error in a reply; a bare text names itself."""
    if isinstance(error, str):
        return [error]
    return [str(value) for name in ("code", "type", "status") if (value := _field(error, name)) is not None]


def _field(error: object, name: str) -> object:
    return error.get(name) if isinstance(error, Mapping) else getattr(error, name, None)


ERROR_BYTES = 2**13
"""A reply with an error in place of completions has fewer bytes."""


def error_in_place(body: bytes) -> ErrorReply | None:
    """Return the error that a reply holds in place of completions; None for any other reply."""
    try:
        error = json.loads(body)["error"]
    except (ValueError, KeyError, TypeError):
        return None
    return error_of_reply(error) if error else None


MOST_TEXT = 4096
"""Characters of an error that are searched for what the server refuses."""
NO_MESSAGES = frozenset({"code", "type", "status", "object", "id", "request_id", "url", "input", "body", "request"})
"""Fields of an error that contain no message: names and numbers of the error, or parts of the request."""


def all_messages(body: bytes) -> str:
    """Return every message in the body of an error, of any shape, joined by spaces; MOST_TEXT characters at most.

    Names of fields are included, since validators of requests give the name of a refused parameter as a field. JSON
    within a text, as gateways pass it on, is read too.
    """
    text = body.decode(errors="replace")
    return " ".join(_messages_in(text))[:MOST_TEXT]


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
"""Statuses and codes by which servers report that they are overloaded; 529 is Anthropic's."""
OVERLOAD_WORDS = re.compile(
    r"rate.?limit|too.?many.?(concurrent.?)?requests|over.?load|throttl|resource.?exhausted|slow.?down"
    r"|\b(server|engine|model|system).?(is.?)?busy|queue.?(is.?)?full",
    re.IGNORECASE,
)
"""The same in the code, the type or the message of an error."""


def is_overload(cause: BaseException) -> bool:
    """Return whether a server reports that it is overloaded: by a status, or by the error in a reply of any status.

    A quota that is used up is no overload, since waiting does not help.
    """
    names = [*getattr(cause, "names", ()), *names_of_error(getattr(cause, "body", None))]  # OpenAI's errors have a body
    if http_status(cause) in OVERLOAD_CODES or any(str(code) in names for code in OVERLOAD_CODES):
        return True
    if isinstance(cause, ErrorReply):
        names.append(str(cause))
    return any(OVERLOAD_WORDS.search(name) for name in names)


# ---------------------------------------------------------------------------- errors in words


@dataclass(frozen=True)
class _BadReply:
    """A reply that the client could not read. Without a `remedy`, the status tells what a user can do."""

    description: str
    remedy: str | None = None


NO_WHOLE_JSON = _BadReply("its reply is incomplete JSON", "see the server's log, or check {openai.base_url}")
NO_JSON = _BadReply("its reply is not JSON", "this may be a web page: check {openai.base_url}")
NO_COMPLETION = _BadReply("its reply contains no completion")
NO_HTTP = "see the server's log, and check proxies in front of the server"
"""The remedy for a reply that is no HTTP."""


def _find_bad_reply(cause: BaseException) -> _BadReply | None:
    """Return what is wrong with a reply that the client could not read; None for any other failure.

    Clients of vLLM and SGLang raise ContentTypeError for a web page; other clients take the page's text for the reply.
    """
    if isinstance(cause, json.JSONDecodeError):
        return NO_WHOLE_JSON
    if _is_unreadable(cause):
        return _BadReply(f"its reply is not valid HTTP ({_first_line(cause)})", NO_HTTP)
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
    wait = _header(cause, "Retry-After")
    asks = ""
    if wait:  # seconds, or a date
        asks = f", and asks to wait {wait} s" if str(wait).strip().isdecimal() else f", and asks to wait until {wait}"
    phrase = f" ({HTTPStatus(status).phrase})" if status in set(HTTPStatus) else ""
    return f"it answers with status {status}{phrase}{asks}: {describe_failure(error)}"


def _header(cause: BaseException, name: str) -> str | None:
    """Return a header of an error's reply; None without one."""
    headers = getattr(getattr(cause, "response", None), "headers", None) or getattr(cause, "headers", None) or {}
    return headers.get(name) or headers.get(name.lower())


def seconds_asked(retry_after: str | None, sent_at: str | None = None) -> float | None:
    """Return how many seconds a header Retry-After asks to wait, by number or date; None without one.

    `sent_at` is the header Date of the reply, by the server's clock, which may differ from the clock of this machine.
    The result is at most LONGEST_WAIT_S.
    """
    if retry_after is None:
        return None
    try:
        seconds = float(retry_after)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(retry_after).timestamp() - _read_date(sent_at)
        except (ValueError, OverflowError):
            return None
    return min(max(0.0, seconds), LONGEST_WAIT_S) if math.isfinite(seconds) else None


def _read_date(date: str | None) -> float:
    """Return the time of a header Date; the time of this machine's clock for a missing or unreadable date."""
    try:
        return time.time() if date is None else parsedate_to_datetime(date).timestamp()
    except (ValueError, OverflowError):
        return time.time()


def http_status(error: BaseException) -> Any:
    """Return the HTTP status that an error of OpenAI's client or of aiohttp carries, else None."""
    if _is_unreadable(error):
        return None
    return getattr(error, "status_code", None) or getattr(error, "status", None)


def _is_unreadable(error: BaseException) -> bool:
    """Return True for a reply that aiohttp cannot parse. aiohttp's error then has a status that no server sent."""
    return any(each.__name__ == "HttpProcessingError" for each in type(error.__cause__).__mro__)


def is_quota(error: BaseException) -> bool:
    """Return whether a hosted server refuses because the quota is used up; waiting does not help then."""
    return any(word in str(_cause(error)) for word in ("insufficient_quota", "exceeded your current quota"))


def _explain_status(status: int | None) -> tuple[FailureKind, str]:
    """Return what a reply's HTTP status means, and what a user can do; `status` is None without a reply."""
    match status:
        case 400 | 413 | 422:
            limit = "that {env.max_token_length} is not above the server's context"
            return FailureKind.REFUSED, f"check {{openai.model_name}}, and {limit}"
        case 401 | 403:
            return FailureKind.REFUSED, "check {openai.api_key}, or the variable OPENAI_API_KEY"
        case 404:
            return FailureKind.REFUSED, "check {openai.model_name} and {openai.base_url}"
        case 429:
            return FailureKind.BUSY, "wait, or lower {env.max_num_workers}"
        case 500:
            return FailureKind.ABSENT, "see the server's log"
        case 502 | 504:
            return FailureKind.ABSENT, "start the server behind {openai.base_url}"
        case 503:
            return FailureKind.ABSENT, "wait until the server has loaded its model"
        case int() if status >= 500:  # 529 of an overloaded provider, 520 to 524 of a proxy before one
            return FailureKind.ABSENT, "wait, or see the server's log"
        case _:
            return FailureKind.UNUSABLE, "check {openai.model_name} and {openai.api_key}"


def describe_failure(error: BaseException) -> str:
    """Return the failure in one line; for tenacity's RetryError, the failure of the last attempt."""
    cause = _cause(error)
    if type(cause).__name__ in CONNECTION_ERRORS and (described := _describe_connection(cause)) is not None:
        return described
    return f"{type(cause).__name__}: {_first_line(cause)}".rstrip(": ")[:300]


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), "").rstrip(": ")


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
        return describe_connection(root)
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


# ---------------------------------------------------------------------------- what follows from a failure

MAX_REQUEST_FAILURES = 3
"""How often the request of a group may fail while other requests succeed."""


@dataclass(frozen=True)
class History:
    """The failures of one group's requests, and the successes of all groups' requests beside them.

    - `failures`: failed requests of this group.
    - `failures_beside_successes`: failures while requests of other groups succeeded. The request is sound, and the
      failure not counted, if the server is busy (or says 503 although it has answered), or no connection was made.
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
        if others_succeeded and not failure.may_be_overload and not failure.is_unreachable:
            beside_successes += 1
        return History(self.failures + 1, beside_successes, successes, others_succeeded, outage_s, pause_s)


class RequestOutage(OutageLog):
    """The outage that the requests of all groups notice together, and when no server was last there."""

    _absent_at = -math.inf

    def note_absence(self) -> None:
        """Notice that a request was lost with its server."""
        self._absent_at = self._clock()

    def counted_s(self, failure: Failure) -> float:
        """Return how long requests have failed, as far as the time counts for a failure.

        The time without a server does not count against a request that fails once a server answers again.
        """
        if failure.nobody_answers:
            self.note_absence()
            return self.duration_s
        return min(self.duration_s, self._clock() - self._absent_at)


def decide(failure: Failure, history: History, limits: Timeouts) -> float | ServerError | TimeoutError:
    """Return the seconds to wait before a group's request is sent again, or the error with which the group is given up.

    `history` contains the failure, the last one. In this order:

    1. A time-out while other requests succeed: give up. The server works, and this prompt takes too long.
    2. A refusal: end the run with a RefusedError if no request has ever succeeded, that of the start included, for all
       other requests will be refused too; else give up. A run that waits without limit (`serve`) is not ended: the
       server may be exchanged.
    3. MAX_REQUEST_FAILURES failures while other requests succeed: give up. The server works, and this prompt is at
       fault.
    4. As many failures as `limits.tries`: give up.
    5. Requests of all groups fail for longer than `limits.outage_s`, or `limits.away_s` while no server answers: give
       up. Where the server says how long to wait, the limit is that of a reply if that is longer.
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
    if failure.nobody_answers and limits.away_s is not None:
        limit_s = max(limit_s, limits.away_s)
    if failure.retry_after_s is not None:
        pause_s, limit_s = failure.retry_after_s, max(limit_s, limits.reply_s or math.inf)
    if history.outage_s + pause_s > limit_s:
        if failure.retry_after_s is not None and pause_s > limit_s:
            return ServerError(f"the server asks to wait {pause_s:.0f} s, over the limit of {limit_s:g} s: {said}")
        return ServerError(f"requests fail for {limit_s:g} s: {said}")
    return pause_s
