"""Run the fuzzer of verifier guards for a short time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_guard_fuzzer_finds_no_defect_in_the_verifiers() -> None:
    """The CPU time limit is much higher than the benchmark's default, so the test also passes on slow machines."""
    command = [sys.executable, "-m", "benchmarks.guard_fuzz", "--inputs", "10", "--answers", "10", "--limit-s", "60"]
    ended = subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": "0"}, capture_output=True, text=True)
    assert ended.stdout, ended.stderr
    assert json.loads(ended.stdout)["findings"] == []
    assert ended.returncode == 0
