"""Saving where the problem stream stands, and taking it up again."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer

from reasoning_env.errors import ConfigError

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
    """Makes environments that are registered at the run-api; the one before is closed first, unless `beside` it."""
    before: list[TokenEnv] = []

    async def make_registered(*, beside: bool = False, **fields: Any) -> TokenEnv:
        if before and not beside:
            await before[-1].close()
        env = await make_env(**{"tasks": "chain_sum,gcd,lcm", "rollout_server_url": run_api.url, **fields})
        await env.register_env()
        before.append(env)
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


async def test_an_environment_that_comes_back_alone_goes_on_in_its_old_place(
    make: MakeEnv, run_api: RunApi, tmp_path: Path
) -> None:
    run_api.env_id = 3
    whole = await seeds(await make(), 10)
    run_api.folder = tmp_path / "other"
    served = await seeds(await make(), 5)
    run_api.env_id, run_api.starting_step = 8, STEP  # run-api lives on, and gives each newcomer the next number
    assert [*served, *await seeds(await make(), 5)] == whole


async def test_an_environment_that_joins_others_does_not_take_their_place(make: MakeEnv, run_api: RunApi) -> None:
    first = await make()
    first.save_checkpoint(STEP)
    run_api.env_id, run_api.starting_step = 1, STEP
    second = await make(beside=True)
    assert not set(await seeds(first, 20)) & set(await seeds(second, 20))


async def test_numbers_that_run_api_gives_anew_do_not_make_two_streams_meet(make: MakeEnv, run_api: RunApi) -> None:
    first = await make()
    second = await make(beside=True)  # run-api was restarted, and counts from 0 again
    assert not set(await seeds(first, 20)) & set(await seeds(second, 20))


async def test_two_environments_at_one_run_api_share_no_problem(make: MakeEnv, run_api: RunApi) -> None:
    first = await make()
    run_api.env_id = 1
    second = await make(beside=True)
    assert not set(await seeds(first, 50)) & set(await seeds(second, 50))


async def test_the_same_seed_gives_the_same_problems(make: MakeEnv) -> None:
    assert await seeds(await make(seed=9), 20) == await seeds(await make(seed=9), 20)


async def test_another_seed_gives_other_problems(make: MakeEnv) -> None:
    assert not set(await seeds(await make(seed=9), 20)) & set(await seeds(await make(seed=10), 20))


@pytest.mark.parametrize(("fields", "message"), [({"seed": 2}, "other seed"), ({"tasks": "chain_sum"}, "other tasks")])
async def test_a_checkpoint_of_another_run_is_refused(
    make: MakeEnv, run_api: RunApi, fields: dict[str, Any], message: str
) -> None:
    (await make()).save_checkpoint(STEP)
    run_api.starting_step = STEP
    with pytest.raises(ConfigError, match=rf"step-{STEP}.json was made with {message}; .*resume_with_changes"):
        await make(**fields)


async def test_a_refused_checkpoint_stays_as_it_was(make: MakeEnv, run_api: RunApi, make_env: MakeEnv) -> None:
    (await make()).save_checkpoint(STEP)
    run_api.starting_step = STEP
    refused = await make_env(tasks="chain_sum", rollout_server_url=run_api.url)
    await (await make()).close()
    before = {path: path.read_bytes() for path in run_api.folder.rglob("*.json")}
    with pytest.raises(ConfigError):
        await refused.register_env()
    await refused.close()
    assert {path: path.read_bytes() for path in run_api.folder.rglob("*.json")} == before


@pytest.mark.parametrize("fields", [{"seed": 2}, {"tasks": "chain_sum"}])
async def test_a_checkpoint_of_another_run_is_taken_up_when_told_so(
    make: MakeEnv, run_api: RunApi, fields: dict[str, Any]
) -> None:
    first = await make()
    await seeds(first, 7)
    first.save_checkpoint(STEP)
    run_api.starting_step = STEP
    resumed = await make(**fields, resume_with_changes=True)
    item = await resumed.get_next_item()
    # What was drawn ahead is left out, with its positions.
    assert item.problem.spec.index == 7 + first.config.prefetch_problems
    assert item.problem.task in resumed._run.backend.plan.tasks
    assert "groups=7 " in resumed._run.progress_line()


@pytest.mark.parametrize("text", ["", "{", "[]", '"x"', "{}"])
async def test_a_damaged_checkpoint_is_passed_over_with_a_warning(
    make: MakeEnv, run_api: RunApi, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    first = await make()
    await seeds(first, 4)
    first.save_checkpoint(STEP - 1)
    rest = await seeds(first, 10)
    first.save_checkpoint(STEP)
    await first.close()
    [path] = run_api.folder.rglob(f"step-{STEP}.json")
    for damaged in (path, path.with_name("latest.json")):
        damaged.write_text(text)
    run_api.starting_step = STEP
    assert await seeds(await make(), 10) == rest
    assert [record.levelname for record in caplog.records if f"step-{STEP}.json" in record.message] == ["WARNING"]


async def test_counts_and_numbers_of_files_go_on(make: MakeEnv, run_api: RunApi, tmp_path: Path) -> None:
    dumping = {"dump_failed_rollouts": True, "data_dumps_dir": str(tmp_path / "dumps")}
    first = await make(**dumping)
    await seeds(first, 4)
    first.completion_lengths = [5, 6]
    first.save_checkpoint(STEP)
    await first.close()
    run_api.starting_step = STEP
    second = await make(**dumping)
    await seeds(second, 3)
    assert "groups=7 " in second._run.progress_line()
    assert second.completion_lengths == [5, 6]
    await second.close()
    names = sorted(path.name for path in (tmp_path / "dumps").iterdir())
    assert [name.rpartition("_")[2] for name in names] == ["0000.jsonl", "0001.jsonl"]
    assert len({name.rpartition("_")[0] for name in names}) == 1


async def test_without_a_checkpoint_the_stream_starts_from_its_beginning_and_says_so(
    make: MakeEnv, run_api: RunApi, caplog: pytest.LogCaptureFixture
) -> None:
    beginning = await seeds(await make(), 5)
    run_api.folder = run_api.folder / "empty"
    run_api.starting_step = STEP
    assert await seeds(await make(), 5) == beginning
    assert "the problem stream starts from its beginning" in caplog.text


async def test_a_subclass_can_keep_data_of_its_own_in_the_checkpoint(make: MakeEnv, run_api: RunApi) -> None:
    first = await make()
    first.save_checkpoint(STEP, {"mine": [1, 2]})
    run_api.starting_step = STEP
    assert (await make()).mine == [1, 2]


async def test_without_a_folder_nothing_is_kept(
    make: MakeEnv, run_api: RunApi, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run_api.folder = tmp_path / "file"
    run_api.folder.write_text("")
    env = await make()
    env.save_checkpoint(STEP)
    await seeds(env, 3)
    await env.close()
    assert [record.levelname for record in caplog.records if record.levelno > logging.INFO] == ["WARNING"]
    assert "runs without them" in caplog.text
