"""One inference server: its reply format, the requests to it, and whether it can be reached.

The module contains the options of requests (`RequestOptions`), the check of how completions ended (`Endings`),
the detection of stopped servers (`Reachability`), and the `Server` itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import urlsplit

import aiohttp

from ..records import Ending, Prompt, Sampling
from ..runtime.concurrency import cancel_all
from ..runtime.retries import OutageLog
from ..runtime.text import describe_connection, printable
from .adaptive_limit import AdaptiveLimit
from .addresses import (
    HEALTH_S,
    PROBE_S,
    StatusError,
    find_context_length,
    find_format,
    goes_through_proxy,
    max_connections,
    public_url,
    try_connection,
)
from .completer import ServerSettings, Slots
from .events import EVENT_STREAM
from .failures import ERROR_BYTES, BrokenOffError, FailureKind, ServerAwayError, explain_failure
from .formats import REPLY_FORMATS, format_of_kind
from .formats.choices import ANSWER_END, KEEPS_STOP, KNOWN_FINISH_REASONS, StopText, read_json, request_each
from .formats.reply_format import (
    NO_FILTERS,
    ReplyError,
    ReplyFormat,
    ReplyKind,
    SentRequest,
    ServedCompletion,
    ServerReply,
    TextCompletion,
    TokenCompletion,
)
from .formats.tokens import TokenFormat
from .refusals import Attempts, Refusals

logger = logging.getLogger(__name__)
T = TypeVar("T")

# ---------------------------------------------------------------------------- options of requests


@dataclass(frozen=True)
class RequestOptions:
    """Options of all requests, from the settings.

    - `stop_after_answer`: end generation with the first closing answer tag. If None, only text completions end there.
    - `template_options`: options of the chat template, for servers that apply it.
    - `reasoning_effort`: for chat requests; None to use the server's default.
    - `keep_special_tokens`: request special tokens in texts, because some models mark thinking with them.
    """

    stop_after_answer: bool | None = None
    template_options: Mapping[str, object] = field(default_factory=dict)
    reasoning_effort: str | None = None
    keep_special_tokens: bool = False

    def stops(self, kind: ReplyKind) -> bool:
        """Return True if requests for replies of `kind` have the closing answer tag as a stop string."""
        return kind is ReplyKind.TEXT if self.stop_after_answer is None else self.stop_after_answer

    def of(self, kind: ReplyKind) -> dict[str, object]:
        """Return the parameters that these options add to requests for replies of `kind`."""
        parameters: dict[str, object] = {}
        if self.stops(kind):
            parameters["stop"] = [ANSWER_END]
            if kind is not ReplyKind.TOKENS:  # replies with tokens contain the stop string anyway
                parameters |= KEEPS_STOP
        if kind is ReplyKind.TEXT and self.keep_special_tokens:
            parameters["skip_special_tokens"] = False
        if kind is ReplyKind.CHAT and self.template_options:
            parameters["chat_template_kwargs"] = dict(self.template_options)
        if kind is ReplyKind.CHAT and self.reasoning_effort is not None:
            parameters["reasoning_effort"] = self.reasoning_effort
        return parameters


# ---------------------------------------------------------------------------- how completions ended

MAX_FINISH_REASONS = 32
"""Maximum number of finish reasons to count separately. Gemini has 17, but a faulty server could send thousands."""
NO_FINISH_REASON = "null"
"""The name, in messages and counts, for a missing finish reason."""


class Endings:
    """Decides which completions the server broke off. Logs each unknown finish reason once."""

    def __init__(self) -> None:
        self._has_finish_reasons = False
        """Whether any completion had a finish reason. Some servers never send a finish reason."""
        self._unknown: set[str] = set()

    def broken_off(self, completion: ServedCompletion) -> BrokenOffError | None:
        """Return the error for a completion that the server broke off; None for any other completion."""
        finish_reason = completion.finish_reason
        detail = completion.error if isinstance(completion, TextCompletion) else ""
        if not finish_reason:
            is_broken_off = is_empty(completion) or self._has_finish_reasons
            return BrokenOffError(NO_FINISH_REASON, detail) if is_broken_off else None
        self._has_finish_reasons = True
        if Ending.of(finish_reason) is not Ending.BROKEN_OFF:
            return None
        lower = finish_reason.lower()
        is_new = lower not in KNOWN_FINISH_REASONS and lower not in self._unknown
        if is_new and len(self._unknown) < MAX_FINISH_REASONS:
            self._unknown.add(lower)
            logger.warning(
                "a server ended a completion with the unknown finish reason %r; such completions are discarded "
                "and requested again",
                printable(finish_reason, 60),
            )
        return BrokenOffError(finish_reason, detail)


# ---------------------------------------------------------------------------- detection of stopped servers


REACH_POLL_S = 1.0
"""Seconds between two attempts to connect while requests wait. Atropos checks its servers equally often."""
CONNECT_S = 2.0
"""Time limit of an attempt to connect. A server on the same network accepts within milliseconds."""
AWAY_S = 10.0
"""Requests are ended after the server has been unreachable for this many seconds."""


class Reachability:
    """Ends requests to a server that has stopped.

    After a restart, old connections may stay open to a process that never replies. So this class tries to connect while
    requests wait. Requests count as lost if connections are first refused and later accepted, or if attempts to connect
    fail for AWAY_S. When requests are lost, `disconnect` closes all connections.

    Only servers at plain http addresses without a proxy are checked.
    """

    def __init__(self, url: str, disconnect: Callable[[], Awaitable[None]] | None = None) -> None:
        self._url = url
        self._disconnect = disconnect
        self._log = OutageLog(logger, reminds=False)  # requests that wait for the server also log the outage
        self._away_since: float | None = None
        self._was_refused = False
        self._lost_before = -math.inf
        """Requests that were sent before this time will get no reply."""
        self._tried_at = -math.inf

    @cached_property
    def _is_watched(self) -> bool:
        # With TLS or a proxy, a gateway may accept connections for a dead server.
        return self._url.startswith("http://") and not goes_through_proxy(self._url)

    async def outlast(self, request: Awaitable[T]) -> T:
        """Return the result of the request. Raises ServerAwayError if the server becomes unreachable first."""
        sent = time.monotonic()
        work = asyncio.ensure_future(request)
        try:
            while not (await asyncio.wait([work], timeout=REACH_POLL_S))[0]:
                await self.check()
                if sent < self._lost_before:
                    break
            if sent < self._lost_before and not (work.done() and work.exception() is None):
                raise ServerAwayError(f"server {public_url(self._url)} became unreachable before it replied")
            reply = work.result()
        finally:
            if not work.done():
                await cancel_all([work])
        if self._away_since is not None and sent > self._away_since:
            await self._note_back()
        return reply

    async def check(self) -> None:
        """Try to connect, unless the last attempt was less than REACH_POLL_S ago."""
        now = time.monotonic()
        if now - self._tried_at < REACH_POLL_S or not self._is_watched:
            return
        self._tried_at = now
        error = await try_connection(self._url, CONNECT_S)
        if error is not None:
            self._away_since = now if self._away_since is None else self._away_since
            # The machine refuses or resets the connection: no process listens on the port.
            self._was_refused |= isinstance(error, ConnectionError)
            self._log.note(f"server {public_url(self._url)} cannot be reached ({describe_connection(error)})")
            if now - max(self._away_since, self._lost_before) >= AWAY_S:
                is_first_loss = self._lost_before < self._away_since
                await self._lose_requests(disconnect=is_first_loss)
        elif self._away_since is not None:
            await self._note_back()

    @property
    def is_away(self) -> bool:
        """Whether the last attempt to connect failed."""
        return self._away_since is not None

    async def check_if_away(self) -> None:
        """If the server was unreachable, check whether it can be reached again."""
        if self._away_since is not None:
            await self.check()

    async def _note_back(self) -> None:
        was_refused, self._was_refused = self._was_refused, False
        self._away_since = None
        self._log.over(f"server {public_url(self._url)} is back")
        if was_refused:
            await self._lose_requests(disconnect=True)

    async def _lose_requests(self, *, disconnect: bool) -> None:
        self._lost_before = time.monotonic()
        if disconnect and self._disconnect is not None:
            await self._disconnect()


# ---------------------------------------------------------------------------- the server


class Server:
    """One inference server.

    Args:
        settings: The server's settings, including the key and the headers that `read_secrets` returned.
        formats: The first format for which the server generates a token is used. A single format is not tested.
        slots: Limits of the requests in flight, by split ("train", "eval").
        on_reply: Called with the split and the duration in seconds, after each successful request.
    """

    def __init__(
        self,
        settings: ServerSettings,
        *,
        formats: Sequence[ReplyFormat] = REPLY_FORMATS,
        slots: Mapping[str, Slots] | None = None,
        on_reply: Callable[[str, float], None] = lambda split, seconds: None,
    ) -> None:
        self.settings = settings
        self._model = settings.model_name or ""
        self.formats = formats
        self.format = formats[0] if len(formats) == 1 else None
        self._slots = slots or {}
        self._on_reply = on_reply
        self._under_way = 0
        self._refusals = Refusals(settings.stream) if settings.stream == "always" else None
        """Changes requests that the server refuses. None until needed."""
        self._limit: AdaptiveLimit | None = None
        """Limits the rate of requests; None until the server refuses a request because it is overloaded."""
        self._sent = 0
        self._stop_text = StopText()
        self._reachability = Reachability(settings.base_url, self._connect_anew)
        self._is_absent = False
        self._has_answered = False
        self._http: aiohttp.ClientSession | None = None

    # ---- the description of the server

    @property
    def address(self) -> str:
        return public_url(self.settings.base_url)

    @property
    def url(self) -> str:
        return self.settings.base_url

    def place(self, reply_format: ReplyFormat) -> str:
        return f"POST {urlsplit(self._url(reply_format)).path} {reply_format.note}".rstrip()

    @property
    def is_away(self) -> bool:
        """Whether the server could not be reached, or was not ready, at the last request or check."""
        return self._is_absent or self._reachability.is_away

    def load(self, split: str) -> float:
        """Return the number of requests in flight, divided by the limit if there is a limit."""
        slots = self._slots.get(split)
        return self._under_way / (1 if slots is None else slots.max_val)

    # ---- completions

    async def complete(
        self,
        prompt: Prompt,
        n: int,
        sampling: Sampling,
        options: RequestOptions,
        *,
        kind: ReplyKind | None = None,
        reply_s: float | None = None,
    ) -> ServerReply:
        """Request `n` completions. Return those that arrived; if none arrived, raise the first error.

        Args:
            kind: Kind of reply; None for the kind detected for this server.
            reply_s: Time limit of one request in seconds, from when it is sent.

        Raises the errors of `ask`.
        """
        reply_format = self.format or await find_format(self, prompt, options)
        if kind not in (None, reply_format.kind):
            reply_format = format_of_kind(kind)
        parameters: dict[str, object] = {
            "max_tokens": sampling.completion_budget(prompt),
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            **options.of(reply_format.kind),
        }

        async def request(parameters: Mapping[str, object]) -> ServerReply:
            self._under_way += 1
            try:
                async with self._slots.get(sampling.split) or contextlib.nullcontext():
                    started = time.monotonic()
                    reply = await self.ask(reply_format, prompt, parameters, reply_s=reply_s)
                    self._on_reply(sampling.split, time.monotonic() - started)
                    return reply
            finally:
                self._under_way -= 1

        if reply_format.kind is ReplyKind.TOKENS:
            filters = NO_FILTERS if sampling.split == "train" else {}
            return await request({"n": n, **parameters, **filters})
        if not options.stops(reply_format.kind):
            return await request_each(n, request, parameters)
        return await self._stop_text.request_each(n, request, parameters)

    async def ask(
        self,
        reply_format: ReplyFormat,
        prompt: Prompt,
        parameters: Mapping[str, object],
        *,
        reply_s: float | None = None,
        at_once: bool = False,
    ) -> ServerReply:
        """Send a request and return the reply. If the server refuses a part of the request, send a changed request.

        Requests for token replies are never changed. If `at_once` is True, ignore the server's rate limit.

        Raises:
            StatusError: The server answers with a status of 300 or more.
            ServerAwayError: The server became unreachable before it replied.
            TimeoutError: The reply took longer than `reply_s`.
            other errors: ReplyError, ErrorReply, errors of aiohttp, and any error that an unexpected reply causes.
        """
        request = reply_format.make_request(prompt, self._model, parameters)
        if reply_format.kind is ReplyKind.TOKENS:
            reply = await self._send(reply_format, request, reply_s, at_once=at_once)
            return replace(reply, requests=[SentRequest(parameters, parameters, reply.model)])
        attempts = Attempts(len(prompt.tokens) or prompt.estimated_tokens)
        while True:
            adapted = request if self._refusals is None else self._refusals.adapt(request, attempts)
            try:
                reply = await self._send(reply_format, adapted, reply_s, at_once=at_once)
                break
            except Exception as error:
                self._refusals = self._refusals or Refusals(self.settings.stream)
                self._refusals.learn(error, adapted, attempts)
        if self._refusals is not None:
            self._refusals.note_success(adapted)
        return replace(reply, requests=[SentRequest(request, adapted, reply.model)])

    async def _send(
        self, reply_format: ReplyFormat, request: Mapping[str, object], reply_s: float | None, *, at_once: bool
    ) -> ServerReply:
        self._sent += 1
        sent_s = time.monotonic() if at_once or self._limit is None else await self._limit.wait()
        try:
            async with asyncio.timeout(reply_s):
                reply = await self._reachability.outlast(self._post(reply_format, request))
        except Exception as error:
            failure = explain_failure(error)
            # After the first answer, a 503 cannot mean that the model is loading, so the server is overloaded.
            is_late = failure.status == HTTPStatus.SERVICE_UNAVAILABLE and self._has_answered
            if not at_once and (failure.kind is FailureKind.BUSY or is_late):
                self._limit = self._limit or AdaptiveLimit(self._sent)
                is_limit = failure.kind is FailureKind.BUSY
                self._limit.refused(sent_s, failure.retry_after_s, is_limit=is_limit)
            if failure.kind is FailureKind.ABSENT and not failure.timed_out:
                self._is_absent = True
            raise
        self._is_absent = False
        self._has_answered = True
        if self._limit is not None and (rate := self._limit.replied()) is not None:
            logger.info("sending %.2g requests per second, as many as the server at %s accepts", rate, self.address)
        return reply

    async def _post(self, reply_format: ReplyFormat, request: Mapping[str, object]) -> ServerReply:
        # Requests for tokens take long and use new connections, because servers close idle connections at any time.
        headers = {"Connection": "close"} if reply_format.kind is ReplyKind.TOKENS else {}
        url = self._url(reply_format)
        async with self._connections().post(url, json=request, headers=headers, allow_redirects=False) as response:
            await _check_response(response)
            return await reply_format.read_reply(response)

    def _url(self, reply_format: ReplyFormat) -> str:
        """Return the URL to which requests in a format are sent."""
        return self._page(reply_format.path, below_v1=reply_format.below_v1)

    def _page(self, path: str, *, below_v1: bool = True) -> str:
        """Return the URL of a path on the server, with the query string of the server's address.

        If `below_v1` is False, the path replaces the `/v1` at the end of the address.
        """
        parts = urlsplit(self.settings.base_url)
        before = parts.path.rstrip("/")
        return parts._replace(path=f"{before if below_v1 else before.removesuffix('/v1')}{path}", fragment="").geturl()

    # ---- information that the server returns

    async def models(self) -> list[Any]:
        """Return the server's list of models. May raise any error, because not every server has a list."""
        return list(read_json(await self._fetch("GET", self._page("/models"))).data)

    async def context_length(self) -> int | None:
        """Return the model's context length in tokens; None if the server does not report it."""
        try:
            models = await self.models()
        except Exception as error:
            logger.debug("%s lists no models: %r", self.address, error)
            return None
        return find_context_length(models, self._model)

    async def read_text(self, text: str) -> list[int] | int | None:
        """Return a text's tokens, or only their number; None if the server sends neither.

        Raises the errors of `ask`.
        """
        reply_format = self.format
        if not isinstance(reply_format, TokenFormat):
            return None
        request = reply_format.request_for_text(text, self._model)
        return reply_format.prompt_of(await self._fetch("POST", self._url(reply_format), request))

    async def _fetch(self, method: str, url: str, body: object = None) -> bytes:
        request = self._connections().request(method, url, json=body, allow_redirects=False)
        async with asyncio.timeout(PROBE_S), request as response:
            await _check_response(response)
            return await response.read()

    # ---- at the start

    async def gives_token(self, reply_format: ReplyFormat, prompt: Prompt, options: RequestOptions) -> bool:
        """Request one token, ignoring the rate limit. Return True if the reply has a token.

        Raises BrokenOffError and the errors of `ask`.
        """
        parameters: dict[str, object] = {"max_tokens": 1, **options.of(reply_format.kind)}
        if reply_format.kind is ReplyKind.TOKENS:
            parameters |= {"n": 1, "temperature": 1.0, **NO_FILTERS}
        reply = await self.ask(reply_format, prompt, parameters, at_once=True)
        if reply_format.kind is ReplyKind.TOKENS:
            return not all(map(is_empty, reply.completions))
        for one in reply.completions:
            if broken_off := Endings().broken_off(one):
                raise broken_off
        return True

    # ---- connections

    async def check_if_away(self) -> None:
        """If the server was unreachable, check whether it can be reached again."""
        await self._reachability.check_if_away()
        if self._is_absent and not self._reachability.is_away:
            url = self._page("/health", below_v1=False)
            with contextlib.suppress(aiohttp.ClientError, OSError):
                async with asyncio.timeout(HEALTH_S), self._connections().get(url, allow_redirects=False) as response:
                    self._is_absent = response.status >= 500  # a 404 shows that the server is there

    def _connections(self) -> aiohttp.ClientSession:
        if self._http is None:
            self._http = self._new_connections()
        return self._http

    def _new_connections(self) -> aiohttp.ClientSession:
        key = self.settings.api_key
        headers = {**({"Authorization": f"Bearer {key}"} if key else {}), **self.settings.headers}
        timeout = aiohttp.ClientTimeout(total=self.settings.timeout)
        # The callers limit the requests in flight. Proxies come from environment variables.
        connector = aiohttp.TCPConnector(limit=max_connections())
        proxied = goes_through_proxy(self.settings.base_url)
        return aiohttp.ClientSession(headers=headers, timeout=timeout, connector=connector, trust_env=proxied)

    async def _connect_anew(self) -> None:
        """Close all connections. The next request opens a new one."""
        former, self._http = self._http, None
        if former is not None:
            await former.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._connect_anew()


