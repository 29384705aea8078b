"""Servers at the start: URLs and keys, what listens there, and the wait for a server."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
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


def find_secrets(servers: Iterable[object]) -> list[str]:
    """Return keys of servers, passwords in their URLs and keys in usual variables: what no text may show.

    The settings of a server may have an `api_key` and a `base_url`.
    """
    variables = ("OPENAI_API_KEY", "WANDB_API_KEY", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
    candidates = [os.environ.get(name) for name in variables]
    for server in servers:
        key = str(getattr(server, "api_key", None) or "")
        candidates += [os.environ.get(key[1:]) if key.startswith("$") else key]
        candidates += [urlsplit(getattr(server, "base_url", None) or "").password]
    return sorted({text for text in candidates if text})


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


def _host_and_port(url: str) -> tuple[str | None, int]:
    parts = urlsplit(url)
    return parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
