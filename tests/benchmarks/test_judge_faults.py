"""A short run of the attacks on a judge, beside honest clients and kills of its workers."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_judge_withstands_attacks() -> None:
    command = [sys.executable, "-m", "benchmarks.judge_faults", "--minutes", "0.3", "--slowness", "20"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.stdout, ended.stderr
    found = json.loads(ended.stdout)
    assert found["faults"] == [], found
    assert found["verdicts"] > 100, found


@pytest.fixture(scope="module")
def is_sound() -> Callable[[dict[str, Any]], bool]:
    """The benchmark's own function. Tests import no benchmark."""
    spec = importlib.util.spec_from_file_location("judge_faults", ROOT / "benchmarks" / "judge_faults.py")
    assert spec is not None
    assert spec.loader is not None
    sys.modules["judge_faults"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function: Callable[[dict[str, Any]], bool] = module.is_sound
    return function


SOUND: dict[str, Any] = {
    "wrong": 0,
    "lost": 0,
    "processes_left": 0,
    "tracebacks": 0,
    "status": 0,
    "health_statuses": {200: 90, 503: 10},
    "health_statuses_after": {200: 10},
    "slowest_health_s": 0.1,
    "end_s": 0.5,
    "growth": {name: {"before": 100, "after": 101} for name in ("memory_mb", "open_files")},
    "most": {"memory_mb": 150, "open_files": 150, "processes": 6},
}


def test_sound_run(is_sound: Callable[[dict[str, Any]], bool]) -> None:
    assert is_sound(SOUND)


@pytest.mark.parametrize(
    "change",
    [
        {"wrong": 1},
        {"lost": 1},
        {"status": -9},
        {"health_statuses": {500: 1}},
        {"health_statuses_after": {200: 9, 503: 1}},
        {"health_statuses_after": {}},
        {"growth": {**SOUND["growth"], "open_files": {"before": 30, "after": 60}}},
        {"growth": {**SOUND["growth"], "memory_mb": {"before": 60, "after": 160}}},
        {"most": {"memory_mb": 150, "open_files": 150, "processes": 20}},
        {"slowest_health_s": 3.0},
        {"end_s": 11.0},
    ],
    ids=str,
)
def test_unsound_run(is_sound: Callable[[dict[str, Any]], bool], change: dict[str, Any]) -> None:
    assert not is_sound({**SOUND, **change})
