"""A run-api of the tests: the real one's protocol over real HTTP, with faults that a test can switch on."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer


@asynccontextmanager
async def fake_run_api() -> AsyncIterator[FakeRunApi]:
    """One that listens, with a trainer and without environments."""
    api = FakeRunApi()
    await api.start()
    yield api
    await api.stop()


class FakeRunApi:
    """Keeps the groups that arrive, in order, and who registered.

    `faults` maps a path to what happens to its requests: a status to answer with, "cut" to take the request and close
    the connection without an answer, or "drop" to close it without taking anything.
    """

    def __init__(self) -> None:
        self.groups: list[dict[str, Any]] = []
        self.requests: list[str] = []
        self.environments: list[dict[str, Any]] = []
        self.disconnected: list[int] = []
        self.trained = True
        self.faults: dict[str, int | str] = {}
        self.error_body = b"broken"
        self.pages: dict[str, str] = {}
        """What is answered in place of run-api's own replies, by path."""
        self.refused: set[int] = set()
        """First tokens of groups that are answered with 422."""
        self.checkpoint_dir = ""
        self.step = 0
        self.started: TestServer | None = None
        self.port: int | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Listen, on the same port each time."""
        app = web.Application(middlewares=[self._break])
        app.router.add_get("/", self._greet)
        app.router.add_get("/info", self._info)
        app.router.add_get("/wandb_info", self._wandb_info)
        app.router.add_get("/status-env", self._status)
        app.router.add_get("/latest_example", self._latest)
        app.router.add_get("/reset_data", self._reset)
        app.router.add_post("/register-env", self._register)
        app.router.add_post("/disconnect-env", self._disconnect)
        app.router.add_post("/scored_data", self._take)
        app.router.add_post("/scored_data_list", self._take)
        self.started = TestServer(app, host="127.0.0.1", port=self.port)
        await self.started.start_server(access_log=None)
        self.port = self.started.port

    async def stop(self) -> None:
        if self.started is not None:
            await self.started.close()
            self.started = None

    def forget(self) -> None:
        """As after a restart: no trainer, no environments."""
        self.environments.clear()
        self.trained = False

    @web.middleware
    async def _break(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.requests.append(request.path)
        fault = self.faults.get(request.path)
        if isinstance(fault, int):
            return web.Response(status=fault, body=self.error_body)
        if request.path in self.pages:
            return web.Response(text=self.pages[request.path])
        response: web.StreamResponse = web.Response() if fault == "drop" else await handler(request)
        if fault in ("cut", "drop"):
            assert request.transport is not None
            request.transport.abort()
        return response

    async def _greet(self, _: web.Request) -> web.Response:
        return web.json_response({"message": "AtroposLib API"})

    async def _info(self, _: web.Request) -> web.Response:
        known = self.trained
        return web.json_response({"batch_size": 32 if known else -1, "max_token_len": 4096 if known else -1})

    async def _wandb_info(self, _: web.Request) -> web.Response:
        name = "mine" if self.trained else None
        return web.json_response({"group": name, "project": name})

    async def _register(self, request: web.Request) -> web.Response:
        if not self.trained:
            return web.json_response({"status": "wait for trainer to start"})
        self.environments.append(await request.json())
        name = self.environments[-1]["desired_name"]
        # Environments are counted over all names, and names for themselves.
        of_the_name = [environment for environment in self.environments if environment["desired_name"] == name]
        return web.json_response(
            {
                "status": "success",
                "env_id": len(self.environments) - 1,
                "wandb_name": f"{name}_{len(of_the_name) - 1}",
                "checkpoint_dir": self.checkpoint_dir,
                "starting_step": self.step,
                "checkpoint_interval": -1,
                "num_steps": 100,
            }
        )

    async def _status(self, request: web.Request) -> web.Response:
        env_id = (await request.json())["env_id"]
        if env_id >= len(self.environments):
            return web.Response(status=500)
        own = sum(group.get("env_id") == env_id for group in self.groups)
        weights = [environment.get("weight", 1.0) for environment in self.environments]
        share = weights[env_id] / sum(weights)
        return web.json_response(
            {"current_step": self.step, "queue_size": len(self.groups), "self_queue_size": own, "env_weight": share}
        )

    async def _disconnect(self, request: web.Request) -> web.Response:
        self.disconnected.append((await request.json())["env_id"])
        return web.json_response({"status": "success"})

    async def _reset(self, _: web.Request) -> web.Response:
        self.forget()
        self.groups.clear()
        return web.Response(text="Reset successful")

    async def _latest(self, _: web.Request) -> web.Response:
        return web.json_response(self.groups[-1] if self.groups else {"tokens": [], "scores": []})

    async def _take(self, request: web.Request) -> web.Response:
        # aiohttp has decompressed it already, as far as its own decoder goes.
        body = await request.read()
        sent = json.loads(gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body)
        groups = sent if isinstance(sent, list) else [sent]
        if any(group["tokens"][0][0] in self.refused for group in groups):
            return web.Response(status=422)
        self.groups += groups
        return web.json_response({"status": "received"})
