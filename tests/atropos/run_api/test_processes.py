"""Two environments at a run-api that is a process, which hangs, dies, comes back and is emptied."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest

from reasoning_env.atropos.run_api import DeliveryQueue, RunApiClient, RunApiFault, RunApiSession, State
from reasoning_env.atropos.run_api import queue as queue_module

from .conftest import ENTRY, WAIT_S, until
from .served import TRAINER


class RunApiProcess:
    """A run-api on a port of its own; `client` asks it what nobody else does."""

    def __init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = str(probe.getsockname()[1])
        self.client = RunApiClient(f"http://127.0.0.1:{self._port}")

    async def start(self, *, train: bool = True) -> None:
        command = [sys.executable, "-m", "atroposlib.cli.run_api", "--host", "127.0.0.1", "--port", self._port]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        await RunApiSession(self.client.url, ENTRY).wait_until_there(WAIT_S)
        if train:
            await self.train()

    async def train(self) -> None:
        await self.client.request("POST", "/register", {**TRAINER, "batch_size": 1})
        await self.client.request("GET", "/batch")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    async def batches(self) -> list[int]:
        """Take all batches; return the numbers in their groups."""
        numbers: list[int] = []
        while (batch := (await self.client.ask("GET", "/batch", ("batch",)))["batch"]) is not None:
            numbers += [group["tokens"][0][0] for group in batch]
        return numbers

    async def shares(self) -> list[float]:
        """The share of each entry."""
        shares: list[float] = []
        with contextlib.suppress(RunApiFault):
            while True:
                status = await self.client.ask("GET", "/status-env", (), {"env_id": len(shares)})
                shares.append(status["env_weight"])
        return shares


class Environment:
    """A session and its queue, asked for its status all the time, as BaseEnv does."""

    def __init__(self, url: str, first: int) -> None:
        self.session = RunApiSession(url, ENTRY)
        self.queue = DeliveryQueue(self.session, before_send=self._before_send, on_drop=lambda: None)
        self._numbers = itertools.count(first)

    async def __aenter__(self) -> Environment:
        await self.session.register()
        self.queue.start()
        self._asking = asyncio.create_task(self._ask())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._asking.cancel()
        await asyncio.gather(self._asking, return_exceptions=True)
        await self.queue.close()

    def put(self) -> int:
        """Put a group, and return the number in it."""
        number = next(self._numbers)
        self.queue.put({"tokens": [[number]], "masks": [[number]], "scores": [0.5]})
        return number

    async def _ask(self) -> None:
        while True:
            await self.session.status()
            await asyncio.sleep(0.01)

    async def _before_send(self) -> None:
        pass


@pytest.fixture
async def api() -> AsyncIterator[RunApiProcess]:
    api = RunApiProcess()
    await api.start()
    yield api
    api.kill()


@pytest.fixture
async def environments(
    api: RunApiProcess, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Environment, Environment]]:
    """Two that have delivered a group each, so that the trainer is past its first step."""
    monkeypatch.setattr(queue_module, "RETRY_S", 0.05)
    async with Environment(api.client.url, 1000) as first, Environment(api.client.url, 2000) as second:
        await deliver(api, first, second)
        yield first, second


async def deliver(api: RunApiProcess, *environments: Environment, times: int = 1) -> None:
    """Put groups and find each of them at run-api once."""
    put = [environment.put() for environment in environments for _ in range(times)]
    for environment in environments:
        await environment.queue.drain(WAIT_S)
    assert sorted(await api.batches()) == put


async def until_uncertain(environments: tuple[Environment, ...]) -> None:
    await until(lambda: all(environment.session.state is State.UNCERTAIN for environment in environments))


async def check_numbers(api: RunApiProcess, *environments: Environment) -> None:
    """Each environment has an entry of its own, and there are no others."""
    shares = await api.shares()
    own = [shares[environment.session.registration.env_id] for environment in environments]
    assert len(set(own)) == len(shares) == len(environments)
    assert sum(shares) == pytest.approx(1.0)


@pytest.mark.parametrize("trainer_first", [True, False])
async def test_after_restarts_all_have_numbers_of_their_own_and_what_waited_arrives(
    api: RunApiProcess, environments: tuple[Environment, Environment], *, trainer_first: bool
) -> None:
    for _ in range(2):
        api.kill()
        delivering = asyncio.create_task(deliver(api, *environments, times=50))
        await until_uncertain(environments)
        await api.start(train=trainer_first)
        if not trainer_first:
            await asyncio.sleep(0.5)
            await api.train()
        await delivering
        await check_numbers(api, *environments)


async def test_after_a_reset_all_register_again_and_what_waited_arrives(
    api: RunApiProcess, environments: tuple[Environment, Environment]
) -> None:
    await api.client.request("GET", "/reset_data")
    delivering = asyncio.create_task(deliver(api, *environments, times=50))
    await until_uncertain(environments)
    await api.train()
    await delivering
    await check_numbers(api, *environments)


async def test_a_run_api_that_hangs_is_waited_for_and_nobody_registers_again(
    api: RunApiProcess, environments: tuple[Environment, Environment]
) -> None:
    before = [environment.session.registration for environment in environments]
    api.process.send_signal(signal.SIGSTOP)
    delivering = asyncio.create_task(deliver(api, *environments, times=50))
    await asyncio.sleep(1.0)
    api.process.send_signal(signal.SIGCONT)
    await delivering
    await check_numbers(api, *environments)
    assert [environment.session.registration for environment in environments] == before
    assert [environment.queue.stats.repeated for environment in environments] == [0, 0]
