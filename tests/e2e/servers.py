"""aiohttp applications on a thread of their own, for tests that drive processes or the command line."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from demo.policy_server import make_app

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@contextlib.contextmanager
def running(app: web.Application) -> Iterator[int]:
    """Serve on a free port of the loopback interface; gives the port."""
    loop = asyncio.new_event_loop()
    runner = web.AppRunner(app, shutdown_timeout=0.1)

    async def start() -> int:
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return int(runner.addresses[0][1])

    port = loop.run_until_complete(start())
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield port
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


@dataclass
class UnreliablePolicy:
    """The scripted policy; what it answers with errors is decided by the number of the request for a group, from 1."""

    fails: Callable[[int], bool] = lambda number: False
    gone_after: int | None = None
    """After so many requests for groups nothing is answered any more, health checks included."""
    requests: list[dict[str, Any]] = field(default_factory=list)

    def make_app(self) -> web.Application:
        app = make_app(skill=0.6, seed=1)
        app.middlewares.insert(0, self._route)
        return app

    @web.middleware
    async def _route(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if self.gone_after is not None and len(self.requests) >= self.gone_after:
            return web.Response(status=503)
        body = await request.json() if request.can_read_body else {}
        if body.get("max_tokens", 1) > 1:
            self.requests.append(body)
            if self.fails(len(self.requests)):
                return web.Response(status=500)
        return await handler(request)