async def _check_response(response: aiohttp.ClientResponse) -> None:
    """Raise StatusError for a redirect or a refusal, and ReplyError for a reply that is neither JSON nor events.

    Redirects are not followed, because the headers may contain keys that the other server must not get.
    """
    if response.status >= 300:
        body = b""
        while len(body) < ERROR_BYTES and (part := await response.content.read(ERROR_BYTES - len(body))):
            body += part
        raise StatusError(response.status, body, response.headers)
    if response.content_type != EVENT_STREAM and "json" not in response.content_type:
        raise ReplyError(f"the reply is not JSON, but {printable(response.content_type, 60)}")


def is_empty(completion: ServedCompletion) -> bool:
    """Return True if a TokenCompletion has no tokens, or a TextCompletion has neither text nor thinking."""
    if isinstance(completion, TokenCompletion):
        return len(completion.tokens) == 0
    return not completion.text and not completion.thinking


def explain_ending(completion: ServedCompletion, endings: Endings) -> BrokenOffError | None:
    """Return an error for a completion that the server broke off, or that has 0 tokens and is no refusal; else None."""
    if (error := endings.broken_off(completion)) is not None:
        return error
    tokens = completion.token_count if isinstance(completion, TextCompletion) else 0
    if is_empty(completion) and tokens == 0 and Ending.of(completion.finish_reason) is not Ending.REFUSED:
        return BrokenOffError("no_tokens", why="the server returned a completion without text and with 0 tokens")
    return None
