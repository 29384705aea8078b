"""Run the benchmark that compares strict rewards with library rewards, at a tiny size."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the extras `trl` and `learn`: make integrations")


ROOT = Path(__file__).parents[2]
ARMS = ["strict", "exact", "library", "noise", "one-faulty"]

pytestmark = pytest.mark.slow


def honest_rewards(folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    sizes = ["--folder", str(folder), "--seeds", "1", "--tests", "4", "--warm-problems", "16", "--batch", "16"]
    command = [sys.executable, "-m", "benchmarks.honest_rewards", *sizes, "--tasks", "chain_sum", "coin_flip", *argv]
    env = os.environ | {"HF_HUB_OFFLINE": "1"}
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=env)


def test_honest_rewards_benchmark_trains_a_model_with_every_reward_variant(tmp_path: Path) -> None:
    done = honest_rewards(tmp_path, "--arms", *ARMS, "--steps", "2", "--interval", "1")
    assert done.returncode == 0, done.stderr
    assert list(json.loads(done.stdout.splitlines()[-1])) == ARMS
    for arm in ARMS:
        record: dict[str, Any] = json.loads((tmp_path / f"{arm}-1.json").read_text())
        assert [entry["when"] for entry in record["evaluations"]] == ["warm", "during", "after"]
        assert record["completions"] == 32
        assert [entry["when"] for entry in record["before"]] == ["before"]
    picture = tmp_path / "honest.svg"
    drawn = honest_rewards(tmp_path, "--arms", *ARMS, "--picture", str(picture))
    assert drawn.returncode == 0, drawn.stderr
    assert picture.read_text().startswith("<?xml")


def test_honest_rewards_benchmark_trains_on_data_with_planted_shortcuts(tmp_path: Path) -> None:
    tasks = ["--tasks", "chain_sum", "simple_integration", "--shortcuts", "1"]
    done = honest_rewards(tmp_path, "--arms", "library", "--steps", "1", *tasks)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])["library"]
    assert set(found) >= {"simple_integration", "faulty paid", "honest paid"}
