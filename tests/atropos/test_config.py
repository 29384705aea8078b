from __future__ import annotations

import logging
import math
from types import SimpleNamespace
from typing import Any

import pytest
from atroposlib.envs.base import BaseEnvConfig

from reasoning_env.atropos.config import (
    BASE_RANGES,
    ReasoningGymEnvConfig,
    ServerConfig,
    check_base_settings,
    set_log_levels,
)
from reasoning_env.errors import ConfigError
from reasoning_env.inference.completer import ServerSettings
from reasoning_env.program.training import NAMES_OF_SERVER, OF_ATROPOS, EvaluateSettings, TrainingSettings
from reasoning_env.settings import fingerprint
from reasoning_env.settings.given import make_settings

RANGES: dict[str, tuple[list[Any], list[Any]]] = {
    "max_num_workers": ([-1, 1, 8], [0, -2]),
    "eval_limit_ratio": ([0.0, 0.5, 1.0], [-0.1, 1.1, math.nan]),
    "inference_weight": ([-1, 0, 2.5], [-0.5, -2, math.nan]),
    "min_batch_allocation": ([None, 0.0, 1.0], [-0.1, 1.5, math.nan]),
    "rollout_server_url": (["http://localhost:8000", "https://host"], ["localhost:8000", "", "ftp://host"]),
    "tokenizer_name": (["some/tokenizer"], [""]),
}
"""Valid and invalid values for settings of each kind. docs/settings.md lists the bounds of all settings."""


def with_value(name: str, value: Any) -> SimpleNamespace:
    return SimpleNamespace(**{**ReasoningGymEnvConfig().model_dump(), name: value})


@pytest.mark.parametrize("name", RANGES)
def test_setting_out_of_range_raises(name: str) -> None:
    allowed, refused = RANGES[name]
    for value in allowed:
        check_base_settings(with_value(name, value))
    for value in refused:
        with pytest.raises(ValueError, match=f"^{name}: must be ") as refusal:
            check_base_settings(with_value(name, value))
        assert BASE_RANGES[name].words in str(refusal.value)
        assert repr(value) in str(refusal.value)


# ---------------------------------------------------------------------------- loggers


@pytest.mark.parametrize(("before", "after"), [(logging.NOTSET, logging.INFO), (logging.DEBUG, logging.DEBUG)])
def test_log_levels_are_restored_after_atropos_changed_them(
    caplog: pytest.LogCaptureFixture, before: int, after: int
) -> None:
    for name in ("reasoning_env", "reasoning_env.test", "atroposlib", "atroposlib.envs.base"):
        caplog.set_level(before, name)  # the fixture restores the earlier value at the end
    own = logging.getLogger("reasoning_env.test")
    set_log_levels(own)
    assert own.level == logging.getLogger("reasoning_env").level == after
    assert not logging.getLogger("atroposlib.envs.base").isEnabledFor(logging.INFO)


@pytest.mark.parametrize(("name", "value"), [("thinking_mode", True), ("max_reasoning_tokens", 2048)])
def test_unsupported_atropos_setting_logs_a_warning(caplog: pytest.LogCaptureFixture, name: str, value: Any) -> None:
    ReasoningGymEnvConfig(**{name: value})
    [message] = caplog.messages
    assert message.startswith(f"{name} is ignored: ")


@pytest.mark.parametrize(("text", "value"), [("none", "none"), ("low", "low"), (None, None)])
def test_reasoning_effort_none_is_kept_as_a_string(text: Any, value: Any) -> None:
    assert make_settings(ReasoningGymEnvConfig, {"reasoning_effort": text}).reasoning_effort == value


@pytest.mark.parametrize(
    ("value", "host", "port"),
    [(9464, "127.0.0.1", 9464), ("9464", "127.0.0.1", 9464), ("0.0.0.0:0", "0.0.0.0", 0), ("[::1]:80", "::1", 80)],
)
def test_metrics_port_setting_is_parsed_into_host_and_port(value: Any, host: str, port: int) -> None:
    address = ReasoningGymEnvConfig(metrics_port=value).metrics_address
    assert address is not None
    assert (address.host, address.port) == (host, port)


@pytest.mark.parametrize("value", [True, -1, 65_536, "host", ":80", "host:", "host:http", 1.5])
def test_invalid_metrics_port_setting_raises(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"^metrics_port: must be a port from 0 to 65535, or HOST:PORT"):
        ReasoningGymEnvConfig(metrics_port=value)


# ---------------------------------------------------------------------------- the settings fingerprint


def test_settings_fingerprint_has_only_settings_that_change_groups() -> None:
    found = fingerprint(ReasoningGymEnvConfig(), "answers")
    assert found.keys() >= {"temperature", "chat_template", "mask_too_long_completions"}
    assert not found.keys() & {"dump_rollouts", "metrics_port"}


# ---------------------------------------------------------------------------- names that need no Atropos


def test_each_environment_setting_belongs_to_this_package_or_to_atropos() -> None:
    names = [*TrainingSettings.model_fields, *OF_ATROPOS]
    assert sorted(names) == sorted(ReasoningGymEnvConfig.model_fields)
    assert ServerConfig.model_fields.keys() == NAMES_OF_SERVER


def test_no_config_class_redeclares_an_inherited_setting() -> None:
    for config_cls, base in ((ReasoningGymEnvConfig, TrainingSettings), (ServerConfig, ServerSettings)):
        assert not config_cls.__annotations__.keys() & base.model_fields.keys()
    assert not TrainingSettings.__annotations__.keys() & EvaluateSettings.model_fields.keys()


def test_environment_adds_at_most_40_settings_to_the_atropos_settings() -> None:
    assert len(TrainingSettings.model_fields.keys() - BaseEnvConfig.model_fields.keys()) <= 40


def test_settings_shared_with_atropos_have_the_atropos_defaults() -> None:
    ours = {"wandb_name", "max_eval_workers"}
    shared = TrainingSettings.model_fields.keys() & BaseEnvConfig.model_fields.keys() - ours
    defaults = [
        {name: fields[name].default for name in shared}
        for fields in (TrainingSettings.model_fields, BaseEnvConfig.model_fields)
    ]
    assert defaults[0] == defaults[1]
