"""Requests to Atropos' run-api, one try each.

Each request opens a connection of its own. One that is kept open can be closed by the server at the moment it is used
again, and then nobody knows whether the request was taken.
"""

from __future__ import annotations

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
    """Requests to the run-api at `url`. Has no limit on the time of a reply: a slow run-api has taken the request."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")

    async def ask(self, method: str, path: str, keys: Sequence[str] = (), body: Any = None) -> dict[str, Any]:
        """Return a reply that is a JSON object with these keys; raises RunApiFault."""
        reply = await self.request(method, path, body)
        try:
            parsed = json.loads(reply)
        except ValueError:
            parsed = None
        if not isinstance(parsed, dict) or any(key not in parsed for key in keys):
            text = f"the server answers {path} not as run-api does: {reply[:100]!r}"
            raise RunApiFault(text, status=200, maybe_taken=True)
        return parsed

    async def request(self, method: str, path: str, body: Any = None) -> bytes:
        """Return the reply; `body` is JSON in gzip as bytes, or what JSON can hold. Raises RunApiFault."""
        sent: Mapping[str, Any] = {"json": body}
        if isinstance(body, bytes):
            sent = {"data": body, "headers": {"Content-Type": "application/json", "Content-Encoding": "gzip"}}
        connector = aiohttp.TCPConnector(force_close=True, socket_factory=_make_socket)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            try:
                async with session.request(method, f"{self.url}{path}", **sent) as response:
                    reply = await response.read()
            except NEVER_SENT as error:
                raise RunApiFault(str(error), maybe_taken=False) from error
            except (aiohttp.ClientError, OSError) as error:
                raise RunApiFault(f"{type(error).__name__}: {error}", maybe_taken=True) from error
        if response.status >= 400:
            text = f"run-api answered {path} with status {response.status}: {reply[:200].decode(errors='replace')}"
            raise RunApiFault(text, status=response.status, maybe_taken=response.status >= SERVER_ERROR)
        return reply


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
