"""Servers at startup: URLs, keys and headers, the first requests, and waiting for a server.

The first request to a server says that the server works, is absent, or will never work.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import re
import resource
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from pydantic import AfterValidator, BeforeValidator

from ..errors import ConfigError, ServerError
from ..records import Prompt
from ..runtime.concurrency import cancel_all
from ..runtime.retries import OutageLog, pauses
from ..settings.given import parse_mapping
from .failures import (
    Failure,
    FailureKind,
    all_messages,
    describe_failure,
    describe_status,
    error_in_place,
    explain_failure,
    is_quota,
)
from .formats.choices import read_token_number
from .formats.reply_format import ReplyKind

if TYPE_CHECKING:
    import aiohttp

    from .completer import Completer
    from .formats.reply_format import ReplyFormat
    from .server import RequestOptions, Server

logger = logging.getLogger(__name__)

PATIENCE_S = 30.0
"""Seconds to wait for a server by default: a user waits for the command."""
AWAY_LIMIT_S = 600.0
"""Least seconds that `process` and `evaluate` wait for a server that has answered before: a restart takes minutes."""
PROBE_S = 30.0
"""How long a server may take for its first token, and for its list of models, where nothing else limits it."""
HEALTH_S = 2.0
"""How long a server that failed may take to answer whether it is there again."""
OTHERS_S = 2.0
"""How much longer the check waits for the other servers once a server has answered."""
LEAST_WAIT_S = 1.0
"""How long a connection or a probe may take however little time is left.

A server on the same machine answers within milliseconds.
"""
SPARE_FILES = 64
"""File descriptors that are left to workers that start, and to files: an evaluation has about 20 of them."""
NO_KEY = "x"
"""The key for servers that need no key; OpenAI's client refuses to be made without a key."""


def max_connections() -> int:
    """Return how many connections this process can open besides its files; further requests wait for one."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(1, most - len(os.listdir("/dev/fd")) - SPARE_FILES)


def check_url(setting: str, url: str | None, *, remedy: str | None = None) -> None:
    """Raise ConfigError unless `url` is empty or the URL of one server; `setting` is the setting that holds the URL.

    `remedy` says how several servers are named.
    """
    if not url:
        return
    if len(url.split()) != 1 or "," in url:
        raise ConfigError("must be one URL", setting=setting, got=url, remedy=remedy)
    try:
        parts = urlsplit(url)
    except ValueError as error:  # brackets in the name of the server
        raise ConfigError(f"must be a URL ({error})", setting=setting, got=url) from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError("must begin with http:// or https:// and the server's name", setting=setting, got=url)
    try:
        _ = parts.port
    except ValueError as error:
        raise ConfigError("must have a port from 0 to 65535", setting=setting, got=url) from error


def public_url(url: str) -> str:
    """Return a URL as messages and results show it: without user, password and query, which may hold keys."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


