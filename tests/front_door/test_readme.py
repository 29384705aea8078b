"""What the README and the shipped config files say is what the code does."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from reasoning_env.atropos.settings_table import settings_table
from reasoning_gym_environment import APIServerConfig, ReasoningGymEnvConfig

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
CONFIGS = sorted((ROOT / "configs").glob("*.yaml"))


def test_settings_table_is_what_the_settings_command_prints() -> None:
    assert settings_table(ReasoningGymEnvConfig) in README, "renew it: python reasoning_gym_environment.py settings"


def test_every_setting_has_a_description() -> None:
    assert [name for name, field in ReasoningGymEnvConfig.model_fields.items() if not field.description] == []


def test_config_shown_for_real_training_is_the_shipped_file() -> None:
    shown = README.split("```yaml\n")[1].split("```")[0]
    assert yaml.safe_load(shown) == yaml.safe_load((ROOT / "configs" / "vllm.yaml").read_text())


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_shipped_config_is_accepted(path: Path) -> None:
    content = yaml.safe_load(path.read_text())
    assert ReasoningGymEnvConfig(**content["env"]).tokenizer_name == content["env"]["tokenizer_name"]
    assert all(APIServerConfig(**server).base_url for server in content["openai"])
