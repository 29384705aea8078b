"""Saving where the problem stream stands, and taking it up again."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer

from reasoning_env import ConfigError

from .conftest import MakeEnv
from .fakes import TokenEnv

STEP = 5


class RunApi:
    """Answers a registration as run-api does; `env_ids` are given out in turn."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.starting_step = 0
        self.env_id = 0

    async def register(self, request: web.Request) -> web.Response:
        name = (await request.json())["desired_name"]
        return web.json_response(
            {
                "status": "success",
                "env_id": self.env_id,
                "wandb_name": f"{name}_{self.env_id}",
                "checkpoint_dir": str(self.folder),
                "starting_step": self.starting_step,
                "checkpoint_interval": STEP,
                "num_steps": 100,
            }
        )


@pytest_asyncio.fixture(loop_scope="package")
async def run_api(tmp_path: Path) -> AsyncIterator[RunApi]:
    api = RunApi("", tmp_path)
    app = web.Application()
    app.router.add_post("/register-env", api.register)
    async with TestServer(app) as server:
        api.url = str(server.make_url(""))
        yield api


@pytest.fixture
def make(make_env: MakeEnv, run_api: RunApi) -> MakeEnv:
    """Makes environments that are registered at the run-api."""

    async def make_registered(**fields: Any) -> TokenEnv:
        env = await make_env(**{"tasks": "chain_sum,gcd,lcm", "rollout_server_url": run_api.url, **fields})
        await env.register_env()
        return env

    return make_registered


async def seeds(env: TokenEnv, count: int) -> list[int]:
    """Take problems, finish each one's group, and return their seeds."""
    taken = []
    for _ in range(count):
        item = await env.get_next_item()
        await env.collect_trajectories(item)
        taken.append(item.problem.spec.seed)
    return taken


async def test_a_resumed_run_goes_on_where_it_stopped(make: MakeEnv, run_api: RunApi) -> None:
    first = await make()
    await seeds(first, 7)
    first.save_checkpoint(STEP)
    rest = await seeds(first, 20)
    run_api.starting_step = STEP
    assert await seeds(await make(), 20) == rest


async def test_a_resumed_run_serves_first_what_was_under_way(make: MakeEnv, run_api: RunApi) -> None:
    first = await make()
    await seeds(first, 3)
    under_way = [(await first.get_next_item()).problem.spec for _ in range(4)]
    first.save_checkpoint(STEP)
    run_api.starting_step = STEP
    resumed = await make()
    assert [(await resumed.get_next_item()).problem.spec for _ in range(4)] == under_way


async def test_a_checkpoint_of_a_resumed_run_can_be_resumed_too(make: MakeEnv, run_api: RunApi) -> None:
    whole = await seeds(await make(), 20)
    served = []
    for part in range(4):
        env = await make()
        served += await seeds(env, 5)
        run_api.starting_step = (part + 1) * STEP
        env.save_checkpoint(run_api.starting_step)
    assert served == whole


async def test_a_resumed_run_keeps_the_stream_that_its_number_had(make: MakeEnv, run_api: RunApi) -> None:
    run_api.env_id = 3
    first = await make()
    first.save_checkpoint(STEP)
    name = first.wandb_prepend
    rest = await seeds(first, 5)
    run_api.starting_step, run_api.env_id = STEP, 0
    folder = run_api.folder / "env_checkpoints"
    (folder / name).rename(folder / name.replace("_3", "_0"))
    assert await seeds(await make(), 5) == rest


async def test_two_environments_at_one_run_api_share_no_problem(make: MakeEnv, run_api: RunApi) -> None:
    first = await make()
    run_api.env_id = 1
    second = await make()
    assert not set(await seeds(first, 50)) & set(await seeds(second, 50))


async def test_the_same_seed_gives_the_same_problems(make: MakeEnv) -> None:
    assert await seeds(await make(seed=9), 20) == await seeds(await make(seed=9), 20)


async def test_another_seed_gives_other_problems(make: MakeEnv) -> None:
    assert not set(await seeds(await make(seed=9), 20)) & set(await seeds(await make(seed=10), 20))


async def test_a_checkpoint_of_another_seed_is_refused(make: MakeEnv, run_api: RunApi) -> None:
    (await make(seed=1)).save_checkpoint(STEP)
    run_api.starting_step = STEP
    with pytest.raises(ConfigError, match="other seed"):
        await make(seed=2)


async def test_a_checkpoint_of_other_tasks_is_refused(make: MakeEnv, run_api: RunApi) -> None:
    (await make()).save_checkpoint(STEP)
    run_api.starting_step = STEP
    with pytest.raises(ConfigError, match="other tasks"):
        await make(tasks="chain_sum")


@pytest.mark.parametrize("text", ["", "{", "[]", '"x"', "{}"])
async def test_a_damaged_checkpoint_is_refused_by_name(make: MakeEnv, run_api: RunApi, text: str) -> None:
    first = await make()
    first.save_checkpoint(STEP)
    [path] = run_api.folder.rglob(f"step-{STEP}.json")
    path.write_text(text)
    run_api.starting_step = STEP
    with pytest.raises(ConfigError, match=f"step-{STEP}.json"):
        await make()


async def test_without_a_checkpoint_the_stream_starts_from_its_beginning_and_says_so(
    make: MakeEnv, run_api: RunApi, caplog: pytest.LogCaptureFixture
) -> None:
    beginning = await seeds(await make(), 5)
    run_api.starting_step = STEP
    assert await seeds(await make(), 5) == beginning
    assert f"step-{STEP}.json" in caplog.text


async def test_a_subclass_can_keep_data_of_its_own_in_the_checkpoint(make: MakeEnv, run_api: RunApi) -> None:
    env = await make()
    env.save_checkpoint(STEP, {"mine": [1, 2]})
    [path] = run_api.folder.rglob(f"step-{STEP}.json")
    state = json.loads(path.read_text())
    assert (state["mine"], state["seed"]) == ([1, 2], env.config.seed)
