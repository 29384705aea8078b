"""What a user types, and what comes back. In process, but for what needs one: see the other files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytest
from aiohttp import web

from reasoning_env.atropos.launch.configs import known_options
from reasoning_gym_environment import ReasoningGymEnv
from testing import FaultyServer, InferenceServer, free_port

from .conftest import COMMANDS, Cli
from .policies import unreliable_server
from .processes import server_flags

NOWHERE = "http://127.0.0.1:9"


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_a_screen_and_names_options_that_there_are(cli: Cli, command: str) -> None:
    result = cli(command, "-h")
    lines = result.stdout.splitlines()
    assert result.status == 0
    assert len(lines) <= 30
    assert max(map(len, lines)) <= 100
    named = set(re.findall(r"--([a-z_]+[.][a-z_]+)", result.stdout))
    assert len(named) >= 8
    assert named <= known_options(ReasoningGymEnv, command).keys()


@pytest.mark.parametrize("option", ["--env.group_sise", "--openai.base_ulr", "--confg"])
def test_an_unknown_option_is_named_with_the_nearest(cli: Cli, option: str) -> None:
    result = cli("serve", option, "4")
    assert result.status == 2
    assert option in result.complaint
    assert "did you mean" in result.complaint


# ---------------------------------------------------------------------------- values that do not work


@pytest.mark.parametrize(
    ("command", "option", "value", "words"),
    [
        *((command, "--env.group_size", "0", "at least 1") for command in COMMANDS),
        ("serve", "--env.group_size", "many", "group_size"),
        ("serve", "--env.dump_rollouts", "perhaps", "dump_rollouts"),
        ("serve", "--openai.server_type", "llama", "server_type"),
        ("serve", "--openai.timeout", "soon", "timeout"),
    ],
)
def test_a_bad_value_is_named(cli: Cli, command: str, option: str, value: str, words: str) -> None:
    result = cli(command, option, value)
    assert result.status == 2
    assert words in result.complaint
    assert value in result.complaint


@pytest.mark.parametrize("option", [["--env.num_eval_tasks=-2"], ["--env.num_eval_tasks", "-2"]])
def test_a_negative_number_arrives_as_it_is(cli: Cli, option: list[str]) -> None:
    result = cli("serve", *option)
    assert result.status == 2
    assert "num_eval_tasks" in result.complaint
    assert "-2" in result.complaint


def test_a_tokenizer_that_is_not_there_is_named(cli: Cli) -> None:
    result = cli("serve", "--env.tokenizer_name", "no-such/tokenizer")
    assert result.status != 0
    assert "no-such/tokenizer" in result.complaint
    assert "env.tokenizer_name" in result.complaint


@pytest.mark.parametrize(
    ("command", "option"), [("serve", "--env.data_dumps_dir"), ("process", "--env.data_path_to_save_groups")]
)
def test_a_place_that_cannot_be_written_to_is_named(cli: Cli, tmp_path: Path, command: str, option: str) -> None:
    (tmp_path / "a_file").write_text("")
    place = tmp_path / "a_file" / "below" / "it"
    result = cli(command, *server_flags(NOWHERE), "--env.dump_rollouts", "True", option, place)
    assert result.status != 0
    assert str(tmp_path / "a_file") in result.complaint


@pytest.mark.parametrize("command", ["serve", "process"])
def test_a_folder_in_place_of_a_file_is_named_and_nothing_is_written(cli: Cli, tmp_path: Path, command: str) -> None:
    (tmp_path / "groups").mkdir()
    result = cli(command, *server_flags(NOWHERE), "--env.data_path_to_save_groups", tmp_path / "groups")
    assert result.status == 2
    assert "env.data_path_to_save_groups" in result.complaint
    assert [path.name for path in tmp_path.iterdir()] == ["groups"]


def test_an_unknown_task_is_named_with_the_nearest(cli: Cli) -> None:
    result = cli("process", *server_flags(NOWHERE), "--env.tasks", "chain_sun")
    assert result.status == 2
    assert "'chain_sun'" in result.complaint
    assert "chain_sum" in result.complaint


# ---------------------------------------------------------------------------- servers that are not there


@pytest.mark.parametrize("command", ["process", "evaluate"])
def test_an_inference_server_that_is_not_there_is_named(cli: Cli, command: str) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    result = cli(command, *server_flags(url, "vllm"), "--env.use_wandb", "False")
    assert result.status == 1
    assert f"{url}/v1" in result.complaint
    assert "openai.base_url" in result.complaint


def test_a_run_api_that_is_not_there_is_named(cli: Cli) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    result = cli("serve", *server_flags(NOWHERE), "--env.rollout_server_url", url)
    assert result.status == 1
    assert url in result.complaint
    assert "env.rollout_server_url" in result.complaint


@pytest.mark.slow
def test_an_inference_server_that_goes_away_ends_an_evaluation(cli: Cli, tmp_path: Path) -> None:
    with unreliable_server(gone_after=2) as server:
        result = cli(
            *("evaluate", *server_flags(server.url, "vllm"), "--env.tasks", "chain_sum"),
            *("--env.max_eval_workers", "1", "--env.startup_timeout_s", "1", "--env.use_wandb", "False"),
            *("--env.max_failed_groups_in_a_row", "2", "--env.data_dir_to_save_evals", tmp_path / "evals"),
        )
    assert result.status == 1
    assert "2 evaluation problems in a row failed" in result.stderr
    assert not (tmp_path / "evals" / "metrics.json").exists()


class FinishedRunApi(FaultyServer):
    """As much of a run-api as an environment asks for before its first group; its trainer is past the last step."""

    REGISTRATION: ClassVar = {"status": "success", "env_id": 0, "wandb_name": "reasoning_gym_0", "checkpoint_dir": ""}
    SHARES: ClassVar = {"env_weight": 1.0, "unallocated_fraction": 1.0, "max_group_size": 1}
    REPLIES: ClassVar[Mapping[str, object]] = {
        "/": {"message": "AtroposLib API"},
        "/info": {"batch_size": 64, "max_token_len": 2048},
        "/register-env": {**REGISTRATION, "starting_step": 0, "checkpoint_interval": -1, "num_steps": 10},
        "/status-env": {**SHARES, "current_step": 11, "queue_size": 0, "self_queue_size": 0},
    }

    def make_app(self) -> web.Application:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        return app

    async def _answer(self, request: web.Request) -> web.Response:
        return web.json_response(self.REPLIES[request.path])


@pytest.mark.slow
def test_serve_ends_by_itself_after_the_trainers_last_step(cli: Cli) -> None:
    with FinishedRunApi() as run_api, InferenceServer() as server:
        flags = [*server_flags(server.url), "--env.rollout_server_url", run_api.url]
        result = cli("serve", *flags, "--env.total_steps", "10", "--env.use_wandb", "False")
    assert result.status == 0
    assert result.stderr == ""
