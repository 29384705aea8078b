"""What `reasoning_env/commands/atropos_settings.json` must hold; run as a module, this writes it."""

from __future__ import annotations

import json

from reasoning_env.atropos.config import BASE_RANGES
from reasoning_env.commands.settings import ATROPOS_SETTINGS
from reasoning_env.settings import ReasoningSettings, default_text, range_text
from reasoning_gym_environment import APIServerConfig, ReasoningGymEnvConfig

SERVER_MEANINGS = {"tokenizer_name": "Its tokenizer; by default the environment's."}


def describe_atropos_settings() -> dict[str, list[list[str]]]:
    """Return the settings that are not this environment's own, in sections: name, default, range and meaning."""
    base = {
        name: field
        for name, field in ReasoningGymEnvConfig.model_fields.items()
        if name not in ReasoningSettings.model_fields
    }
    return {
        "Atropos' settings (`--env.NAME`)": [
            [
                name,
                default_text(field),
                BASE_RANGES[name].words if name in BASE_RANGES else range_text(field),
                field.description or "",
            ]
            for name, field in base.items()
        ],
        "Settings of an inference server (`--openai.NAME`)": [
            [name, default_text(field), "", SERVER_MEANINGS.get(name, field.description or "")]
            for name, field in APIServerConfig.model_fields.items()
        ],
    }


if __name__ == "__main__":
    ATROPOS_SETTINGS.write_text(json.dumps(describe_atropos_settings(), indent=1, ensure_ascii=False) + "\n")
