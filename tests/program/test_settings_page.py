"""The command `settings`, which does not need an environment class."""

from __future__ import annotations

import pytest

from reasoning_env.errors import ConfigError
from reasoning_env.inference.completer import ServerSettings
from reasoning_env.program.settings import SUBJECTS, settings_command
from reasoning_env.program.training import OF_ATROPOS, OF_SERVER, TrainingSettings


def test_every_setting_is_listed_under_one_heading() -> None:
    shown = [name for names in SUBJECTS.values() for name in names]
    assert sorted(shown) == sorted([*TrainingSettings.model_fields, *ServerSettings.model_fields])
    assert len(SUBJECTS["Settings that most users change"]) == 24


def test_settings_command_shows_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    assert settings_command([]) == 0
    shown = capsys.readouterr().out
    names = [*TrainingSettings.model_fields, *OF_ATROPOS, *OF_SERVER]
    assert [name for name in names if name not in shown] == []


@pytest.mark.parametrize(("word", "told"), [("concurrency", "evaluate --concurrency"), ("base-url", "--base-url")])
def test_settings_command_finds_a_setting_by_the_name_of_its_short_option(
    word: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert settings_command([word]) == 0
    assert f"Short form: {told}." in " ".join(capsys.readouterr().out.split())


def test_settings_command_raises_if_search_words_are_combined_with_the_json_option() -> None:
    with pytest.raises(ConfigError, match="omit the search words"):
        settings_command(["curriculum_target", "--json"])
