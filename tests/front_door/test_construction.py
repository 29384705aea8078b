"""What is refused before anything is started, and what works as it is."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from atroposlib.envs.server_handling.server_baseline import APIServerConfig

from reasoning_env.errors import ConfigError
from reasoning_env.library_facts import gameable_tasks
from reasoning_gym_environment import ReasoningGymEnv, ReasoningGymEnvConfig

from .conftest import MakeEnv, make_config, make_env_object
from .fakes import TOKENIZER_FOLDER, TokenEnv


def server(server_type: str = "openai", port: int = 9) -> APIServerConfig:
    return APIServerConfig(server_type=server_type, base_url=f"http://127.0.0.1:{port}/v1", api_key="x", model_name="m")


@pytest.fixture
def tokenizer_copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(TOKENIZER_FOLDER, tmp_path / "tokenizer"))


def drop_chat_template(folder: Path) -> None:
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text())
    del config["chat_template"]
    path.write_text(json.dumps(config))


def test_a_tokenizer_without_chat_template_is_refused(tokenizer_copy: Path) -> None:
    drop_chat_template(tokenizer_copy)
    with pytest.raises(ConfigError, match="has no chat template") as raised:
        ReasoningGymEnv(make_config(tokenizer_name=str(tokenizer_copy)), [server()])
    assert str(tokenizer_copy) in str(raised.value)


@pytest.mark.parametrize("server_type", ["openai", "vllm"])
def test_a_tokenizer_that_is_not_there_is_refused_by_name(server_type: str) -> None:
    with pytest.raises(ConfigError, match="no-such/tokenizer"):
        ReasoningGymEnv(make_config(tokenizer_name="no-such/tokenizer"), [server(server_type)])


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda folder: (folder / "tokenizer.json").write_text("{"), id="cut off"),
        pytest.param(lambda folder: (folder / "tokenizer.json").write_text("[]"), id="not a tokenizer"),
        pytest.param(lambda folder: (folder / "tokenizer_config.json").write_text("{"), id="config cut off"),
        pytest.param(lambda folder: (folder / "tokenizer.json").unlink(), id="file missing"),
        pytest.param(lambda folder: [path.unlink() for path in folder.iterdir()], id="empty folder"),
    ],
)
def test_a_damaged_tokenizer_is_refused_by_name(tokenizer_copy: Path, damage: Callable[[Path], object]) -> None:
    damage(tokenizer_copy)
    with pytest.raises(ConfigError, match="tokenizer") as raised:
        ReasoningGymEnv(make_config(tokenizer_name=str(tokenizer_copy)), [server()])
    assert str(tokenizer_copy) in str(raised.value)


def test_servers_of_different_types_are_refused() -> None:
    with pytest.raises(ConfigError, match="one server_type; got openai, vllm"):
        ReasoningGymEnv(make_config(), [server("vllm"), server("openai")])


def test_no_server_at_all_is_refused() -> None:
    with pytest.raises(ConfigError, match="no server"):
        ReasoningGymEnv(make_config(), [])


def test_a_single_server_config_keeps_its_url() -> None:
    env = ReasoningGymEnv(make_config(), server(port=4711))
    assert [entry.config.base_url for entry in env.server.servers] == ["http://127.0.0.1:4711/v1"]


def test_a_server_without_a_tokenizer_of_its_own_gets_the_environments() -> None:
    env = ReasoningGymEnv(make_config(), [server("vllm")])
    assert env.server.servers[0].config.tokenizer_name == str(TOKENIZER_FOLDER)


async def test_the_default_config_works_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, servers = TokenEnv.config_init()
    # A folder of the default tokenizer's name, instead of the hub.
    shutil.copytree(TOKENIZER_FOLDER, tmp_path / config.tokenizer_name)
    monkeypatch.chdir(tmp_path)
    env = TokenEnv(config, servers)
    try:
        await env.setup()
        item = await env.get_next_item()
        env.log.say(*["I do not know."] * config.group_size)
        await env.collect_trajectories(item)
        env.config.use_wandb = False  # which a run would have started by now
        metrics = await env.report()
    finally:
        await env.close()
    assert item.problem.question in item.prompt.text
    assert metrics["train/reason/no_answer"] == 1.0


def test_the_default_server_is_an_openai_one_on_this_machine() -> None:
    _, servers = ReasoningGymEnv.config_init()
    assert [(entry.server_type, entry.base_url) for entry in servers] == [("openai", "http://localhost:9001/v1")]


async def test_an_unknown_task_is_refused_at_setup_with_the_nearest_names() -> None:
    env = make_env_object(tasks="chain_sun")
    try:
        with pytest.raises(ConfigError, match=r"'chain_sun'.*did you mean.*chain_sum"):
            await env.setup()
    finally:
        await env.close()


async def test_in_atropos_test_mode_it_starts_without_any_server(make_env: MakeEnv) -> None:
    def testing(config: ReasoningGymEnvConfig, servers: list[APIServerConfig]) -> ReasoningGymEnv:
        return ReasoningGymEnv(config, servers, testing=True)

    env = await make_env(testing, startup_timeout_s=0.1)
    assert (await env.get_next_item()).problem.task == "chain_sum"


async def test_gameable_tasks_are_not_trained_on_but_evaluated(
    make_env: MakeEnv, caplog: pytest.LogCaptureFixture
) -> None:
    env = await make_env(tasks=[], strict_rewards=False)
    assert "not trained on" in caplog.text
    assert "coin_flip (0 is a prefix of every probability)" in caplog.text
    trained, evaluated = env._run.backend.plan.training_tasks, env._run.backend.plan.tasks
    assert set(evaluated) - set(trained) == set(gameable_tasks(strict_rewards=False))
    assert len(evaluated) == 106


@pytest.mark.parametrize("fields", [{"tasks": ["coin_flip"]}, {"tasks": "all", "exclude_gameable": False}])
async def test_gameable_tasks_are_trained_on_when_that_is_asked_for(
    make_env: MakeEnv, caplog: pytest.LogCaptureFixture, fields: dict[str, Any]
) -> None:
    env = await make_env(strict_rewards=False, **fields)
    assert "not trained on" not in caplog.text
    assert "coin_flip" in env._run.backend.plan.training_tasks
