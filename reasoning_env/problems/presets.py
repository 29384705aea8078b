"""Presets: the protocols of published evaluations. `evaluations/published.py` has the published results.

`rg-easy` and `rg-hard` are the zero-shot runs of the Reasoning Gym paper: 50 problems a task with the library's own
seeds (45 and up), none of them rejected, the library's own system prompt, temperature 0.6, top_p 0.95 and 32,768 tokens
a completion.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PRESET_SIZE = 50
"""Problems of a task in the published sets."""
FIRST_SEED = 45
"""Seed of a task's first problem in the published sets."""
MAX_COMPLETION_TOKENS = 32_768
"""Most tokens of a completion in the published runs."""


@dataclass(frozen=True)
class Preset:
    """A protocol: its tasks, with the parameters that are not the library's defaults, and completions a problem."""

    name: str
    tasks: tuple[str, ...]
    params: Mapping[str, Mapping[str, object]]
    repeats: int


def load_preset(name: str) -> Preset:
    """Read a preset from this package's files."""
    content = json.loads(preset_path(name).read_text(encoding="utf-8"))
    return Preset(name, tuple(content["tasks"]), content["params"], content["repeats"])


def preset_path(name: str) -> Path:
    """Return the file of a preset, which has the published results too."""
    return Path(__file__).with_name("published") / f"{name}.json"
