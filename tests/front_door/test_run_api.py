"""The environment with run-api: registration, delivery, checkpoints and resume."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from reasoning_env.atropos import Serve
from reasoning_env.atropos.lifetime import Lifetime
from reasoning_env.atropos.run_api import RunApiSession
from reasoning_env.errors import ConfigError
from reasoning_env.records import ProblemSpec
from reasoning_env.runtime import retries
from reasoning_gym_testing import InferenceServer
from tests.atropos.run_api.served import ServedRunApi
from tests.waiting import PATIENCE_S, until

from .conftest import GROUP_SIZE, WRONG, Env, MakeEnv, right

STEP = 5


@pytest_asyncio.fixture(loop_scope="package")
async def api(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ServedRunApi]:
    monkeypatch.setattr(RunApiSession, "longest_pause_s", 0.01)
    monkeypatch.setattr(retries, "LONGEST_PAUSE_S", 0.05)
    async with ServedRunApi() as api:
        yield api


@pytest.fixture
def make(api: ServedRunApi, make_env: MakeEnv) -> MakeEnv:
    """Makes environments that are registered at run-api. run-api keeps running after the environments are closed."""

    async def make_registered(**fields: Any) -> Env:
        fixed = {"tasks": "chain_sum,gcd,lcm", "ensure_scores_are_not_same": False}
        env = await make_env(**{**fixed, "rollout_server_url": api.url, **fields})
        env._run.mode = Serve()
        await env.register_env()
        await env.get_server_info()
        return env

    return make_registered


async def send_one(env: Env) -> None:
    """Collect a group and send it to run-api."""
    item = await env.get_next_item()
    group, _ = await env.collect_trajectories(item)
    await env.handle_send_to_api(group, item)


async def test_group_larger_than_the_trainer_batch_raises(make: MakeEnv) -> None:
    with pytest.raises(ConfigError, match=r"env\.group_size: .*, 32; got 33"):
        await make(group_size=33)


@pytest.mark.parametrize("steps", [0, -1])
async def test_environment_raises_if_neither_it_nor_the_trainer_sets_total_steps(
    make: MakeEnv, api: ServedRunApi, steps: int
) -> None:
    await api.reset()
    await api.train(num_steps=steps)
    with pytest.raises(ConfigError, match=rf"the trainer registered {steps} steps;.*set env\.total_steps"):
        await make(total_steps=-1)


async def test_mock_server_does_not_change_the_configured_number_of_workers(make: MakeEnv, api: ServedRunApi) -> None:
    env = await make()
    env.server = object()
    await env.get_status()
    assert env.max_num_workers == env.config.max_num_workers_per_node


@pytest.fixture
def serve(server: InferenceServer) -> Callable[..., Awaitable[list[ProblemSpec]]]:
    """Lets an environment deliver groups in order, and returns their specs.

    The seed of a problem sets its number of right answers.
    """

    async def serve(env: Env, groups: int) -> list[ProblemSpec]:
        specs = []
        for _ in range(groups):
            item = await env.get_next_item()
            texts = [right(item)] * (item.problem.spec.seed % (GROUP_SIZE + 1)) + [WRONG] * GROUP_SIZE
            server.policy = lambda request, texts=texts: texts[: request.n]  # type: ignore[misc]
            group, _ = await env.collect_trajectories(item)
            await env.handle_send_to_api(group, item)
            await until(lambda: env._run.session.in_flight == 0)
            specs.append(item.problem.spec)
        return specs

    return serve


@pytest.fixture
def resume(make: MakeEnv, api: ServedRunApi, tmp_path: Path) -> MakeEnv:
    """Makes an environment with a checkpoint folder and a trainer at the given step; closes earlier environments."""
    made: list[Env] = []

    async def start(step: int, **fields: Any) -> Env:
        for env in made:
            await env.close()
        await api.reset()
        await api.train(checkpoint_dir=str(tmp_path), starting_step=step, save_checkpoint_interval=STEP)
        made.append(await make(**fields))
        return made[-1]

    return start


ServeGroups = Callable[..., Awaitable[list[ProblemSpec]]]


async def test_checkpoint_data_of_an_environment_subclass_is_restored_on_resume(
    resume: MakeEnv, serve: ServeGroups
) -> None:
    first = await resume(0)
    await serve(first, 8)
    first.save_checkpoint(STEP, {"mine": [1, 2]})
    second: Any = await resume(STEP)
    assert second.mine == [1, 2]


async def count_shared(serve: ServeGroups, environments: Sequence[Env]) -> int:
    seeds = [spec.seed for env in environments for spec in await serve(env, 6)]
    return len(seeds) - len(set(seeds))


async def test_environments_with_different_instance_numbers_share_no_problem(
    resume: MakeEnv, make: MakeEnv, serve: ServeGroups, api: ServedRunApi, tmp_path: Path
) -> None:
    environments = [await resume(0), await make(instance=1)]
    api.forget()
    await api.train(checkpoint_dir=str(tmp_path), save_checkpoint_interval=STEP)
    environments.append(await make(instance=2))
    assert [env.env_id for env in environments] == [0, 1, 0]
    assert await count_shared(serve, environments) == 0


async def test_two_environments_without_checkpoints_serve_no_problem_in_common(
    make: MakeEnv, serve: ServeGroups
) -> None:
    assert await count_shared(serve, [await make(), await make()]) == 0


async def test_second_environment_with_the_same_instance_number_raises(resume: MakeEnv, make: MakeEnv) -> None:
    await resume(0)
    with pytest.raises(ConfigError, match=r"env\.instance"):
        await make()


async def test_problems_of_undelivered_groups_are_served_again_after_a_restart(
    resume: MakeEnv, api: ServedRunApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await resume(0)
    await send_one(first)
    await first._run.queue.drain(PATIENCE_S)
    api.faults = {"/status-env": 503}
    await send_one(first)
    # Both the delivery and the leave request fail.
    monkeypatch.setattr(Lifetime, "least_drain_s", 0.01)
    monkeypatch.setattr("reasoning_env.atropos.modes.shutdown.SHUTDOWN_GRACE_S", 0.01)
    monkeypatch.setattr(RunApiSession, "leave_timeout_s", 0.01)
    await first.close()
    assert len(api.groups) == 1
    api.faults.clear()
    second = await resume(1)
    assert [(await second.get_next_item()).problem.spec.index for _ in range(2)] == [1, 2]
