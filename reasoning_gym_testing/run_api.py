"""Atropos' run-api as a process that can be killed and restarted, and a proxy that records requests and has faults."""

from __future__ import annotations

import gzip
import json
import signal
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
from aiohttp import web

from .http_server import HOST, FaultyServer, cut, free_port
from .processes import TIMEOUT_S, Process, Processes, wait_until
from .trainer import REQUEST_TIMEOUT_S, Delivery

SEND_PATHS = ("/scored_data", "/scored_data_list")
HOP_HEADERS = ("connection", "host", "keep-alive", "transfer-encoding", "content-length")
MAX_BODY_BYTES = 2**30


class RunApi:
    """Atropos' run-api as a process on a fixed port; `start` starts it, and restarts it after `kill`."""

    def __init__(self, processes: Processes) -> None:
        self.url = f"http://{HOST}:{free_port()}"
        self._processes = processes
        self._lives: list[Process] = []

    @property
    def process(self) -> Process:
        return self._lives[-1]

    def start(self, *, wait: bool = True) -> None:
        """Start an empty run-api. With `wait`, return when run-api replies."""
        port = self.url.rpartition(":")[2]
        command = ["-m", "atroposlib.cli.run_api", "--host", HOST, "--port", port]
        self._lives.append(self._processes.start(f"run-api-{len(self._lives)}", command, python=True))
        if wait:
            wait_until(lambda: self.process.check() and self.answers(), TIMEOUT_S, "the start of run-api")

    def kill(self) -> None:
        """Send SIGKILL. Run-api loses its groups."""
        self.process.end(signal.SIGKILL)

    def pause(self) -> None:
        """Send SIGSTOP. The operating system still accepts connections, but run-api does not reply."""
        self.process.send(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send(signal.SIGCONT)

    def reset_data(self) -> None:
        """Make run-api forget the trainer, the environments and its groups."""
        with urllib.request.urlopen(f"{self.url}/reset_data", timeout=REQUEST_TIMEOUT_S):
            pass

    def answers(self) -> bool:
        """Return True if run-api replies."""
        try:
            with urllib.request.urlopen(self.url, timeout=REQUEST_TIMEOUT_S):
                return True
        except OSError:
            return False


# ---------------------------------------------------------------------------- the proxy


@dataclass(frozen=True)
class Registration:
    """An environment's registration: time (`at`, seconds of the monotonic clock), `env_id` and wandb name."""

    at: float
    env_id: int
    name: str


class RunApiProxy(FaultyServer):
    """Forwards requests to the run-api at `upstream`, records accepted requests, and has faults on demand.

    While run-api is unreachable, the proxy resets the client's connection. `delivered`, `registered` and `disconnected`
    have the accepted requests in the order of run-api's replies, even if the client did not receive a reply.
    """

    # Forward bodies unchanged, because aiohttp would decompress only the first of several concatenated gzip members.
    runner_options: Mapping[str, Any] = {"auto_decompress": False}

    def __init__(self, upstream: str) -> None:
        super().__init__()
        self.delivered: list[Delivery] = []
        self.registered: list[Registration] = []
        self.disconnected: list[int] = []
        self._upstream = upstream

    def make_app(self) -> web.Application:
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_route("*", "/{path:.*}", self._forward)
        app.cleanup_ctx.append(self._with_session)
        return app

    async def _with_session(self, _app: web.Application) -> Any:
        connector = aiohttp.TCPConnector(force_close=True, limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as self._session:
            yield

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP_HEADERS}
        url = f"{self._upstream}{request.path_qs}"
        try:
            async with self._session.request(request.method, url, data=body, headers=headers) as reply:
                answer = await reply.read()
        except aiohttp.ClientError:
            return await cut(request, self._forward)
        if reply.status == 200:
            self._record(request.path, _plain(body, request.headers), _plain(answer, reply.headers))
        kept = {name: value for name, value in reply.headers.items() if name.lower() not in HOP_HEADERS}
        return web.Response(status=reply.status, body=answer, headers=kept)

    def _record(self, path: str, asked: bytes, told: bytes) -> None:
        if path in SEND_PATHS:
            sent = json.loads(asked)
            self.delivered += map(Delivery.of, sent if isinstance(sent, list) else [sent])
        elif path == "/register-env" and (answer := json.loads(told))["status"] == "success":
            self.registered.append(Registration(time.monotonic(), answer["env_id"], answer["wandb_name"]))
        elif path == "/disconnect-env":
            self.disconnected.append(json.loads(asked)["env_id"])


def _plain(body: bytes, headers: Any) -> bytes:
    return gzip.decompress(body) if "gzip" in headers.get("Content-Encoding", "").lower() else body


def sends(request: web.Request, _body: bytes) -> bool:
    """Return True for requests that send groups."""
    return request.path in SEND_PATHS
