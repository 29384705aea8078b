"""Servers at the start: URLs and keys, what listens there, in http or https, and the wait for a server."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import os
import ssl
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from ..errors import ConfigError, ServerError
from ..runtime.retries import OutageLog, pauses

logger = logging.getLogger(__name__)

PATIENCE_S = 30.0
"""Seconds to wait for a server by default: a user waits for the command."""
PROBE_S = 30.0
"""How long a server may take for its first token, and for its list of models, where nothing else limits it."""
LEAST_WAIT_S = 1.0
"""How long a connection or a probe may take however little time is left.

A server on the same machine answers within milliseconds.
"""
GREETING_S = 2.0
"""How long a server may take for the first bytes of TLS, or of a reply to an empty request."""
NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")
"""Reasons of an SSLError for a server that answers in plain text; the second is that of newer OpenSSL."""


NO_KEY = "x"
"""The key for servers that need no key; OpenAI's client refuses to be made without a key."""


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


LOOPBACK = ("localhost", "127.0.0.1", "::1")


def is_loopback(host: str) -> bool:
    """Tell whether a host is this machine itself."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def goes_through_proxy(url: str) -> bool:
    """Tell whether the environment names a proxy for a URL. This machine is always asked directly."""
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


def read_key(key: str, *, for_chat: bool) -> str:
    """Return a server's key, `$NAME` from that variable; NO_KEY for none.

    With `for_chat`, no key means the variable OPENAI_API_KEY if it is set, as for other clients of chat servers. Raises
    ConfigError if the variable NAME is not set.
    """
    if key.startswith("$"):
        value = os.environ.get(key[1:])
        if not value:
            raise ConfigError(f"the environment variable {key[1:]} is not set", setting="openai.api_key")
        return value
    default = os.environ.get("OPENAI_API_KEY") if for_chat else None
    return (default or NO_KEY) if key in ("", NO_KEY) else key


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
    """Call `probe` until it returns nothing, with the seconds that it may take; the log tells why this waits.

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


async def wait_for_address(urls: Sequence[str], timeout_s: float) -> None:
    """Return once a server listens at one of the URLs. Behind a proxy, only the proxy listens: this returns at once.

    Raises:
        ServerError: No server listens within `timeout_s`.
        ConfigError: A URL says https, and its server speaks http.
    """

    async def connect(timeout_s: float) -> Sequence[Absence]:
        absences = []
        for url in urls:
            error = await try_connection(url, timeout_s)
            if error is None:
                if urlsplit(url).scheme == "https":
                    await check_scheme(url)
                return []
            absences.append(Absence(f"{url}: {describe_connection(error)}"))
        return absences

    if not any(map(goes_through_proxy, urls)):
        await wait_for_server(connect, timeout_s)


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


def no_server(timeout_s: float, problems: str, *, answers: bool) -> ServerError:
    """Return the error for a start without a server; `answers` if a server answers that it cannot serve now."""
    if answers:
        return ServerError(
            f"no inference server gave a completion within {round(timeout_s, 1):g} s ({problems})",
            remedy="try again later, check your plan with the provider, or look into the server's log",
        )
    return ServerError(
        f"no inference server answered within {timeout_s:g} s ({problems})",
        remedy="start one, or correct {openai.base_url}",
    )


async def check_scheme(url: str) -> None:
    """Raise ConfigError if a URL says https and its server speaks http, or the other way round.

    The check sends the start of a TLS handshake: call it only for a server that does not answer as it should.
    Text that is no URL, a server that is away and a server behind a proxy pass.
    """
    scheme = urlsplit(url).scheme
    if scheme not in ("http", "https") or goes_through_proxy(url):
        return
    host, port = _host_and_port(url)
    has_tls = await _has_tls(host, port)
    if scheme == "https" and has_tls is None and await _answers_http(host, port):
        has_tls = False
    if has_tls is not None and has_tls != (scheme == "https"):
        spoken = "https" if has_tls else "http"
        raise ConfigError(
            f"the server speaks {spoken}, not {scheme}",
            setting="openai.base_url",
            got=url,
            remedy=f"write {spoken}://",
        )


async def _has_tls(host: str | None, port: int) -> bool | None:
    """Tell whether a server speaks TLS; None if it does not answer. Certificates are not checked."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        async with asyncio.timeout(GREETING_S):
            _, writer = await asyncio.open_connection(host, port, ssl=context)
        writer.close()
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
        return None
    except ssl.SSLError as error:  # an alert of a server that wants another version or a certificate is TLS too
        return error.reason not in NO_TLS
    except (OSError, TimeoutError):
        return None
    return True


async def _answers_http(host: str | None, port: int) -> bool:
    """Tell whether a server answers a plain request."""
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(GREETING_S):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(b"GET / HTTP/1.0\r\n\r\n")
                return (await reader.read(5)) == b"HTTP/"
            finally:
                writer.close()
    return False


def _host_and_port(url: str) -> tuple[str | None, int]:
    parts = urlsplit(url)
    return parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)


def describe_connection(error: OSError) -> str:
    """Return why there is no connection: `Connection refused`, `Name or service not known`."""
    if isinstance(error, TimeoutError):
        return "no connection in time"
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error)