def check_headers(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Return the names and values of headers; raises ValueError for what no request can have."""
    for name, value in headers.items():
        if not HEADER_NAME.fullmatch(name):
            raise ValueError(f"has the name {name!r}, which no header can have")
        if not value.isprintable():
            raise ValueError(f"has a value for {name} with a line end or another character that no header can have")
    return headers


Headers = Annotated[dict[str, str], BeforeValidator(parse_mapping), AfterValidator(check_headers)]
"""Setting: headers by name, as a mapping or as `name=value, name=value`."""


LOOPBACK = ("localhost", "127.0.0.1", "::1")


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine itself."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def goes_through_proxy(url: str) -> bool:
    """Return whether the environment names a proxy for a URL. This machine is always asked directly."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    return bool(getproxies()) and not is_loopback(host) and not proxy_bypass(host)


def ask_loopback_directly() -> None:
    """Have clients that read the environment, such as OpenAI's, ask this machine without a proxy.

    Changes the variables `no_proxy` and `NO_PROXY` of this process where the environment names a proxy.
    """
    if not getproxies():
        return
    for name in ("no_proxy", "NO_PROXY"):
        hosts = [host for host in os.environ.get(name, "").split(",") if host]
        os.environ[name] = ",".join([*hosts, *(host for host in LOOPBACK if host not in hosts)])


def read_key(key: str, *, for_chat: bool, headers: Mapping[str, str]) -> str:
    """Return a server's key, `$NAME` from that variable; NO_KEY for none, and "" for none beside `headers`.

    With `for_chat`, no key means the variable OPENAI_API_KEY if it is set, as for other clients of chat servers. Beside
    headers of the user, which may hold another server's key, that variable is not sent. Raises ConfigError if the
    variable NAME is not set.
    """
    if key in ("", NO_KEY) and headers:
        return ""
    if key.startswith("$"):
        return _read_variable(key, "openai.api_key")
    default = os.environ.get("OPENAI_API_KEY") if for_chat else None
    return (default or NO_KEY) if key in ("", NO_KEY) else key


def read_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers with their values, `$NAME` from that variable. Raises ConfigError if the variable is not set."""
    setting = "openai.headers"
    read = {name: _read_variable(value, setting) if value.startswith("$") else value for name, value in headers.items()}
    try:
        check_headers(read)
    except ValueError as error:
        raise ConfigError(str(error), setting=setting) from error
    return read


def _read_variable(word: str, setting: str) -> str:
    value = os.environ.get(word[1:])
    if not value:
        raise ConfigError(f"the environment variable {word[1:]} is not set", setting=setting)
    return value


def find_secrets(servers: Iterable[object]) -> list[str]:
    """Return keys and headers of servers, passwords in their URLs and keys in usual variables: what no text may show.

    The settings of a server may have an `api_key`, `headers` and a `base_url`.
    """
    variables = ("OPENAI_API_KEY", "WANDB_API_KEY", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
    candidates = [os.environ.get(name) for name in variables]
    for server in servers:
        keys = [str(getattr(server, "api_key", None) or ""), *(getattr(server, "headers", None) or {}).values()]
        candidates += [os.environ.get(key[1:]) if key.startswith("$") else key for key in keys]
        candidates += [urlsplit(getattr(server, "base_url", None) or "").password]
    return sorted({text for text in candidates if text})


class StatusError(Exception):
    """A reply with a status of 400 or more, with the server's message."""

    def __init__(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        super().__init__(status)
        self.status = status
        self.headers = headers
        self._body = body

    def __str__(self) -> str:
        """Return in a line the message of an OpenAI-like error, or the text of the reply."""
        error = error_in_place(self._body)
        text = self._body[:1000].decode(errors="replace") if error is None else str(error)
        said = " ".join(text.split())[:200]
        return said if said.startswith(str(self.status)) else f"{self.status} {said}".strip()

    @property
    def messages(self) -> str:
        """All messages of the reply, as far as they are searched for what the server refuses."""
        return all_messages(self._body)

    @property
    def names(self) -> Sequence[str]:
        """The code and the type of the error."""
        error = error_in_place(self._body)
        return [] if error is None else error.names


@dataclass(frozen=True)
class Absence:
    """Why a server cannot be used now; it may be usable later.

    `answers`: whether the server has answered, and said that it cannot serve now. `retry_after_s`: how long it asks to
    wait; None if it does not say.
    """

    reason: str
    answers: bool = False
    retry_after_s: float | None = None


async def wait_for_server(probe: Callable[[float], Awaitable[Sequence[Absence]]], timeout_s: float) -> None:
    """Call `probe` with the seconds that it may take until it returns nothing; log why this waits.

    `timeout_s` may be infinite. Raises ServerError if the servers are absent for `timeout_s`, and what `probe` raises.
    """
    deadline = time.monotonic() + timeout_s
    outage = OutageLog(logger)
    waits = pauses()
    while absences := await probe(min(PROBE_S, max(LEAST_WAIT_S, deadline - time.monotonic()))):
        reasons = "; ".join(absence.reason for absence in absences)
        if time.monotonic() >= deadline:
            raise no_server(timeout_s, reasons, answers=any(absence.answers for absence in absences))
        outage.note(f"waiting for an inference server ({reasons})")
        asked_s = max(absence.retry_after_s or 0.0 for absence in absences)
        await asyncio.sleep(min(max(next(waits), asked_s), max(0.0, deadline - time.monotonic())))
    outage.over("an inference server answers")


async def try_connection(url: str, timeout_s: float) -> OSError | None:
    """Open and close a connection to the server of a URL; return the error if there is none within `timeout_s`."""
    host, port = _host_and_port(url)
    try:
        async with asyncio.timeout(timeout_s):
            _, writer = await asyncio.open_connection(host, port)
    except OSError as error:  # a TimeoutError is one too
        return error
    writer.close()
    return None


async def answers(connections: aiohttp.ClientSession, url: str) -> bool:
    """Return True if a server answers a GET request within HEALTH_S; a 404 is an answer too."""
    import aiohttp  # commands that only check an address do not need it

    try:
        async with asyncio.timeout(HEALTH_S), connections.get(url) as response:
            return response.status < 500
    except (aiohttp.ClientError, OSError, TimeoutError):
        return False


def no_server(timeout_s: float, problems: str, *, answers: bool) -> ServerError:
    """Return the error for a start without a server; `answers` if a server answers that it cannot serve now."""
    if answers:
        return ServerError(
            f"no inference server gave a completion within {round(timeout_s, 1):g} s ({problems})",
            remedy="try again later, check your plan with the provider, or see the server's log",
        )
    return ServerError(
        f"no inference server answered within {timeout_s:g} s ({problems})",
        remedy="start one, or correct {openai.base_url}",
    )


def _host_and_port(url: str) -> tuple[str | None, int]:
    parts = urlsplit(url)
    return parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)


# ---------------------------------------------------------------------------- first requests

CONTEXT_NAMES = ("max_model_len", "context_length")
"""Fields with the context length in a server's list of models: vLLM's, and that of other servers."""


NO_REPLY = Absence("it accepts requests and does not reply")


def explain_probe(error: Exception, url: str, endpoint: str, *, below_v1: bool = True, hint: str = "") -> Absence:
    """Return why the server is absent.

    Args:
        error: What a request for one token raised.
        url: Address of the server.
        endpoint: What messages call the place that was asked.
        below_v1: Whether the address should end in `/v1`.
        hint: What to do beside a look at the name of the model, if that may be wrong.

    Raises:
        ServerError: The server will never work.
    """
    failure = explain_failure(error)
    if failure.kind is FailureKind.BUSY and is_quota(error):
        raise ServerError(
            f"the inference server at {url} refuses: the quota of this key is used up ({failure.description})",
            remedy="check your plan with the provider, or {openai.api_key}",
        ) from error
    if failure.ended is not None:
        return Absence(failure.description, answers=True)
    if failure.status is not None and failure.kind in (FailureKind.ABSENT, FailureKind.BUSY):
        return Absence(describe_status(error), answers=True, retry_after_s=failure.retry_after_s)
    if failure.kind is FailureKind.ABSENT:
        return NO_REPLY if isinstance(error, TimeoutError) else Absence(failure.description)
    fault = "refuses" if failure.kind is FailureKind.REFUSED and failure.status != 404 else "does not answer"
    remedy = (path_remedy(failure, url) if below_v1 else None) or failure.remedy
    raise ServerError(
        f"the inference server at {url} cannot be used: it {fault} {endpoint} ({failure.description})",
        remedy=f"{remedy}{hint}" if "{openai.model_name}" in remedy else remedy,
    ) from error


def path_remedy(failure: Failure, url: str) -> str | None:
    """Return the remedy for a URL that does not end in `/v1`, where the server has no such page; None otherwise.

    A URL with a query is that of a server with pages of its own.
    """
    parts = urlsplit(url.rstrip("/"))
    if failure.status != 404 or parts.path.endswith("/v1") or parts.query:
        return None
    before, version, _ = parts.path.partition("/v1/")
    path = before if version else re.sub(r"/v\d+$", "", parts.path)
    where = parts._replace(path=f"{path}/v1", query="", fragment="").geturl().replace("{", "{{").replace("}", "}}")
    return f"check {{openai.base_url}}: most servers want {where}"


def find_context_length(models: Sequence[object], name: str) -> int | None:
    """Return how many tokens a model takes for prompt and completion; None if the server's list does not say.

    Without the name in the list, the first model counts.
    """
    named = [model for model in models if getattr(model, "id", None) == name] or models[:1]
    lengths = [read_token_number(getattr(model, field, None)) for model in named for field in CONTEXT_NAMES]
    return next(filter(None, lengths), None)


@dataclass(frozen=True)
class Candidate:
    """One format in which a server may be asked.

    `gives_token` asks for one token. `place` is what messages call the place of requests; `below_v1` says whether the
    server's address should end in `/v1`.
    """

    kind: ReplyKind
    place: str
    below_v1: bool
    gives_token: Callable[[], Awaitable[bool]]


async def _works(candidate: Candidate) -> bool:
    """Request one token; raises what the client raises."""
    try:
        return await candidate.gives_token()
    except Exception as error:
        # The model thinks before it answers, and a single token is too few for that.
        if candidate.kind is ReplyKind.CHAT and "output limit" in str(error):
            return True
        raise


async def probe(completer: Completer, prompt: Prompt, options: RequestOptions) -> Absence | None:
    """Request one token and use the format that works; return why the server is absent, or None.

    Raises ServerError if the server will never work.
    """
    failed = await detect(completer, completer.candidates(prompt, options))
    if failed is None:
        return None
    candidate, error = failed
    return explain_probe(error, completer.address, candidate.place, below_v1=candidate.below_v1, hint=completer.hint)


async def detect(completer: Completer, candidates: Sequence[Candidate]) -> tuple[Candidate, Exception] | None:
    """Make a completer use the first candidate that returns a token; without candidates, do nothing.

    Returns the candidate and the error of a server that is absent, busy, or refuses the key or the only candidate.
    Raises ServerError if no candidate gives a token.
    """
    refusals: list[str] = []
    passing: tuple[Candidate, Exception] | None = None
    for number, candidate in enumerate(candidates):
        try:
            if await _works(candidate):
                completer.keep(number, refusals)
                return None
            refusals.append(f"{candidate.place}: no token")
        except Exception as error:
            if len(candidates) == 1 or not _may_lack(candidate, error, completer.address):
                return candidate, error
            if explain_failure(error).kind in (FailureKind.ABSENT, FailureKind.BUSY):
                passing = candidate, error
            refusals.append(f"{candidate.place}: {describe_failure(error)}")
    if passing is not None or not candidates:
        return passing
    if len(candidates) == 1:
        raise ServerError(f"the inference server at {completer.address} returned no token to a request for one token")
    raise ServerError(
        f"the inference server at {completer.address} supports none of the server types that were tried "
        f"({'; '.join(refusals)})",
        remedy="check {openai.base_url}, which mostly ends in /v1, and {openai.model_name}",
    )


async def detect_late(server: Server, prompt: Prompt, options: RequestOptions) -> ReplyFormat:
    """Detect and return the format of a server that was not probed at the start; log the kind of its replies.

    Raises what a probe raises, and ServerError if the server has none of the formats.
    """
    if (failed := await detect(server, server.candidates(prompt, options))) is not None:
        raise failed[1]
    found = server.format
    assert found is not None, "detect() chose a format"
    level = logging.INFO if found.kind is ReplyKind.TOKENS else logging.WARNING
    logger.log(level, "%s: %s (%s)", server.address, found.kind.summary, server.place)
    return found


def _may_lack(candidate: Candidate, error: Exception, url: str) -> bool:
    """Return whether an error may mean that a server lacks such replies; no if it is absent or refuses the key.

    For chat completions only a missing endpoint or template counts. A 404 may also mean that there is no such model, or
    that the URL lacks its `/v1`.
    """
    failure = explain_failure(error)
    if failure.status in (401, 403):
        return False
    if candidate.kind is not ReplyKind.CHAT:
        return failure.status is not None or failure.kind is FailureKind.UNUSABLE
    lacks_path = candidate.below_v1 and path_remedy(failure, url) is not None
    if not isinstance(error, StatusError) or lacks_path:
        return False
    said = str(error).lower()
    return "chat template" in said or (error.status in (404, 405, 501) and "model" not in said)


async def check_servers(
    list_completers: Callable[[], Sequence[Completer]], prompt: Prompt, options: RequestOptions, timeout_s: float
) -> None:
    """Return once a server has returned a token; detect formats that are not set. `timeout_s` may be infinite.

    Raises:
        ServerError: A server refuses the request, or sends no completion.
        ServerError: All servers are away, or cannot serve now, for `timeout_s`.
    """

    async def probe(timeout_s: float) -> Sequence[Absence]:
        completers = list_completers()
        absences = await _probe_all(completers, prompt, options, timeout_s)
        absent = [
            replace(absence, reason=f"{completer.address}: {absence.reason}")
            for completer, absence in zip(completers, absences, strict=True)
            if absence is not None
        ]
        if len(absent) == len(completers):
            return absent
        if absent:
            logger.warning("not every inference server answers yet (%s)", "; ".join(one.reason for one in absent))
        return []

    await wait_for_server(probe, timeout_s)


async def _probe_all(
    completers: Sequence[Completer], prompt: Prompt, options: RequestOptions, timeout_left_s: float
) -> list[Absence | None]:
    """Probe all servers. Return why each is absent, or None; once a server works, the others get OTHERS_S."""
    probes = [asyncio.ensure_future(probe(completer, prompt, options)) for completer in completers]
    left = set(probes)
    deadline = time.monotonic() + timeout_left_s
    try:
        while left and (wait_s := deadline - time.monotonic()) > 0:
            done, left = await asyncio.wait(left, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
            if any(probe.result() is None for probe in done):
                deadline = min(deadline, time.monotonic() + OTHERS_S)
        return [probe.result() if probe.done() else NO_REPLY for probe in probes]
    finally:
        await cancel_all(probes)
