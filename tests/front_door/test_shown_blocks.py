"""Run every code block of the README and docs, except for blocks in `NOT_HERE`, which gives the reasons.

New Python blocks run by default, and new YAML blocks are read as settings. `tests/e2e/test_shown_commands.py` runs
commands of the script. `test_docs.py` parses commands of make, tools, benchmarks and examples. Both tests find new
commands on the pages. Every other shell line needs a row in `NOT_HERE`.
"""

from __future__ import annotations

import json
import re
import textwrap
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from reasoning_env.atropos import ServerConfig
from reasoning_env.dumps.format import encode_group
from reasoning_gym_environment import ReasoningGymEnvConfig
from reasoning_gym_testing import TOKENIZER, InferenceServer
from tests.records import make_group, make_rollout

from .test_docs import COMMAND, PAGES, ROOT

NOT_HERE = {
    "from trl import": "needs TRL: tests/integrations/test_trl.py",
    "import score_reward": "needs TRL: tests/integrations/test_trl.py",
    "from skyrl_gym": "needs SkyRL-Gym: tests/integrations/test_snippets.py",
    "completion_ids": "needs AReaL: tests/integrations/test_snippets.py",
    "def reward(prompts": "needs Tunix: tests/integrations/test_snippets.py",
    "tinker_cookbook": "needs tinker-cookbook: tests/integrations/test_snippets.py",
    "args.eval_strategy": "needs TRL: tests/integrations/test_trl.py",
    "from client import": "needs OpenEnv: tests/integrations/test_openenv.py",
    "hub/openenv": "needs OpenEnv: tests/integrations/test_openenv.py",
    "uvicorn server.app": "needs OpenEnv: tests/integrations/test_openenv.py",
    "REASONING_CLONE": "needs NeMo Gym",
    "gym list": "needs NeMo Gym",
    "gym env start": "needs NeMo Gym",
    "gym eval run": "needs NeMo Gym",
    "resources_servers": "needs NeMo Gym; tests/hub/test_nemo_gym_rows.py runs `rows.py`",
    "| less": "waits for keys",
    "VLLM_CPU_KVCACHE_SPACE": "needs vLLM: tests/integrations/test_vllm.py",
    "s/vllm.": "needs vLLM and Atropos' trainer",
    "from ray.data import": "needs Ray: tests/integrations/test_ray_data.py",
    "class LastLetterConfig": "a part of examples/own_task.py, compared by a test below",
    "def score_answer(self": "a part of examples/own_task.py, compared by a test below",
    "git clone": "needs the address of a repository",
    "source .venv/bin/activate": "changes the user's shell",
    "run-api --port": "runs until it is stopped; tests/e2e starts it in each run",
    "examples/trainer.py": "runs beside others: tests/e2e/test_shown_commands.py",
    "reasoning_gym_testing --policy": "runs until it is stopped: tests/e2e/test_shown_commands.py starts it",
    "vf-eval": "needs verifiers: tests/integrations/test_verifiers.py",
    "vf-validate": "needs verifiers: tests/integrations/test_verifiers.py",
    "inspect eval": "needs Inspect: tests/integrations/test_inspect.py",
    "verl.trainer.main_ppo": "needs verl and GPUs: tests/integrations/test_verl.py",
    "reward.custom_reward_function": "needs verl: tests/integrations/test_verl.py",
    "pip install": "needs the network",
    "uvx ": "needs the network",
    "docker": "needs Docker",
    "vllm serve": "needs vLLM: tests/integrations/test_vllm.py",
    "example_trainer": "needs Atropos' trainer, PyTorch and vLLM",
    "python -m pytest": "the tests themselves",
    "python - <<'END'": "reads a file that another line writes: tests/e2e/test_shown_commands.py runs it",
}
"""Reason for which this test does not run a block, by a string in the block or in its shell line."""
PRINTED = {"print([verdict.score for verdict in verdicts])": "[1.0, 0.0]\n"}
"""The expected output of the blocks that contain a string."""
REPLACED = {"Qwen/Qwen2.5-1.5B-Instruct": TOKENIZER, "group_size=8,": "group_size=8,"}
"""Names in blocks that do not exist on a test machine, and their replacements.

Niceness would starve workers on a busy machine.
"""
ONE_FILE = (ROOT / "docs" / "own.md").read_text().split("\n## Test your code\n")[1]
"""`test_testing_page.py` runs the blocks of this section as one file."""


