"""What the README and the shipped config files say is what the code does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from reasoning_env.atropos import commands
from reasoning_gym_environment import APIServerConfig, ReasoningGymEnv, ReasoningGymEnvConfig
from reasoning_gym_testing import TOKENIZER, InferenceServer

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
CONFIGS = sorted((ROOT / "configs").glob("*.yaml"))


def test_settings_table_is_what_the_settings_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    commands(ReasoningGymEnv)["settings"](["--markdown"])
    assert capsys.readouterr().out in README, "renew it: python reasoning_gym_environment.py settings --markdown"


def test_every_setting_has_a_description() -> None:
    assert [name for name, field in ReasoningGymEnvConfig.model_fields.items() if not field.description] == []


def test_config_shown_for_real_training_is_the_shipped_file() -> None:
    shown = README.split("```yaml\n")[1].split("```")[0]
    assert yaml.safe_load(shown) == yaml.safe_load((ROOT / "configs" / "vllm.yaml").read_text())


def test_snippet_prints_a_group(capsys: pytest.CaptureFixture[str]) -> None:
    snippet = next(code.split("```")[0] for code in README.split("```python\n") if "asyncio.run" in code)
    with InferenceServer(lambda request: [f"<answer>{number}</answer>" for number in range(request.n)]) as server:
        for shown, used in (
            ("http://localhost:9001", server.url),
            ("Qwen/Qwen2.5-1.5B-Instruct", TOKENIZER),
            ("group_size=8,", "group_size=8, worker_niceness=0,"),  # so that a busy machine does not starve them
        ):
            assert shown in snippet
            snippet = snippet.replace(shown, used)
        exec(snippet, {"__name__": "snippet"})
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] for line in lines[-8:]] == [f"<answer>{number}</answer>" for number in range(8)]


async def test_example_of_a_test_of_ones_own_passes() -> None:
    [example] = re.findall(r"```python\n(from reasoning_gym_environment .*?reasoning_gym_testing .*?)```", README, re.S)
    names: dict[str, Any] = {}
    exec(example, names)
    await names["test_right_and_wrong"]()


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_shipped_config_is_accepted(path: Path) -> None:
    content = yaml.safe_load(path.read_text())
    assert ReasoningGymEnvConfig(**content["env"]).tokenizer_name == content["env"]["tokenizer_name"]
    assert all(APIServerConfig(**server).base_url for server in content["openai"])


def test_ten_lines_without_atropos_run(capsys: pytest.CaptureFixture[str]) -> None:
    snippet = next(code.split("```")[0] for code in README.split("```python\n") if "with Bridge" in code)
    exec(compile(snippet, "README", "exec"), {})
    assert capsys.readouterr().out == "[1.0, 0.0]\n"
