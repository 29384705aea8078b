"""What a user types, and what comes back. In process, but for what needs one: see the other files."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from aiohttp import web

from reasoning_gym_environment import ReasoningGymEnvConfig
from testing import TOKENIZER, FaultyServer, InferenceServer, free_port, hang

from .conftest import COMMANDS, Cli
from .policies import unreliable_server
from .processes import server_flags

NOWHERE = "http://127.0.0.1:9"
pytestmark = pytest.mark.filterwarnings("ignore:You are using a local Base URL")


# ---------------------------------------------------------------------------- help


@pytest.mark.parametrize("words", [[], ["-h"], ["--help"], ["help"]])
def test_without_a_command_it_lists_the_commands(cli: Cli, words: list[str]) -> None:
    result = cli(*words)
    assert result.status == 0
    assert all(f"\n  {command} " in result.stdout for command in (*COMMANDS, "tasks", "demo"))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_setting_is_an_option_with_its_description(cli: Cli, command: str) -> None:
    result = cli(command, "--help")
    text = " ".join(result.stdout.split())
    assert result.status == 0
    assert [name for name in ReasoningGymEnvConfig.model_fields if f"--env.{name} " not in text] == []
    assert "Processes that generate problems." in text


# ---------------------------------------------------------------------------- words that do not exist


def test_an_unknown_command_is_named_with_the_nearest(cli: Cli) -> None:
    result = cli("serv")
    assert result.status == 2
    assert "'serv'" in result.complaint
    assert "did you mean serve" in result.complaint


@pytest.mark.parametrize(
    ("command", "option", "nearest"),
    [
        *((command, "--env.group_sise", "--env.group_size") for command in COMMANDS),
        ("serve", "--openai.base_ulr", "--openai.base_url"),
        ("serve", "--confg", "--config"),
    ],
)
def test_an_unknown_option_is_named_with_the_nearest(cli: Cli, command: str, option: str, nearest: str) -> None:
    result = cli(command, option, "4")
    assert result.status == 2
    assert option in result.complaint
    assert "did you mean" in result.complaint
    assert nearest in result.complaint


def test_an_option_without_its_value_is_named(cli: Cli) -> None:
    result = cli("serve", "--env.group_size", "--env.seed", "1")
    assert result.status == 2
    assert "env.group_size" in result.complaint


# ---------------------------------------------------------------------------- values that do not work


@pytest.mark.parametrize(
    ("command", "option", "value", "words"),
    [
        *((command, "--env.group_size", "0", "at least 1") for command in COMMANDS),
        ("serve", "--env.group_size", "many", "group_size"),
        ("serve", "--env.temperature", "3", "less than or equal to 2"),
        ("serve", "--env.dump_rollouts", "perhaps", "dump_rollouts"),
        ("serve", "--env.rollout_server_url", "localhost:8000", "http://"),
        ("serve", "--openai.server_type", "llama", "server_type"),
        ("serve", "--openai.timeout", "soon", "timeout"),
    ],
)
def test_a_bad_value_is_named(cli: Cli, command: str, option: str, value: str, words: str) -> None:
    result = cli(command, option, value)
    assert result.status == 2
    assert words in result.complaint
    assert value in result.complaint


@pytest.mark.parametrize("joined", [True, False])
@pytest.mark.parametrize(
    ("name", "value"), [("num_eval_tasks", "-2"), ("max_num_workers", "-7"), ("total_steps", "-3")]
)
def test_a_negative_number_arrives_as_it_is(cli: Cli, name: str, value: str, joined: bool) -> None:
    option = [f"--env.{name}={value}"] if joined else [f"--env.{name}", value]
    result = cli("serve", *option)
    assert result.status == 2
    assert name in result.complaint
    assert value in result.complaint


@pytest.mark.parametrize("command", COMMANDS)
def test_a_tokenizer_that_is_not_there_is_named(cli: Cli, command: str) -> None:
    result = cli(command, "--env.tokenizer_name", "no-such/tokenizer")
    assert result.status != 0
    assert "no-such/tokenizer" in result.complaint
    assert "env.tokenizer_name" in result.complaint


def test_a_tokenizer_that_cannot_be_read_is_named(cli: Cli, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(TOKENIZER, tmp_path / "damaged"))
    (folder / "tokenizer.json").write_text("{")
    result = cli("serve", "--env.tokenizer_name", folder)
    assert result.status != 0
    assert "tokenizer" in result.complaint
    assert str(folder) in result.complaint


def test_a_model_that_a_trl_server_cannot_use_as_tokenizer_is_named(cli: Cli) -> None:
    flags = [*server_flags(NOWHERE, "trl"), "--openai.model_name", "no-such/model"]
    result = cli("serve", *flags)
    assert result.status != 0
    assert "no-such/model" in result.complaint
    assert "openai.model_name" in result.complaint


@pytest.mark.parametrize(
    ("command", "option"), [("serve", "--env.data_dumps_dir"), ("process", "--env.data_path_to_save_groups")]
)
def test_a_place_that_cannot_be_written_to_is_named(cli: Cli, tmp_path: Path, command: str, option: str) -> None:
    (tmp_path / "a_file").write_text("")
    place = tmp_path / "a_file" / "below" / "it"
    result = cli(command, *server_flags(NOWHERE), "--env.dump_rollouts", "True", option, place)
    assert result.status != 0
    assert str(tmp_path / "a_file") in result.complaint


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_task_is_named_with_the_nearest(cli: Cli, command: str) -> None:
    with fake_run_api(batch_size=64) as run_api:
        flags = [*server_flags(NOWHERE), "--env.rollout_server_url", run_api.url]
        result = cli(command, *flags, "--env.tasks", "chain_sun")
    assert result.status == 2
    assert "'chain_sun'" in result.complaint
    assert "chain_sum" in result.complaint


# ---------------------------------------------------------------------------- servers that are not there


class Canned(FaultyServer):
    """Answers each path with a JSON value."""

    def __init__(self, replies: Mapping[str, object]) -> None:
        super().__init__()
        self._replies = replies

    def make_app(self) -> web.Application:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        return app

    async def _answer(self, request: web.Request) -> web.Response:
        if request.path not in self._replies:
            raise web.HTTPNotFound
        return web.json_response(self._replies[request.path])


def fake_run_api(batch_size: int, step: int = 0) -> Canned:
    """As much of run-api as an environment asks for before its first group; the trainer is at `step` of 10."""
    registered = {"status": "success", "env_id": 0, "wandb_name": "reasoning_gym_0", "checkpoint_dir": ""}
    shares = {"env_weight": 1.0, "unallocated_fraction": 1.0, "max_group_size": 1}
    return Canned(
        {
            "/": {"message": "AtroposLib API"},
            "/info": {"batch_size": batch_size, "max_token_len": 2048},
            "/register-env": {**registered, "starting_step": 0, "checkpoint_interval": -1, "num_steps": 10},
            "/status-env": {**shares, "current_step": step, "queue_size": 0, "self_queue_size": 0},
        }
    )


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


def test_another_server_in_place_of_run_api_is_named(cli: Cli) -> None:
    with Canned({}) as another, InferenceServer() as server:
        flags = [*server_flags(server.url), "--env.rollout_server_url", another.url]
        result = cli("serve", *flags, "--env.use_wandb", "False")
    assert result.status == 1
    assert another.url in result.complaint


def test_a_run_api_that_never_answers_is_named(cli: Cli) -> None:
    with Canned({}) as silent:
        silent.fail(hang)
        result = cli("serve", *server_flags(NOWHERE), "--env.rollout_server_url", silent.url)
    assert result.status == 1
    assert silent.url in result.complaint


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


@pytest.mark.slow
def test_serve_ends_by_itself_after_the_trainers_last_step(cli: Cli) -> None:
    with fake_run_api(batch_size=64, step=11) as run_api, InferenceServer() as server:
        flags = [*server_flags(server.url), "--env.rollout_server_url", run_api.url]
        result = cli("serve", *flags, "--env.total_steps", "10", "--env.use_wandb", "False")
    assert result.status == 0
    assert result.stderr == ""


def test_groups_larger_than_the_trainers_batches_are_named(cli: Cli) -> None:
    with fake_run_api(batch_size=4) as run_api, InferenceServer() as server:
        flags = [*server_flags(server.url), "--env.rollout_server_url", run_api.url]
        result = cli("serve", *flags, "--env.group_size", "8", "--env.use_wandb", "False")
    assert result.status in (1, 2)
    assert "group_size" in result.complaint
    assert "8" in result.complaint
    assert "4" in result.complaint


# ---------------------------------------------------------------------------- tasks


def test_tasks_by_name_shows_question_and_answer(cli: Cli) -> None:
    result = cli("tasks", "chain_sum", "--samples", "2")
    assert result.status == 0
    blocks = result.stdout.split("=== ")[1:]
    assert len(blocks) == 2
    for block in blocks:
        question, _, answer = block.partition("--- answer\n")
        assert block.startswith("chain_sum (arithmetic)")
        terms = question.rpartition(": ")[2].removesuffix(" =\n\n").replace(" ", "")
        assert terms[0].isdigit()
        assert sum(int(term) for term in terms.replace("-", "+-").split("+")) == int(answer)


def test_tasks_by_an_unknown_name_names_the_nearest(cli: Cli) -> None:
    result = cli("tasks", "chain_sun")
    assert result.status == 2
    assert "chain_sum" in result.complaint


@pytest.mark.parametrize("words", [["--samples", "0"], ["--samples", "many"], ["--seed", "-1"]])
def test_tasks_with_a_bad_number_is_an_error(cli: Cli, words: list[str]) -> None:
    result = cli("tasks", "chain_sum", *words)
    assert result.status == 2
    assert words[0] in result.stderr
