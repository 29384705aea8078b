"""Check the output of `evaluate`, run in the test process."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from demo.policy import ScriptedPolicy
from reasoning_gym_testing import InferenceServer

from .conftest import Cli

KEY = "sk-nobody-must-see-this"


@pytest.mark.slow
def test_evaluate_command_never_shows_the_api_key(cli: Cli, tmp_path: Path) -> None:
    with InferenceServer(ScriptedPolicy(skill=0.6, seed=1)) as server:
        flags = ["--model=policy", f"--base-url={server.url}/v1", f"--openai.api_key={KEY}", "-v"]
        flags += ["--env.startup_timeout_s=600", "--env.scoring_deadline_s=60"]
        result = cli("evaluate", *flags, "--tasks=chain_sum,gcd", "--limit=10")
    assert result.status == 0
    rows = {cells[0] for cells in map(str.split, result.stdout.splitlines()) if cells[1:2] in (["10"], ["TASKS"])}
    assert rows == {"chain_sum", "gcd", "ALL"}
    [path] = (tmp_path / "evals").glob("policy-*/results.json")
    assert f"evals/{path.parent.name}" in result.stdout
    results = json.loads(path.read_text())
    assert (results["problems"], results["finished"], results["overall"]["failed"]) == (20, True, 0)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    written = [file.read_text() for file in path.parent.iterdir()]
    assert not [text for text in (result.stdout, result.stderr, *written) if KEY in text]
