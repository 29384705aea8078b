"""Requests to Atropos' run-api, one try each.

Each request opens a connection of its own. One that is kept open can be closed by the server at the moment it is used
again, and then nobody knows whether the request was taken.
"""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Mapping, Sequence
from typing import Any

import aiohttp

CONNECT_TIMEOUT_S = 5.0
VANISHED_HOST_S = 30
"""After so long without a sign of life from its host a connection counts as broken."""
NEVER_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
SERVER_ERROR = 500


class RunApiFault(Exception):
    """A request without run-api's answer to it.

    `status` is the HTTP status, None where no answer came. `maybe_taken` says whether run-api may have done what was
    asked for: the connection broke after it had come about, or something on the way answered with an error of its own.
    """

    def __init__(self, message: str, *, status: int | None = None, maybe_taken: bool) -> None:
        super().__init__(message)
        self.status = status
        self.maybe_taken = maybe_taken

    @property
    def unreachable(self) -> bool:
        """Whether no connection came about."""
        return self.status is None and not self.maybe_taken


class RunApiClient:
    """Requests to the run-api at `url`; replies have no time limit: a slow run-api has taken the request."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")

    async def ask(self, method: str, path: str, keys: Sequence[str] = (), body: Any = None) -> dict[str, Any]:
        """Return a reply that is a JSON object with these keys; raises RunApiFault.

        `body` is JSON in gzip as bytes, or what JSON can hold.
        """
        sent: Mapping[str, Any] = {"json": body}
        if isinstance(body, bytes):
            sent = {"data": body, "headers": {"Content-Type": "application/json", "Content-Encoding": "gzip"}}
        connector = aiohttp.TCPConnector(force_close=True, socket_factory=_make_socket)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            try:
                async with session.request(method, f"{self.url}{path}", **sent) as response:
                    reply, status = await response.read(), response.status
            except NEVER_SENT as error:
                raise RunApiFault(str(error), maybe_taken=False) from error
            except (aiohttp.ClientError, OSError) as error:
                raise RunApiFault(f"{type(error).__name__}: {error}", maybe_taken=True) from error
        parsed = None
        with contextlib.suppress(ValueError):
            parsed = json.loads(reply)
        if status < 400 and isinstance(parsed, dict) and all(key in parsed for key in keys):
            return parsed
        text = f"{path} was answered not as run-api does, with status {status}: {reply[:200].decode(errors='replace')}"
        raise RunApiFault(text, status=status, maybe_taken=status < 400 or status >= SERVER_ERROR)


def _make_socket(address: tuple[Any, ...]) -> socket.socket:
    """Make a socket on which a host that vanished without a word is noticed."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    limits = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4, "TCP_USER_TIMEOUT": 1000 * VANISHED_HOST_S}
    for name, value in limits.items():
        if hasattr(socket, name):  # macOS lacks some
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made
