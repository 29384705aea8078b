"""`--config`: what is wrong with a file is said in one line, and a file that is right is taken."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from testing import TOKENIZER, free_port

from .conftest import COMMANDS, Cli

TOKENIZER_FLAG = ("--env.tokenizer_name", TOKENIZER)
ConfigFile = Callable[[str], Path]


@pytest.fixture
def config_file(tmp_path: Path) -> ConfigFile:
    """Writes a file of settings."""

    def write(content: str) -> Path:
        path = tmp_path / "settings.yaml"
        path.write_text(content)
        return path

    return write


@pytest.mark.parametrize("command", COMMANDS)
def test_a_config_file_is_checked_by_every_command(cli: Cli, config_file: ConfigFile, command: str) -> None:
    result = cli(command, *TOKENIZER_FLAG, "--config", config_file("env:\n  group_sise: 4\n"))
    assert result.status == 2
    assert "group_sise" in result.complaint
    assert "group_size" in result.complaint


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("env:\n  group_size: many\n", ["group_size", "many"]),
        ("env:\n  group_size: 0\n", ["group_size", "at least 1"]),
        ("group_size: 4\n", ["group_size", "env"]),
        ("openai:\n  base_ulr: http://localhost:1/v1\n", ["base_ulr", "base_url"]),
        ("openai:\n  server_type: llama\n", ["server_type", "llama"]),
        ("openai:\n- base_ulr: http://a/v1\n- base_url: http://b/v1\n", ["base_ulr", "base_url"]),
        ("slurm: perhaps\n", ["slurm"]),
    ],
)
def test_a_config_file_that_does_not_work_is_named_with_the_reason(
    cli: Cli, config_file: ConfigFile, content: str, words: list[str]
) -> None:
    result = cli("serve", *TOKENIZER_FLAG, "--config", config_file(content))
    assert result.status == 2
    assert all(word in result.complaint for word in words)


TWO_SERVERS = """\
openai:
- {server_type: vllm, base_url: "http://127.0.0.1:%d/v1", model_name: a}
- {server_type: vllm, base_url: "http://127.0.0.1:%d/v1", model_name: b}
"""


def test_a_list_of_servers_needs_nothing_but_their_urls(cli: Cli, config_file: ConfigFile) -> None:
    ports = (free_port(), free_port())
    result = cli("evaluate", *TOKENIZER_FLAG, "--config", config_file(TWO_SERVERS % ports), "--env.use_wandb", "False")
    assert result.status == 1
    assert all(f"http://127.0.0.1:{port}/v1" in result.complaint for port in ports)


def test_an_option_that_a_list_of_servers_cannot_take_is_named(cli: Cli, config_file: ConfigFile) -> None:
    result = cli("serve", *TOKENIZER_FLAG, "--config", config_file(TWO_SERVERS % (1, 2)), "--openai.model_name", "c")
    assert result.status == 2
    assert "--openai." in result.complaint
