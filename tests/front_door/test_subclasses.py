"""Override every hook that the subclass table of docs/own.md lists."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from atroposlib.envs.base import ScoredDataGroup

from reasoning_env.atropos import Imported, Mode, Process, RolloutItem, Serve
from reasoning_env.atropos.launch import build_launch
from reasoning_env.atropos.wire import LONG_FIELDS
from reasoning_env.records import Group
from reasoning_gym_environment import ReasoningGymEnvConfig
from reasoning_gym_testing import InferenceServer
from tests.atropos.run_api.served import ServedRunApi
from tests.waiting import PATIENCE_S

from .conftest import WRONG, Env, make_config, right


class OwnConfig(ReasoningGymEnvConfig):
    """A config with one additional field."""

    bonus: float = 0.5


class Own(Env):
    """Overrides every hook that the table lists."""

    env_config_cls = OwnConfig

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.called: list[str] = []

    @classmethod
    def config_init(cls) -> tuple[Any, list[Any]]:
        _config, servers = super().config_init()
        return OwnConfig(group_size=2), servers

    async def setup(self) -> None:
        await super().setup()
        self.called.append("setup")

    async def get_next_item(self) -> RolloutItem:
        while (item := await super().get_next_item()).problem.task != "gcd":
            self.session.done(item.problem)
        return item

    async def collect_trajectories(self, item: RolloutItem) -> tuple[ScoredDataGroup | None, list[RolloutItem]]:
        group, backlog = await super().collect_trajectories(item)
        if group is not None:
            group["group_overrides"] = {"task": item.problem.task}
        return group, backlog

    async def score(self, group: Group) -> ScoredDataGroup | None:
        scored = await super().score(group)
        if scored is not None:
            assert [rollout.finish_reason for rollout in group.rollouts] == ["stop", "stop"]
            scored["scores"] = [score + self.config.bonus if score == 1.0 else score for score in scored["scores"]]
        return scored

    async def evaluate(self, *args: Any, **kwargs: Any) -> None:
        await self.wandb_log({"eval/own": 1.0})

    async def wandb_log(self, wandb_metrics: dict[str, Any] | None = None) -> None:
        await super().wandb_log({**(wandb_metrics or {}), "own/metric": 2.0})

    async def close(self) -> None:
        self.called.append("close")
        await super().close()


@pytest_asyncio.fixture(loop_scope="package")
async def api() -> AsyncIterator[ServedRunApi]:
    async with ServedRunApi() as api:
        yield api


@pytest_asyncio.fixture(loop_scope="package")
async def env(workers: Any, server: InferenceServer, api: ServedRunApi) -> AsyncIterator[Own]:
    """The subclass, registered at run-api."""
    fields = make_config(tasks="chain_sum,gcd", group_size=2, rollout_server_url=api.url)
    env = Own(OwnConfig(**fields.model_dump()), [server.config("vllm")], pool=workers)
    await env.setup()
    env._run.mode = Serve()
    await env.register_env()
    await env.get_server_info()
    yield env
    await env.close()


async def sent_to_run_api(env: Own, server: InferenceServer, api: ServedRunApi) -> Any:
    """The group with a right and a wrong completion that run-api received."""
    item = await env.get_next_item()
    server.policy = lambda request: [right(item), WRONG]
    group, _ = await env.collect_trajectories(item)
    await env.handle_send_to_api(group, item)
    await env._run.queue.drain(PATIENCE_S)
    [sent] = api.groups
    return sent


def test_overridden_config_init_method_of_a_subclass_is_called() -> None:
    assert build_launch(Own, Serve(), {}).config == OwnConfig(group_size=2)


class WithOwnConfig(Env):
    """Sets its config class, and overrides no hook."""

    env_config_cls = OwnConfig


def test_config_init_method_uses_the_config_class_of_a_subclass() -> None:
    config, _ = WithOwnConfig.config_init()
    assert isinstance(config, OwnConfig)


@pytest.mark.parametrize("env_cls", [Own, WithOwnConfig])
def test_subclass_setting_is_a_command_line_option(env_cls: type[Env]) -> None:
    config: Any = build_launch(env_cls, Serve(), {"env.bonus": "0.25"}).config
    assert config.bonus == 0.25


def test_subclass_setting_is_read_from_yaml(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text("env:\n  bonus: 0.75\n")
    config: Any = build_launch(Own, Serve(), {"config": str(file)}).config
    assert config.bonus == 0.75


async def test_problem_skipped_by_a_subclass_is_not_in_flight(env: Own) -> None:
    assert [(await env.get_next_item()).problem.task for _ in range(4)] == ["gcd"] * 4
    assert env.session.in_flight == 4


@pytest.mark.parametrize("mode", [Imported(), Serve(), Process()])
async def test_collect_trajectories_returns_tokens_to_a_subclass_as_lists(
    env: Own, server: InferenceServer, mode: Mode
) -> None:
    env._run.mode = mode
    item = await env.get_next_item()
    server.policy = lambda request: [right(item), WRONG]
    group, _ = await env.collect_trajectories(item)
    assert group is not None
    assert {type(one) for name in LONG_FIELDS for one in group[name]} == {list}


async def test_group_field_added_by_a_subclass_is_sent_to_run_api(
    env: Own, server: InferenceServer, api: ServedRunApi
) -> None:
    assert (await sent_to_run_api(env, server, api))["group_overrides"] == {"task": "gcd"}


async def test_score_bonus_of_a_subclass_is_sent_to_run_api(
    env: Own, server: InferenceServer, api: ServedRunApi
) -> None:
    assert (await sent_to_run_api(env, server, api))["scores"] == [1.5, 0.0]


async def test_mean_score_excludes_the_score_bonus_that_a_subclass_adds(
    env: Own, server: InferenceServer, api: ServedRunApi
) -> None:
    await sent_to_run_api(env, server, api)
    assert (await env.report())["train/mean_score"] == 0.5


async def test_evaluate_method_of_a_subclass_is_called(env: Own) -> None:
    await env.evaluate()
    assert env.reported[-1]["eval/own"] == 1.0


async def test_metrics_of_a_subclass_are_reported(env: Own) -> None:
    assert {"own/metric", "workers/queued_jobs"} <= (await env.report()).keys()


async def test_process_command_calls_setup_of_an_environment_subclass(
    workers: Any, server: InferenceServer, tmp_path: Path
) -> None:
    fields = make_config(tasks="gcd", group_size=2, total_steps=1, data_path_to_save_groups=str(tmp_path / "groups"))
    env = Own(OwnConfig(**fields.model_dump()), [server.config("vllm")], pool=workers)
    await env.process_manager()
    assert env.called == ["setup", "close"]
