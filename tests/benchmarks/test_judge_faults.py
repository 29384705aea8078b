"""Attack a judge server for a short time while honest clients send requests and workers are killed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_judge_server_returns_right_verdicts_while_a_benchmark_injects_faults() -> None:
    command = [sys.executable, "-m", "benchmarks.judge_faults", "--minutes", "0.3", "--slowness", "20"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.stdout, ended.stderr
    found = json.loads(ended.stdout)
    assert found["faults"] == [], found
    assert found["verdicts"] > 100, found
