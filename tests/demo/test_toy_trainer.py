"""The trainer against a run-api of canned replies."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from demo.batch_checks import BatchError
from demo.toy_trainer import BatchRecord, TrainerError, TrainerSettings, pull_batches

GROUP = {"tokens": [[1, 2], [1, 3, 4]], "masks": [[-100, 2], [-100, 3, 4]], "scores": [0.25, 1.0]}
SETTINGS = TrainerSettings(batch_size=4, group_size=2, batch_timeout_s=5.0, poll_interval_s=0.01)


@dataclass
class CannedApi:
    """Answers every look for a batch with the next of `batches`, then with the last one for ever."""

    batches: list[Any]
    registration_reply: Any = field(default_factory=lambda: {"uuid": 1})
    status: int = 200
    registrations: list[Any] = field(default_factory=list)

    async def register(self, request: web.Request) -> web.Response:
        self.registrations.append(await request.json())
        return web.json_response(self.registration_reply, status=self.status)

    async def batch(self, _request: web.Request) -> web.Response:
        batch = self.batches.pop(0) if len(self.batches) > 1 else self.batches[0]
        return web.json_response({"batch": batch})

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        app = web.Application()
        app.router.add_post("/register", self.register)
        app.router.add_get("/batch", self.batch)
        async with TestServer(app) as server:
            yield str(server.make_url("")).rstrip("/")


async def pull(api: CannedApi, settings: TrainerSettings = SETTINGS, batches: int = 1) -> list[BatchRecord]:
    async with api.serve() as url:
        return [record async for record in pull_batches(url, settings, batches=batches)]


async def test_it_waits_for_batches_and_reports_on_each() -> None:
    records = await pull(CannedApi([None, None, [GROUP, GROUP], None, [GROUP, GROUP]]), batches=2)
    assert records == [
        BatchRecord(number=number, sequences=4, groups=2, mean_score=0.625, tokens=10) for number in (1, 2)
    ]


async def test_it_registers_with_its_settings() -> None:
    api = CannedApi([[GROUP, GROUP]])
    await pull(
        api, replace(SETTINGS, max_token_len=99, num_steps=7, save_checkpoint_interval=3, checkpoint_dir="there")
    )
    assert api.registrations == [
        {
            "wandb_group": "demo",
            "wandb_project": "demo",
            "batch_size": 4,
            "max_token_len": 99,
            "checkpoint_dir": "there",
            "save_checkpoint_interval": 3,
            "starting_step": 0,
            "num_steps": 7,
        }
    ]


async def test_a_bad_batch_ends_it() -> None:
    with pytest.raises(BatchError, match="expected 4 sequences, got 2"):
        await pull(CannedApi([[GROUP]]))


async def test_it_does_not_wait_for_ever() -> None:
    with pytest.raises(TrainerError, match="no batch of 4 within 0 s"):
        await pull(CannedApi([None]), replace(SETTINGS, batch_timeout_s=0.2))


async def test_a_refused_registration_is_an_error() -> None:
    with pytest.raises(TrainerError, match="expected a uuid"):
        await pull(CannedApi([None], registration_reply={"detail": "no"}))


async def test_an_error_status_is_an_error() -> None:
    with pytest.raises(TrainerError, match="status 500"):
        await pull(CannedApi([None], status=500))


async def test_a_server_that_is_not_there_is_an_error(unused_tcp_port: int) -> None:
    with pytest.raises(TrainerError, match="/register"):
        async for _ in pull_batches(f"http://127.0.0.1:{unused_tcp_port}", SETTINGS, batches=1):
            pass


async def test_a_reply_that_is_no_object_is_an_error() -> None:
    with pytest.raises(TrainerError, match="expected a JSON object"):
        await pull(CannedApi([None], registration_reply=[1]))
