from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from .chat_server import ScriptedServer


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    served = ScriptedServer("")
    app = web.Application()
    app.router.add_post("/v1/chat/completions", served.answer)
    app.router.add_post("/v1/completions", served.complete)
    app.router.add_get("/v1/models", served.list_models)
    async with TestServer(app) as listening:
        served.url = str(listening.make_url("/v1"))
        yield served
