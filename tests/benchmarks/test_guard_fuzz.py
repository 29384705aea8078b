"""A short run of the fuzzer, which compares each guard with the library and attacks the guard."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_fuzzer_finds_no_defect_in_verifier_guards() -> None:
    """The limit of CPU time is far above the time of any input; the benchmark's default is strict."""
    command = [sys.executable, "-m", "benchmarks.guard_fuzz", "--inputs", "10", "--answers", "10", "--limit-s", "60"]
    ended = subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": "0"}, capture_output=True, text=True)
    assert ended.stdout, ended.stderr
    assert json.loads(ended.stdout)["findings"] == []
    assert ended.returncode == 0
