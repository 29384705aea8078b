"""The command `settings`, from a file that agrees with the environment class."""

from __future__ import annotations

import json

import pytest

from reasoning_env.atropos.cli import describe_settings
from reasoning_env.errors import ConfigError
from reasoning_env.program.settings import SETTINGS_FILE, encode_page, settings_command
from reasoning_gym_environment import ReasoningGymEnv


def test_file_agrees_with_class() -> None:
    assert SETTINGS_FILE.read_text() == encode_page(describe_settings(ReasoningGymEnv)), (
        "run `python -m tools.settings_page`"
    )


@pytest.mark.parametrize(("word", "told"), [("concurrency", "evaluate --concurrency"), ("base-url", "--base-url")])
def test_short_names_are_found(word: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert settings_command([word]) == 0
    assert f"Written short: {told}." in " ".join(capsys.readouterr().out.split())


def test_schema_of_all_settings(capsys: pytest.CaptureFixture[str]) -> None:
    assert settings_command(["--json"]) == 0
    assert json.loads(capsys.readouterr().out)["properties"].keys() == {"env", "openai"}
    with pytest.raises(ConfigError, match="leave the words out"):
        settings_command(["curriculum_target", "--json"])
