"""Two environments at a run-api that is a process, which hangs, dies and comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import Mock

import pytest

from reasoning_env.atropos.run_api import DeliveryQueue, RunApiClient, RunApiFault, RunApiSession, State
from testing import Processes, RunApi
from tests.waiting import PATIENCE_S, until

from .conftest import ENTRY
from .served import TRAINER


@dataclass(frozen=True)
class Site:
    """A run-api with the sessions and queues of two environments."""

    api: RunApi
    sessions: Sequence[RunApiSession]
    queues: Sequence[DeliveryQueue]


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    with Processes(tmp_path, isolated=True) as processes:
        api = RunApi(processes)
        api.start()
        await train(api)
        sessions = [RunApiSession(api.url, ENTRY) for _ in range(2)]
        queues = [DeliveryQueue(session, on_drop=Mock()) for session in sessions]
        for session, queue in zip(sessions, queues, strict=True):
            await session.register()
            queue.start()
        yield Site(api, sessions, queues)
        for queue in queues:
            await queue.close()


async def train(api: RunApi) -> None:
    """Register a trainer whose batches hold one group each, and let environments register."""
    client = RunApiClient(api.url)
    await client.ask("POST", "/register", (), {**TRAINER, "batch_size": 1})
    await client.ask("GET", "/batch")


def put_all(site: Site) -> list[int]:
    """Put groups into all queues; return the numbers in them."""
    put = list(enumerate(queue for queue in site.queues for _ in range(50)))
    for number, queue in put:
        queue.put({"tokens": [[number]], "masks": [[number]], "scores": [0.5]})
    return [number for number, _ in put]


async def check(site: Site, put: list[int]) -> None:
    """All groups arrive once, and each environment has an entry of its own beside which there are no others."""
    for queue in site.queues:
        await queue.drain(PATIENCE_S)
    client = RunApiClient(site.api.url)
    arrived: list[int] = []
    while (batch := (await client.ask("GET", "/batch", ("batch",)))["batch"]) is not None:
        arrived += [group["tokens"][0][0] for group in batch]
    assert sorted(arrived) == put
    assert {session.registration.env_id for session in site.sessions} == {0, 1}
    with pytest.raises(RunApiFault):
        await client.ask("GET", "/status-env", (), {"env_id": 2})


async def test_after_restarts_all_have_numbers_of_their_own_and_what_waited_arrives(site: Site) -> None:
    for _ in range(3):
        site.api.kill()
        put = put_all(site)
        await until(lambda: all(session.state is State.UNCERTAIN for session in site.sessions))
        site.api.start()
        await train(site.api)
        await check(site, put)


async def test_a_run_api_that_hangs_is_waited_for_and_nobody_registers_again(site: Site) -> None:
    before = [session.registration for session in site.sessions]
    site.api.pause()
    put = put_all(site)
    await asyncio.sleep(1.0)
    site.api.go_on()
    await check(site, put)
    assert [session.registration for session in site.sessions] == before
    assert [queue.stats.repeated for queue in site.queues] == [0, 0]
