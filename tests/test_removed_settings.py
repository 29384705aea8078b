"""Removed and renamed settings in config files, options and stored states."""

from __future__ import annotations

from typing import Any

import pytest

from reasoning_env import Bridge
from reasoning_env.errors import ConfigError
from reasoning_env.settings import ReasoningSettings, changed_settings
from reasoning_env.settings.given import make_settings
from reasoning_env.settings.removed import REMOVED, UNUSED
from reasoning_gym_environment import ReasoningGymEnvConfig

FIELDS = ReasoningGymEnvConfig.model_fields


def test_removed_settings_are_no_longer_fields() -> None:
    assert REMOVED.keys() & FIELDS.keys() == set()


@pytest.mark.parametrize("name", REMOVED)
@pytest.mark.parametrize("way", ["file", "keyword", "config", "bridge"])
def test_error_about_a_removed_setting_says_what_to_do(name: str, way: str) -> None:
    ways: dict[str, Any] = {
        "file": lambda: make_settings(ReasoningGymEnvConfig, {name: 1}, "env."),
        "keyword": lambda: ReasoningSettings(**{name: 1}),
        "config": lambda: ReasoningGymEnvConfig(**{name: 1}),
        "bridge": lambda: Bridge(**{name: 1}),
    }
    with pytest.raises(ConfigError) as error:
        ways[way]()
    section = "env." if way == "file" else ""
    instead = REMOVED[name].instead.replace("{", section).replace("}", "")
    assert str(error.value) == f"{section}{name}: there is no such setting; {instead}"


@pytest.mark.parametrize("name", UNUSED)
def test_setting_that_no_longer_has_an_effect_logs_a_warning(name: str, caplog: pytest.LogCaptureFixture) -> None:
    make_settings(ReasoningGymEnvConfig, {name: "true"}, "env.")
    [message] = caplog.messages
    assert message.startswith(f"{name} is ignored: ")


@pytest.mark.parametrize(
    ("stored", "now", "changed"),
    [
        ({"strict_rewards": False}, {"rewards": "plain"}, []),
        ({"strict_rewards": True}, {"rewards": "plain"}, ["rewards"]),
        ({"max_answer_bytes": 20_000}, {}, []),
        ({"max_answer_bytes": 50}, {}, ["max_answer_bytes"]),
        ({"eval_top_p": 0.95}, {"top_p": 0.95}, []),
        ({"eval_params": "training"}, {"eval_level": "training"}, []),
        ({"eval_params": "library"}, {"eval_level": None}, []),
    ],
)
def test_stored_settings_are_compared_under_their_new_names(stored: Any, now: Any, changed: list[str]) -> None:
    assert changed_settings(stored, now) == changed
