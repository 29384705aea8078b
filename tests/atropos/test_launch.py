from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from atroposlib.envs.server_handling.server_baseline import APIServerConfig

from reasoning_env.atropos.config import complete_servers
from reasoning_env.atropos.launch import build_launch
from reasoning_env.atropos.modes.mode import Mode
from reasoning_env.atropos.modes.process import Process
from reasoning_env.atropos.modes.serve import Serve
from reasoning_env.errors import ConfigError
from reasoning_gym_environment import ReasoningGymEnv


def launch(folder: Path, mode: Mode | None = None, content: str = "{}", **options: str) -> Any:
    path = folder / "config.yaml"
    path.write_text(content)
    given = {name.replace("__", "."): value for name, value in options.items()}
    return build_launch(ReasoningGymEnv, mode or Process(), {"config": str(path), **given})


def test_command_line_options_override_config_files(tmp_path: Path) -> None:
    content = "env: {group_size: 5, seed: 6}\nopenai: {model_name: a, timeout: 7}\n"
    built = launch(tmp_path, content=content, env__seed="8", openai__model_name="b", slurm="true")
    [server] = built.servers
    assert (built.config.group_size, built.config.seed, built.slurm, built.testing) == (5, 8, True, False)
    assert (server.model_name, server.timeout, server.server_type) == ("b", 7, "auto")


def test_several_config_files_are_merged(tmp_path: Path) -> None:
    contents = [
        "env: {group_size: 5, seed: 6}\nopenai: {model_name: a, timeout: 7}\nslurm: true",
        "env: {seed: 8}\nopenai: {model_name: b}",
        "testing: true",
    ]
    for number, content in enumerate(contents):
        (tmp_path / f"{number}.yaml").write_text(content)
    built = build_launch(ReasoningGymEnv, Process(), {"config": [str(tmp_path / f"{n}.yaml") for n in range(3)]})
    [server] = built.servers  # type: ignore[misc]
    assert (built.config.group_size, built.config.seed, built.slurm, built.testing) == (5, 8, True, True)
    assert (server.model_name, server.timeout) == ("b", 7)


def test_servers_in_a_later_config_file_replace_servers_of_an_earlier_file(tmp_path: Path) -> None:
    (tmp_path / "first.yaml").write_text("openai: {timeout: 7}")
    (tmp_path / "second.yaml").write_text(TWO)
    built = build_launch(
        ReasoningGymEnv, Process(), {"config": [str(tmp_path / f"{n}.yaml") for n in ("first", "second")]}
    )
    assert [server.model_name for server in built.servers] == ["a", "b"]  # type: ignore[union-attr]


def test_serve_and_process_commands_have_different_defaults(tmp_path: Path) -> None:
    process, serve = launch(tmp_path).config, launch(tmp_path, Serve()).config
    assert (process.ensure_scores_are_not_same, serve.ensure_scores_are_not_same) == (False, True)
    assert (process.data_path_to_save_groups, serve.data_path_to_save_groups) == ("data/reasoning_gym.jsonl", None)
    assert launch(tmp_path, env__ensure_scores_are_not_same="true").config.ensure_scores_are_not_same


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        ("total_steps", "1e6", 1_000_000),
        ("total_steps", "2.5e3", 2500),
        ("complexity_level", "None", None),
        ("data_path_to_save_groups", "null", None),
        ("data_path_to_save_groups", "none", None),
        ("chat_template", "NONE", None),
        ("reasoning_effort", "none", "none"),
        ("system_prompt", "None", "None"),
        ("temperature", "1e-1", 0.1),
        ("chat_template_kwargs", "{enable_thinking: false}", {"enable_thinking": False}),
    ],
)
def test_string_values_of_settings_are_converted_to_their_types(
    tmp_path: Path, name: str, value: str, read: object
) -> None:
    assert getattr(launch(tmp_path, **{f"env__{name}": value}).config, name) == read
    assert getattr(launch(tmp_path, content=f"env: {{{name}: '{value}'}}").config, name) == read


def test_launch_with_options_eval_seed_and_eval_preset_raises(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^eval_seed: "):
        launch(tmp_path, env__eval_seed="7", env__eval_preset="rg-easy")


@pytest.mark.parametrize(
    ("options", "url"),
    [({}, "http://env/v1"), ({"openai__base_url": "http://option/v1"}, "http://option/v1")],
)
def test_base_url_is_read_from_an_environment_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, str], url: str
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://env/v1")
    assert launch(tmp_path, **options).servers[0].base_url == url


TWO = "openai: [{base_url: 'http://a/v1', model_name: a}, {base_url: 'http://b/v1', model_name: b}]"


def test_option_that_sets_a_server_field_raises_if_two_servers_are_configured(tmp_path: Path) -> None:
    assert [server.model_name for server in launch(tmp_path, content=TWO).servers] == ["a", "b"]
    with pytest.raises(ConfigError, match=r"openai\.timeout: .*several inference servers"):
        launch(tmp_path, content=TWO, openai__timeout="5")


def test_servers_in_a_config_file_get_defaults_of_the_environment_class(tmp_path: Path) -> None:
    [first, second] = launch(tmp_path, content="openai: [{timeout: 5}, {base_url: 'http://b/v1'}]").servers
    assert first.model_name == second.model_name == ReasoningGymEnv.config_init()[1][0].model_name


@pytest.mark.parametrize(("mode", "ignored"), [(Process(), ["env.steps_per_eval", "env.batch_size"]), (Serve(), [])])
def test_settings_that_the_command_ignores_are_listed_at_launch(tmp_path: Path, mode: Mode, ignored: list[str]) -> None:
    found = launch(tmp_path, mode, "env: {steps_per_eval: 5, seed: 1}", env__batch_size="8").ignored
    assert list(found) == ignored


def test_eval_seed_in_a_config_file_is_ignored_if_a_preset_is_set(tmp_path: Path) -> None:
    assert launch(tmp_path, Serve(), "env: {eval_seed: 5, eval_preset: rg-easy}").ignored == ["env.eval_seed"]
    assert launch(tmp_path, Serve(), "env: {eval_seed: 5}").ignored == []


def test_launcher_does_not_repeat_warnings_of_the_config_class(tmp_path: Path) -> None:
    assert launch(tmp_path, Serve(), "env: {thinking_mode: true, debug_logging: true}").ignored == []


def test_converted_atropos_server_config_has_the_server_type_auto(tmp_path: Path) -> None:
    class Own(ReasoningGymEnv):
        @classmethod
        def config_init(cls) -> Any:
            return super().config_init()[0], [APIServerConfig(base_url="http://a/v1", model_name="a")]

    launched = build_launch(Own, Process(), {"openai.stream": "never"})
    [server] = complete_servers(launched.servers, "t")  # type: ignore[misc]
    assert (server.base_url, server.stream, server.server_type) == ("http://a/v1", "never", "auto")


@pytest.mark.parametrize("prompt", ["Think.", "Denk sch\xf6n: \u4f60", "\x85 \u2028 \U0001f600"])
def test_printed_config_can_be_read_again(tmp_path: Path, prompt: str) -> None:
    built = launch(tmp_path, env__eval_handling="NONE", env__system_prompt=prompt, openai__api_key="sk-secret")
    assert built.as_yaml().isascii()
    again = launch(tmp_path, content=built.as_yaml())
    assert again.config == built.config
    assert "sk-" not in built.as_yaml()
