"""Run the TRL learning benchmark with several ways of selecting rows, at a tiny size."""

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

pytestmark = pytest.mark.slow


def test_learning_benchmark_trains_once_per_method_of_row_selection(tmp_path: Path) -> None:
    sizes = ["--seeds", "1", "--steps", "2", "--batch", "16", "--tests", "2", "--warm-steps", "2", "--interval", "1"]
    ways = ["--rows", "adaptive", "curriculum", "--also", "lcm"]
    command = [sys.executable, "-m", "benchmarks.learning_trl", "--folder", str(tmp_path)]
    env = os.environ | {"HF_HUB_OFFLINE": "1"}
    done = subprocess.run([*command, *sizes, *ways], cwd=ROOT, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    runs: list[dict[str, Any]] = [json.loads(path.read_text()) for path in tmp_path.glob("*.json")]
    assert {run["rows"] for run in runs} == {"adaptive", "curriculum"}
    assert {(len(run["signal"]), run["tests"][-1]["step"]) for run in runs} == {(2, 2)}