@dataclass(frozen=True)
class Block:
    page: Path
    language: str
    text: str

    @property
    def name(self) -> str:
        return f"{self.page.name}: {self.text.splitlines()[0].strip()}"

    @property
    def excuse(self) -> str | None:
        """Reason for which the block is not run here; None if it runs."""
        return next((reason for word, reason in NOT_HERE.items() if word in self.text), None)


def _blocks() -> Iterator[Block]:
    for page in PAGES:
        for _, language, text in re.findall(r"^( *)```(\w*)\n(.*?)^ *```", page.read_text(), re.DOTALL | re.MULTILINE):
            yield Block(page, language, textwrap.dedent(text))


BLOCKS = list(_blocks())
PYTHON = [block for block in BLOCKS if block.language == "python" and block.text not in ONE_FILE]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the pages mention."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "first.jsonl").write_bytes(encode_group(make_group([make_rollout(0.0), make_rollout(1.0)])))
    (tmp_path / "my_rewards.py").write_text("def score(completion, answer):\n    return float(answer in completion)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.parametrize("block", [block for block in PYTHON if block.excuse is None], ids=lambda block: block.name)
def test_documented_python_blocks_run_without_errors(
    block: Block, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = block.text
    for there, here in REPLACED.items():
        text = text.replace(there, str(here))
    with InferenceServer(lambda request: [f"<answer>{number}</answer>" for number in range(request.n)]) as server:
        text = re.sub(r"http://localhost:\d+", server.url, text)
        exec(compile(text, block.page.name, "exec"), {"__name__": "__main__"})
    printed = capsys.readouterr().out
    assert [printed for word, output in PRINTED.items() if word in text and printed != output] == []


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "yaml"], ids=lambda block: block.name)
def test_yaml_blocks_of_the_docs_are_valid(block: Block) -> None:
    content = yaml.safe_load(block.text)
    ReasoningGymEnvConfig(**{"tokenizer_name": "x", **content.get("env", {})})
    assert all(ServerConfig(**server).base_url for server in content.get("openai", []))


def test_json_and_toml_blocks_of_the_docs_are_valid() -> None:
    for block in BLOCKS:
        if block.language == "json":
            json.loads(block.text)
        if block.language == "toml":
            tomllib.loads(block.text)


def test_example_of_a_user_task_contains_the_lines_shown_in_the_docs() -> None:
    shown = [block.text for block in PYTHON if "own_task.py" in (block.excuse or "")]
    example = textwrap.dedent((ROOT / "examples" / "own_task.py").read_text())
    # The page omits the type annotations.
    plain = re.sub(r": (?:str \| None|dict\[str, Any\])|(?<=\)) -> float", "", example)
    lines = {line.strip() for text in (example, plain) for line in text.splitlines()}
    assert {line.strip() for text in shown for line in text.splitlines() if line.strip()} <= lines


def shell_lines() -> Iterator[tuple[Block, str]]:
    for block in BLOCKS:
        if block.language == "bash":
            text = re.sub(r" *\\\n *", " ", block.text)
            text = re.sub(r"<<'END'\n.*?^END$", "<<'END'", text, flags=re.DOTALL | re.MULTILINE)
            yield from ((block, line.strip()) for line in text.splitlines())


def is_known(line: str) -> bool:
    """Return True if a test runs or parses this shell line, or if NOT_HERE gives a reason."""
    if not line or line.startswith("#") or "reasoning_gym_environment.py" in line or COMMAND.search(line):
        return True
    return any(word in line for word in NOT_HERE)


def test_every_shell_line_of_the_docs_is_run_by_a_test() -> None:
    """If this fails, add a test that runs the line, or a row of NOT_HERE with the reason."""
    assert [(block.page.name, line) for block, line in shell_lines() if not is_known(line)] == []


def test_every_skip_list_entry_matches_a_code_block() -> None:
    assert [word for word in NOT_HERE if not any(word in block.text for block in BLOCKS)] == []


@pytest.mark.parametrize("reason", sorted(set(NOT_HERE.values())))
def test_reason_for_skipping_a_code_block_names_only_existing_files(reason: str) -> None:
    assert [path for path in re.findall(r"[\w/]+\.py", reason) if "/" in path and not (ROOT / path).is_file()] == []
