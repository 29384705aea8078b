"""A minute of attacks on a judge, beside honest clients and kills of its workers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.judge_faults import is_sound

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_judge_withstands_attacks() -> None:
    command = [sys.executable, "-m", "benchmarks.judge_faults", "--minutes", "1"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.stdout, ended.stderr
    found = json.loads(ended.stdout)
    assert found["faults"] == [], found
    assert found["verdicts"] > 300, found


SOUND: dict[str, Any] = {
    "wrong": 0,
    "lost": 0,
    "processes_left": 0,
    "tracebacks": 0,
    "status": 0,
    "health_statuses": {200: 90, 503: 10},
    "health_statuses_after": {200: 10},
    "p99_ratio": 3.0,
    "slowest_health_s": 0.1,
    "end_s": 0.5,
    "growth": {name: {"before": 100, "after": 101} for name in ("memory_mb", "open_files", "processes")},
}


def test_sound_run() -> None:
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
        {"p99_ratio": 5.1},
        {"slowest_health_s": 3.0},
        {"end_s": 11.0},
    ],
    ids=str,
)
def test_unsound_run(change: dict[str, Any]) -> None:
    assert not is_sound({**SOUND, **change})
