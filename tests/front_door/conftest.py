from __future__ import annotations

import inspect
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
import pytest_asyncio
from atroposlib.envs.server_handling.server_baseline import APIServer, APIServerConfig
from tenacity import wait_none

from demo.policy import ScriptedPolicy
from reasoning_env.atropos import run as run_module
from reasoning_env.records import LibraryInfo
from reasoning_env.workers.pool import PoolSettings, WorkerPool
from reasoning_gym_environment import ReasoningGymEnvConfig
from testing import InferenceServer

from .fakes import TOKENIZER_FOLDER, TokenEnv
from .http_servers import HttpEnv

MakeEnv = Callable[..., Awaitable[Any]]
MakeFor = Callable[..., Awaitable[Any]]
GROUP_SIZE = 4


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run this folder's coroutines on one event loop, so that they can share the worker processes."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and inspect.iscoroutinefunction(getattr(item, "function", None)):
            item.add_marker(pytest.mark.asyncio(loop_scope="package"), append=False)


class LentPool:
    """Real workers that are started already, and that outlive the environment they are lent to."""

    def __init__(self, pool: WorkerPool, library: LibraryInfo) -> None:
        self._pool = pool
        self._library = library

    async def start(self) -> LibraryInfo:
        return self._library

    async def close(self) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def workers() -> AsyncIterator[LentPool]:
    pool = WorkerPool(PoolSettings(generators=1, verifiers=1))
    yield LentPool(pool, await pool.start())
    await pool.close()


def make_config(**fields: Any) -> ReasoningGymEnvConfig:
    """Settings for a small environment without wandb."""
    small = {
        "tokenizer_name": str(TOKENIZER_FOLDER),
        "tasks": ["chain_sum"],
        "group_size": GROUP_SIZE,
        "num_generators": 1,
        "num_verifiers": 1,
        "prefetch_problems": 2,
        "use_wandb": False,
    }
    return ReasoningGymEnvConfig(**{**small, **fields})


NOWHERE = APIServerConfig(server_type="vllm", base_url="http://127.0.0.1:9/v1", api_key="x", model_name="m")


def make_env_object(
    cls: Callable[..., Any] = TokenEnv, servers: Sequence[APIServerConfig] = (NOWHERE,), **fields: Any
) -> Any:
    """An environment before `setup`."""
    return cls(make_config(**fields), list(servers))


@pytest_asyncio.fixture(loop_scope="package")
async def make_env(workers: LentPool, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[MakeEnv]:
    """Makes environments that are ready for use, and closes them at the end."""
    made = []

    async def make(cls: Callable[..., Any] = TokenEnv, *, own_workers: bool = False, **fields: Any) -> Any:
        env = make_env_object(cls, **fields)
        made.append(env)
        with monkeypatch.context() as patch:
            if not own_workers:
                patch.setattr(run_module, "WorkerPool", lambda settings: workers)
            await env.setup()
        return env

    yield make
    for env in made:
        await env.close()


@pytest.fixture(autouse=True)
def no_pauses_between_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Atropos repeats a failed request twice, after random pauses of seconds; the repeats stay, the pauses go."""
    for method in (
        APIServer._comp,
        APIServer._comp_eval,
        APIServer._tokens_and_logprobs_comp,
        APIServer._tokens_and_logprobs_comp_eval,
    ):
        monkeypatch.setattr(method.retry, "wait", wait_none())


@pytest_asyncio.fixture(loop_scope="package")
async def server() -> AsyncIterator[InferenceServer]:
    async with InferenceServer(ScriptedPolicy(skill=0.5, seed=3)) as running:
        yield running


@pytest.fixture
def make_for(make_env: MakeEnv, kind: str) -> MakeFor:
    """Makes environments, with Atropos' own clients of the kind that the test is parametrized with, for a server."""

    async def make(server: InferenceServer, server_type: str = kind, timeout_s: int = 1200, **fields: Any) -> Any:
        return await make_env(HttpEnv, servers=[server.config(server_type, timeout=timeout_s)], **fields)

    return make
