"""Two environments at a run-api that is a process, which hangs, dies and comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from reasoning_env.atropos.run_api import DeliveryQueue, RunApiClient, RunApiFault, RunApiSession, State
from testing import Processes, RunApi
from tests.waiting import PATIENCE_S, until

from .conftest import ENTRY
from .served import TRAINER


@pytest.fixture
def api(tmp_path: Path) -> Iterator[RunApi]:
    with Processes(tmp_path, isolated=True) as processes:
        api = RunApi(processes)
        api.start()
        yield api


@pytest.fixture
async def sessions(api: RunApi) -> list[RunApiSession]:
    await train(api)
    sessions = [RunApiSession(api.url, ENTRY) for _ in range(2)]
    for session in sessions:
        await session.register()
    return sessions


@pytest.fixture
async def queues(sessions: list[RunApiSession]) -> AsyncIterator[list[DeliveryQueue]]:
    async def before_send() -> None:
        pass

    queues = [DeliveryQueue(session, before_send=before_send, on_drop=lambda: None) for session in sessions]
    for queue in queues:
        queue.start()
    yield queues
    for queue in queues:
        await queue.close()


async def train(api: RunApi) -> None:
    """Register a trainer whose batches hold one group each, and let environments register."""
    client = RunApiClient(api.url)
    await client.ask("POST", "/register", (), {**TRAINER, "batch_size": 1})
    await client.ask("GET", "/batch")


def put_all(queues: list[DeliveryQueue]) -> list[int]:
    """Put groups into all queues; return the numbers in them."""
    put = list(enumerate(queue for queue in queues for _ in range(50)))
    for number, queue in put:
        queue.put({"tokens": [[number]], "masks": [[number]], "scores": [0.5]})
    return [number for number, _ in put]


async def check(api: RunApi, sessions: list[RunApiSession], queues: list[DeliveryQueue], put: list[int]) -> None:
    """All groups arrive once, and each environment has an entry of its own beside which there are no others."""
    for queue in queues:
        await queue.drain(PATIENCE_S)
    client = RunApiClient(api.url)
    arrived: list[int] = []
    while (batch := (await client.ask("GET", "/batch", ("batch",)))["batch"]) is not None:
        arrived += [group["tokens"][0][0] for group in batch]
    assert sorted(arrived) == put
    assert {session.registration.env_id for session in sessions} == set(range(len(sessions)))
    with pytest.raises(RunApiFault):
        await client.ask("GET", "/status-env", (), {"env_id": len(sessions)})


async def test_after_restarts_all_have_numbers_of_their_own_and_what_waited_arrives(
    api: RunApi, sessions: list[RunApiSession], queues: list[DeliveryQueue]
) -> None:
    for _ in range(3):
        api.kill()
        put = put_all(queues)
        await until(lambda: all(session.state is State.UNCERTAIN for session in sessions))
        api.start()
        await train(api)
        await check(api, sessions, queues, put)


async def test_a_run_api_that_hangs_is_waited_for_and_nobody_registers_again(
    api: RunApi, sessions: list[RunApiSession], queues: list[DeliveryQueue]
) -> None:
    before = [session.registration for session in sessions]
    api.pause()
    put = put_all(queues)
    await asyncio.sleep(1.0)
    api.go_on()
    await check(api, sessions, queues, put)
    assert [session.registration for session in sessions] == before
    assert [queue.stats.repeated for queue in queues] == [0, 0]
