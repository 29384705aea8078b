"""Two environments at a run-api that is a process, which hangs, dies and comes back."""

from __future__ import annotations

import asyncio
import itertools
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest

from reasoning_env.atropos.run_api import DeliveryQueue, RunApiClient, RunApiFault, RunApiSession, State

from .conftest import ENTRY, WAIT_S, until
from .served import TRAINER


class RunApiProcess:
    """A run-api on a port of its own, with a trainer's requests."""

    def __init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = str(probe.getsockname()[1])
        self.client = RunApiClient(f"http://127.0.0.1:{self._port}")

    async def start(self) -> None:
        command = [sys.executable, "-m", "atroposlib.cli.run_api", "--host", "127.0.0.1", "--port", self._port]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        await RunApiSession(self.client.url, ENTRY).wait_until_there(WAIT_S)

    async def train(self) -> None:
        await self.client.ask("POST", "/register", (), {**TRAINER, "batch_size": 1})
        await self.client.ask("GET", "/batch")

    async def batches(self) -> list[int]:
        """Take all batches; return the numbers in their groups."""
        numbers: list[int] = []
        while (batch := (await self.client.ask("GET", "/batch", ("batch",)))["batch"]) is not None:
            numbers += [group["tokens"][0][0] for group in batch]
        return numbers

    async def shares(self) -> list[float]:
        """The share of each entry."""
        shares: list[float] = []
        try:
            while True:
                status = await self.client.ask("GET", "/status-env", (), {"env_id": len(shares)})
                shares.append(status["env_weight"])
        except RunApiFault:
            return shares

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
async def api() -> AsyncIterator[RunApiProcess]:
    api = RunApiProcess()
    try:
        await api.start()
        await api.train()
        yield api
    finally:
        api.kill()


@pytest.fixture
async def sessions(api: RunApiProcess) -> list[RunApiSession]:
    sessions = [RunApiSession(api.client.url, ENTRY) for _ in range(2)]
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


def put_all(queues: list[DeliveryQueue]) -> list[int]:
    """Put groups into all queues; return the numbers in them."""
    numbers = itertools.count()
    put = [(next(numbers), queue) for queue in queues for _ in range(50)]
    for number, queue in put:
        queue.put({"tokens": [[number]], "masks": [[number]], "scores": [0.5]})
    return [number for number, _ in put]


async def check(api: RunApiProcess, sessions: list[RunApiSession], queues: list[DeliveryQueue], put: list[int]) -> None:
    """All groups arrive once, and each environment has an entry of its own beside which there are no others."""
    for queue in queues:
        await queue.drain(WAIT_S)
    assert sorted(await api.batches()) == put
    shares = await api.shares()
    assert len({shares[session.registration.env_id] for session in sessions}) == len(shares) == len(sessions)
    assert sum(shares) == pytest.approx(1.0)


async def test_after_restarts_all_have_numbers_of_their_own_and_what_waited_arrives(
    api: RunApiProcess, sessions: list[RunApiSession], queues: list[DeliveryQueue]
) -> None:
    for _ in range(3):
        api.kill()
        put = put_all(queues)
        await until(lambda: all(session.state is State.UNCERTAIN for session in sessions))
        await api.start()
        await api.train()
        await check(api, sessions, queues, put)


async def test_a_run_api_that_hangs_is_waited_for_and_nobody_registers_again(
    api: RunApiProcess, sessions: list[RunApiSession], queues: list[DeliveryQueue]
) -> None:
    before = [session.registration for session in sessions]
    api.process.send_signal(signal.SIGSTOP)
    put = put_all(queues)
    await asyncio.sleep(1.0)
    api.process.send_signal(signal.SIGCONT)
    await check(api, sessions, queues, put)
    assert [session.registration for session in sessions] == before
    assert [queue.stats.repeated for queue in queues] == [0, 0]
