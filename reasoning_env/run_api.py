"""Atropos' run-api over HTTP: requests that outlast its absence.

Each request opens a connection of its own. One that is kept open can be closed by the server at the moment it is used
again, and then nobody knows whether the request was taken.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import socket
import time
from collections.abc import AsyncIterator, Container, Mapping, Sequence
from typing import Any

import aiohttp

from .atropos.shutdown import finish_within
from .errors import ReasoningEnvError, ServerError
from .outage_log import OutageLog

logger = logging.getLogger(__name__)

RETRY_S = 0.5
TRAINER_POLL_S = 1.0
CONNECT_TIMEOUT_S = 5.0
LEAST_RESTART_S = 1.0
"""run-api cannot be restarted in less; within it, one that answers again is the one from before."""
SLOW_S = 10.0
"""After so long without a reply it is said that one is waited for."""
VANISHED_HOST_S = 30
"""After so long without a sign of life from its host a connection counts as dead."""
STATUS_KEYS = ("current_step", "queue_size", "env_weight")
FAULTS = (aiohttp.ClientError, OSError, asyncio.TimeoutError)
"""What a request raises when the other side is not there or goes away."""


class RunApiError(ReasoningEnvError):
    """run-api answered with an error status."""

    def __init__(self, path: str, status: int, text: str) -> None:
        super().__init__(f"run-api answered {path} with status {status}: {text[:200]}")
        self.path = path
        self.status = status


class NeverSent(Exception):
    """The request did not reach anybody."""


class RunApi:
    """Requests to the run-api at `url`."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._absent = OutageLog(logger)
        self._untrained = OutageLog(logger)
        self._recognised = False
        self._away = False
        self._failing_since = math.inf
        self._interruptions = 0
        self._breaks = 0

    async def request(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> bytes:
        """One try; the reply as it came.

        `body` is bytes, or something that JSON can hold. Raises RunApiError for a status from 400 on, NeverSent when no
        connection came about, and one of FAULTS when it broke: then nobody knows what became of the request.
        """
        sent = {"data": body, "headers": dict(headers or {})} if isinstance(body, bytes) else {"json": body}
        async with self._session() as session:
            try:
                async with session.request(method, f"{self.url}{path}", **sent) as response:
                    if response.status >= 400:
                        raise RunApiError(path, response.status, await response.text(errors="replace"))
                    return await response.read()
            except aiohttp.ClientConnectorError as error:
                raise NeverSent(str(error)) from error

    @property
    def interruptions(self) -> int:
        """How often run-api has gone away; it may be another one that comes back, which knows nobody."""
        return self._interruptions

    @property
    def breaks(self) -> int:
        """How many requests broke, so that nobody knows what became of them."""
        return self._breaks

    async def wait_until_there(self, timeout_s: float) -> None:
        """Return when something answers; raises ServerError after `timeout_s`, which may be infinite."""
        try:
            limit_s = None if math.isinf(timeout_s) else timeout_s
            await finish_within(self._call("GET", "/", (), statuses=range(400, 600)), limit_s)
        except TimeoutError as error:
            raise ServerError(
                f"run-api is not at {self.url}; start it with `run-api`, or correct env.rollout_server_url"
            ) from error

    async def wandb_group_and_project(self) -> tuple[str | None, str]:
        """What the trainer registered with; waits for it."""
        while (info := await self._ask("GET", "/wandb_info", ("project",)))["project"] is None:
            self._note_no_trainer()
            await asyncio.sleep(TRAINER_POLL_S)
        return info.get("group"), info["project"]

    async def register(self, environment: Mapping[str, Any]) -> dict[str, Any]:
        """Register an environment and return run-api's reply; waits for a trainer that takes batches."""
        while (reply := await self._ask("POST", "/register-env", ("status",), environment))["status"] != "success":
            self._note_no_trainer()
            await asyncio.sleep(TRAINER_POLL_S)
        self._untrained.over("a trainer is there")
        return reply

    async def info(self) -> dict[str, int]:
        """`batch_size` and `max_token_len` of the trainer; -1 where it sets none."""
        return await self._ask("GET", "/info", ("batch_size", "max_token_len"))

    async def status(self, env_id: int) -> dict[str, Any] | None:
        """What run-api says of an environment, and None when it does not know it (any more)."""
        return await self._call("GET", "/status-env", STATUS_KEYS, {"env_id": env_id}, statuses=(500,))

    async def status_now(self, env_id: int) -> dict[str, Any] | None:
        """As `status`, in one try; raises what `request` raises, and RunApiError for a reply that is not run-api's."""
        try:
            reply = await self.request("GET", "/status-env", {"env_id": env_id})
        except RunApiError as error:
            if error.status == 500:
                return None
            raise
        return as_mapping("/status-env", STATUS_KEYS, reply)

    async def disconnect(self, env_id: int) -> None:
        """Say that the environment leaves; raises what `request` raises."""
        await self.request("POST", "/disconnect-env", {"env_id": env_id})

    async def _ask(self, method: str, path: str, keys: Sequence[str], body: Any = None) -> dict[str, Any]:
        reply = await self._call(method, path, keys, body)
        assert reply is not None, "no status is allowed for"
        self._recognised = True
        return reply

    async def _call(
        self, method: str, path: str, keys: Sequence[str], body: Any = None, statuses: Container[int] = ()
    ) -> dict[str, Any] | None:
        """As `request`, but tried again while run-api is away; None for an error status that is one of `statuses`.

        The reply must be a mapping with these `keys`, if any. Before run-api was met, one that is not, and an error
        status below 500, raise ServerError: something else is in its place. Later, whatever stands between may answer
        so while run-api is away.
        """
        while True:
            try:
                reply = as_mapping(path, keys, await self._patiently(self.request(method, path, body)))
            except RunApiError as error:
                if error.status in statuses:
                    self.note_presence()
                    return None
                if error.status < 500 and not self._recognised:
                    raise ServerError(f"{error}; correct env.rollout_server_url ({self.url})") from None
                self.note_absence(error)
            except (*FAULTS, NeverSent) as error:
                self.note_absence(error)
            else:
                self.note_presence()
                return reply
            await asyncio.sleep(RETRY_S)

    def _note_no_trainer(self) -> None:
        self._untrained.note("waiting for a trainer to register at run-api and to ask for a batch")

    def note_absence(self, error: Exception) -> None:
        now = time.monotonic()
        self._failing_since = min(now, self._failing_since)
        # One request that breaks, or an error, may come from a run-api that lives on; a new one takes longer to start.
        if isinstance(error, NeverSent) or now - self._failing_since >= LEAST_RESTART_S:
            self._interruptions += not self._away
            self._away = True
        if isinstance(error, FAULTS):
            self._breaks += 1
        kind = "" if isinstance(error, (NeverSent, RunApiError)) else f"{type(error).__name__}: "
        self._absent.note(f"waiting for run-api at {self.url} ({kind}{error})")

    def note_presence(self) -> None:
        self._away = False
        self._failing_since = math.inf
        self._absent.over(f"run-api at {self.url} answers again")

    async def _patiently(self, request: Any) -> Any:
        """The request's result; says so when it takes long."""
        task = asyncio.ensure_future(request)
        try:
            while not (await asyncio.wait([task], timeout=SLOW_S))[0]:
                self._absent.note(f"waiting for run-api at {self.url}: it accepts requests and does not reply")
            return task.result()
        finally:
            task.cancel()
            await asyncio.wait([task])

    @contextlib.asynccontextmanager
    async def _session(self) -> AsyncIterator[aiohttp.ClientSession]:
        connector = aiohttp.TCPConnector(force_close=True, socket_factory=_make_socket)
        # No limit on the whole: a run-api that is slow has taken the group, and a second copy of it would be wrong.
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            yield session


def as_mapping(path: str, keys: Sequence[str], reply: bytes) -> dict[str, Any]:
    """The reply as a mapping; raises RunApiError where it lacks one of the keys."""
    try:
        parsed = json.loads(reply)
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        parsed = {}
    if not all(key in parsed for key in keys):
        raise RunApiError(path, 200, f"and not as run-api does: {reply[:100]!r}")
    return parsed


def _make_socket(address: tuple[Any, ...]) -> socket.socket:
    """A socket on which a host that vanished without a word is noticed."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    limits = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4, "TCP_USER_TIMEOUT": 1000 * VANISHED_HOST_S}
    for name, value in limits.items():
        if hasattr(socket, name):  # macOS lacks some
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made
