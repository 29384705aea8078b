"""Fixtures: environments with Atropos' own clients and an inference server over HTTP."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from atroposlib.envs.server_handling.server_baseline import APIServer, APIServerConfig
from tenacity import wait_none
from transformers import AutoTokenizer

from reasoning_gym_environment import ReasoningGymEnv, ReasoningGymEnvConfig
from reasoning_gym_testing import TOKENIZER, Completion, InferenceServer
from reasoning_gym_testing.completions import Policy
from tests.lent_pool import lent_pool
from tests.waiting import PATIENCE_S

GROUP_SIZE = 4
WRONG = "<answer>nonsense</answer>"
NOWHERE = APIServerConfig(server_type="vllm", base_url="http://127.0.0.1:9/v1", api_key="x", model_name="m")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run all coroutines of this folder on one event loop, so that they can share worker processes."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and inspect.iscoroutinefunction(getattr(item, "function", None)):
            item.add_marker(pytest.mark.asyncio(loop_scope="package"), append=False)


@pytest.fixture(scope="package", autouse=True)
def one_tokenizer(tokenizer: Any) -> Iterator[None]:
    """Load the test tokenizer once for all environments and servers."""
    load = AutoTokenizer.from_pretrained

    def load_once(name: str, **options: Any) -> Any:
        return tokenizer if name == TOKENIZER else load(name, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AutoTokenizer, "from_pretrained", load_once)
        yield


@pytest.fixture(scope="package", autouse=True)
def usual_garbage_collector() -> Iterator[None]:
    """Prevent environments from excluding the objects of a test from garbage collection."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("reasoning_env.atropos.lifetime.tune_garbage_collector", lambda: None)
        yield


class Env(ReasoningGymEnv):
    """The environment. `reported` has the metrics of every call of `wandb_log`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.reported: list[dict[str, Any]] = []

    async def create_rollout_table(self, wandb_metrics: dict[str, Any]) -> dict[str, Any]:
        metrics = await super().create_rollout_table(wandb_metrics)
        self.reported.append(metrics)
        return metrics

    async def report(self) -> dict[str, Any]:
        """Return the metrics since the last report."""
        await self.wandb_log()
        return self.reported[-1]


def make_config(**fields: Any) -> ReasoningGymEnvConfig:
    """Return settings for a small environment without wandb and without long waits."""
    small = {
        "tokenizer_name": TOKENIZER,
        "tasks": ["chain_sum"],
        "group_size": GROUP_SIZE,
        "num_generators": 1,
        "num_verifiers": 1,
        "scoring_deadline_s": PATIENCE_S,
        "use_wandb": False,
    }
    return ReasoningGymEnvConfig(**{**small, **fields})


def make_env_object(
    servers: Sequence[APIServerConfig] = (NOWHERE,), *, testing: bool = False, pool: Any = None, **fields: Any
) -> Env:
    """Return an environment before its `setup`."""
    return Env(make_config(**fields), list(servers), testing=testing, pool=pool)


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def workers() -> AsyncIterator[Any]:
    async with lent_pool() as pool:
        yield pool


@pytest_asyncio.fixture(loop_scope="package")
async def server() -> AsyncIterator[InferenceServer]:
    async with InferenceServer() as running:
        yield running


MakeEnv = Callable[..., Awaitable[Env]]


@pytest_asyncio.fixture(loop_scope="package")
async def make_env(workers: Any, server: InferenceServer) -> AsyncIterator[MakeEnv]:
    """Makes environments that use the test server and have run `setup`; closes all at the end."""
    made = []

    async def make(kind: str = "vllm", **fields: Any) -> Env:
        env = make_env_object([server.config(kind)], pool=workers, **fields)
        made.append(env)
        await env.setup()
        return env

    yield make
    for env in made:
        await env.close()


@pytest.fixture(autouse=True)
def no_pauses_between_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the random pauses before Atropos' two retries, which take seconds."""
    for method in (
        APIServer._comp,
        APIServer._comp_eval,
        APIServer._tokens_and_logprobs_comp,
        APIServer._tokens_and_logprobs_comp_eval,
    ):
        monkeypatch.setattr(method.retry, "wait", wait_none())


def right(item: Any) -> str:
    return f"<think>I know it.</think><answer>{item.problem.answer}</answer>"


def in_turn(completions: Sequence[str | Completion]) -> Policy:
    """Return a policy that gives the completions in order, whatever number a request asks for."""
    supply = itertools.cycle(completions)
    return lambda request: list(itertools.islice(supply, request.n))


Collect = Callable[..., Awaitable[Any]]


@pytest.fixture
def collect(server: InferenceServer) -> Collect:
    """Collects a group of the given replies, in which "right" means the right answer; returns group and item."""

    async def collect(env: Env, *replies: str | Completion) -> tuple[Any, Any]:
        item = await env.get_next_item()
        texts = [right(item) if reply == "right" else reply for reply in replies]
        server.policy = in_turn(texts)
        group, backlog = await env.collect_trajectories(item)
        assert backlog == []
        return group, item

    return collect
