"""A short run of the fuzzer, which compares every guard with the library and attacks it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_honest_answers_get_the_librarys_score_and_hostile_ones_do_no_harm() -> None:
    """The limit on CPU time is far above what any input takes; `python -m benchmarks.guard_fuzz` has a strict one."""
    command = [sys.executable, "-m", "benchmarks.guard_fuzz", "--inputs", "10", "--answers", "10", "--limit-s", "60"]
    ended = subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": "0"}, capture_output=True, text=True)
    assert ended.stdout, ended.stderr
    assert json.loads(ended.stdout)["findings"] == []
    assert ended.returncode == 0
