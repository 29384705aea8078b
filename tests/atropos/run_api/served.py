"""Atropos' own run-api in the test process, behind an HTTP server whose faults a test can switch on."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from typing import Any, Self

import httpx
from aiohttp import web
from atroposlib.api.server import app as atropos_app
from starlette.datastructures import State

from reasoning_gym_testing import FaultyServer, cut, cut_reply, refuse
from reasoning_gym_testing.http_server import Handler
from reasoning_gym_testing.trainer import REGISTRATION

TRAINER = {**REGISTRATION, "wandb_group": "group", "wandb_project": "project", "batch_size": 32, "max_token_len": 4096}


class ServedRunApi(FaultyServer):
    """A run-api that `async with` starts with a trainer and without environments.

    `faults` maps a path to the fault of its requests. A status or a string is sent as the reply; "cut" processes the
    request and then closes the connection without a reply; "drop" closes the connection without processing the request.
    `requests` lists all requests, as path and parsed body.
    """

    # aiohttp would decompress only the first of several gzip members.
    runner_options: Mapping[str, Any] = {"auto_decompress": False}

    def __init__(self) -> None:
        super().__init__()
        self.faults: dict[str, int | str]
        self.requests: list[tuple[str, Any]] = []
        self.start()

    @property
    def groups(self) -> list[dict[str, Any]]:
        """The groups in run-api's queue."""
        queue = getattr(atropos_app.state, "queue", [])
        return [{name: value for name, value in group.items() if value is not None} for group in queue]

    @property
    def environments(self) -> list[dict[str, Any]]:
        """The registered environments, by number."""
        return list(getattr(atropos_app.state, "envs", []))

    @property
    def connected(self) -> list[int]:
        """The numbers of the environments that have not left."""
        return [entry["registered_id"] for entry in self.environments if entry["connected"]]

    def count(self, path: str) -> int:
        """Return the number of requests to this path."""
        return sum(asked == path for asked, _ in self.requests)

    async def __aenter__(self) -> Self:
        self.forget()
        await self.train()
        return await super().__aenter__()

    def start(self) -> None:
        """Accept connections again, without faults and with the earlier state."""
        self.faults = {}
        self.fail(self._meet, self._is_met)

    def stop(self) -> None:
        """Refuse new connections."""
        self.fail(refuse)

    def forget(self) -> None:
        """Delete all state, as a restart of run-api does."""
        atropos_app.state = State()

    async def reset(self) -> None:
        """Delete trainer, environments and groups."""
        await self.call("GET", "/reset_data")

    async def train(self, **fields: Any) -> None:
        """Register a trainer and request a batch, after which environments can register."""
        await self.call("POST", "/register", {**TRAINER, **fields})
        await self.call("GET", "/batch")

    async def call(self, method: str, path: str, body: Any = None) -> None:
        """Send a request as another client."""
        await self._pass_on(method, path, json.dumps(body).encode(), {"Content-Type": "application/json"})

    def make_app(self) -> web.Application:
        app = web.Application(client_max_size=2**30)
        app.router.add_route("*", "/{path:.*}", self._answer)
        return app

    def _is_met(self, request: web.Request, body: bytes) -> bool:
        plain = gzip.decompress(body) if "Content-Encoding" in request.headers else body
        self.requests.append((request.path, json.loads(plain or b"null")))
        return request.path in self.faults

    async def _meet(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        fault = self.faults[request.path]
        if fault in ("cut", "drop"):
            return await (cut_reply if fault == "cut" else cut)(request, handler)
        return web.Response(status=fault) if isinstance(fault, int) else web.Response(text=fault)

    async def _answer(self, request: web.Request) -> web.Response:
        taken = await self._pass_on(request.method, request.path, await request.read(), request.headers)
        return web.Response(status=taken.status_code, body=taken.content)

    async def _pass_on(self, method: str, path: str, body: bytes, headers: Any) -> httpx.Response:
        kept = {name: headers[name] for name in ("Content-Type", "Content-Encoding") if name in headers}
        transport = httpx.ASGITransport(atropos_app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://run-api") as client:
            return await client.request(method, path, content=body, headers=kept)
