"""Run `serve`, `process` and `evaluate` against a server that accepts few requests a second."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_overload_benchmark_finds_no_lost_problem_or_group() -> None:
    kinds = ["529", "200_with_error_in_choice"]
    command = [sys.executable, "-m", "benchmarks.overload", "--rate", "20", "--kinds", *kinds]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
    assert json.loads(ended.stdout)["kinds"].keys() == set(kinds)
