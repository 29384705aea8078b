"""The environment at a run-api: registering, being forgotten, what is cancelled, and leaving."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio

from reasoning_env.atropos import RunMode
from reasoning_env.errors import ConfigError
from tests.atropos.run_api.served import ServedRunApi

from .conftest import MakeEnv
from .fakes import Reply, TokenEnv

RIGHT_AND_WRONG = [Reply("<answer>nonsense</answer>"), Reply("<answer>other</answer>")] * 2
WAIT_S = 60.0

Make = Callable[..., Awaitable[TokenEnv]]


@pytest_asyncio.fixture(loop_scope="package")
async def api() -> AsyncIterator[ServedRunApi]:
    async with ServedRunApi() as api:
        yield api


@pytest.fixture
def make(make_env: MakeEnv, api: ServedRunApi) -> Make:
    """Makes environments that are registered and serve groups whatever their scores are."""

    async def make_registered(**fields: Any) -> TokenEnv:
        fields = {"ensure_scores_are_not_same": False, "rollout_server_url": api.url, "shutdown_grace_s": 0.5, **fields}
        env: TokenEnv = await make_env(**fields)
        env._run.mode = RunMode.SERVE
        await env.register_env()
        await env.get_server_info()
        return env

    return make_registered


async def serve(env: TokenEnv) -> int:
    """Take a problem through BaseEnv's own handling, up to the outbox, and return its position."""
    item = await env.get_next_item()
    key = f"item {item.problem.spec.index}"
    worker = asyncio.create_task(env.handle_env(key))
    env.running_items[key] = {"item": item, "worker": worker, "start_time": 0.0}
    env.workers.add(worker)
    await asyncio.wait([worker])
    env.workers.discard(worker)
    return int(item.problem.spec.index)


class Silent:
    """Keeps the first request until it is released."""

    def __init__(self, env: TokenEnv) -> None:
        self.released = asyncio.Event()
        self.asked = asyncio.Event()
        answer = env.log.answer

        async def wait(request: dict[str, Any]) -> Any:
            if not self.asked.is_set():
                self.asked.set()
                await self.released.wait()
            return await answer(request)

        env.log.answer = wait  # type: ignore[method-assign]


async def start_worker(env: TokenEnv) -> tuple[Any, asyncio.Task[Any]]:
    item = await env.get_next_item()
    key = f"item {item.problem.spec.index}"
    worker = asyncio.create_task(env.handle_env(key))
    env.running_items[key] = {"item": item, "worker": worker, "start_time": 0.0}
    env.workers.add(worker)
    worker.add_done_callback(env.workers.discard)
    return item, worker


async def until_something_waits(env: TokenEnv) -> None:
    while not env._run.queue.stats.waiting:  # noqa: ASYNC110 - there is no event for it
        await asyncio.sleep(0.01)


async def test_groups_reach_run_api_in_the_environments_name(make: Make, api: ServedRunApi) -> None:
    env = await make()
    assert [await serve(env) for _ in range(3)] == [0, 1, 2]
    await env._run.queue.drain(WAIT_S)
    assert [group["env_id"] for group in api.groups] == [env.env_id] * 3


async def test_an_environment_that_was_forgotten_registers_again_and_goes_on(make: Make, api: ServedRunApi) -> None:
    env = await make()
    await serve(env)
    await env._run.queue.drain(WAIT_S)
    await api.reset()
    asked = api.count("/info")
    await serve(env)
    asking = asyncio.create_task(env.get_status())
    while api.count("/info") == asked:  # noqa: ASYNC110 - there is no event for it
        await asyncio.sleep(0.01)
    assert api.groups == []
    await api.train(starting_step=7)
    await asyncio.wait_for(asking, WAIT_S)
    await env._run.queue.drain(WAIT_S)
    assert len(api.groups) == 1
    assert (env.curr_step, env.status_dict["current_step"]) == (7, 7)
    assert await serve(env) == 2


async def test_a_group_that_does_not_fit_the_trainer_is_an_error(make: Make) -> None:
    with pytest.raises(ConfigError, match=r"group_size \(33\) must be at most its batch_size \(32\)"):
        await make(group_size=33)


async def test_a_cancelled_group_stays_in_flight(make: Make) -> None:
    env = await make()
    silent = Silent(env)
    _, worker = await start_worker(env)
    await silent.asked.wait()
    worker.cancel()
    await asyncio.wait([worker])
    assert (env._run.backend.source.in_flight, sum(env._run.metrics.dropped.values())) == (1, 0)


async def test_a_group_that_takes_too_long_while_others_succeed_is_dropped_and_counted(make: Make) -> None:
    env = await make(worker_timeout=0.5)
    silent = Silent(env)
    _, worker = await start_worker(env)
    await silent.asked.wait()
    await serve(env)
    await asyncio.wait([worker])
    assert env._run.backend.source.in_flight == 0
    assert (await env.report())["dropped/timed_out"] == 1


async def test_a_group_is_asked_for_again_while_none_succeeds(make: Make) -> None:
    env = await make(worker_timeout=0.3, startup_timeout_s=None)
    silent = Silent(env)
    _, worker = await start_worker(env)
    await silent.asked.wait()
    await asyncio.wait([worker])
    assert (await env.report())["dropped/timed_out"] == 0
    assert env._run.queue.stats.waiting + env._run.queue.stats.delivered == 1


async def test_a_group_on_its_way_outlasts_the_cancellation_of_its_worker(make: Make, api: ServedRunApi) -> None:
    env = await make()
    api.faults = {"/status-env": 503}
    _, worker = await start_worker(env)
    await until_something_waits(env)
    worker.cancel()
    await asyncio.wait([worker])
    assert env.backlog == []
    api.faults.clear()
    await env._run.queue.drain(WAIT_S)
    assert len(api.groups) == 1


async def test_the_end_lets_groups_in_flight_finish_and_says_goodbye(make: Make, api: ServedRunApi) -> None:
    env = await make(shutdown_grace_s=30.0)
    silent = Silent(env)
    await start_worker(env)
    await silent.asked.wait()
    asyncio.get_running_loop().call_later(0.2, silent.released.set)
    await env.close()
    assert len(api.groups) == 1
    assert api.connected == []
    assert api.requests[-1][0] == "/disconnect-env"


async def test_the_end_waits_no_longer_than_the_grace(make: Make, api: ServedRunApi) -> None:
    env = await make(shutdown_grace_s=0.2)
    silent = Silent(env)
    _, worker = await start_worker(env)
    await silent.asked.wait()
    await asyncio.wait_for(env.close(), WAIT_S)
    assert worker.done()
    assert env._run.backend.source.in_flight == 1
    assert api.connected == []


async def test_the_end_does_not_depend_on_run_api(make: Make, api: ServedRunApi) -> None:
    env = await make()
    api.stop()
    await asyncio.wait_for(env.close(), WAIT_S)


async def test_groups_that_were_not_delivered_are_delivered_by_the_resumed_run(
    make: Make, api: ServedRunApi, tmp_path: Any
) -> None:
    await api.reset()
    await api.train(checkpoint_dir=str(tmp_path))
    first = await make()
    await serve(first)
    await first._run.queue.drain(WAIT_S)
    api.faults = {"/status-env": 503}
    await start_worker(first)
    await until_something_waits(first)
    await first.close()
    assert len(api.groups) == 1
    api.faults.clear()
    await api.reset()
    await api.train(checkpoint_dir=str(tmp_path), starting_step=1)
    second = await make()
    await second._run.queue.drain(WAIT_S)
    assert len(api.groups) == 1
    assert await serve(second) == 2
