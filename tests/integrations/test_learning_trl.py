"""Rows of a TRL training that are chosen in several ways, from end to end at toy size."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip("trl", reason="needs the extras `trl` and `learn`: make integrations")

from benchmarks import learning_trl
from benchmarks.learning_trl import FullStops, RightOrWrong
from learn import model as models
from learn.sampling import Sample
from reasoning_env import Bridge

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


def test_streams_and_forms(tmp_path: Path) -> None:
    sizes = ["--seeds", "1", "--steps", "2", "--batch", "16", "--tests", "2", "--warm-steps", "2", "--interval", "1"]
    ways = ["--rows", "adaptive", "curriculum", "--forms", "one", "--also", "lcm"]
    command = [sys.executable, "-m", "benchmarks.learning_trl", "--folder", str(tmp_path)]
    env = os.environ | {"HF_HUB_OFFLINE": "1"}
    done = subprocess.run([*command, *sizes, *ways], cwd=ROOT, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    runs: list[dict[str, Any]] = [json.loads(path.read_text()) for path in tmp_path.glob("*.json")]
    assert {run["rows"] for run in runs} == {"adaptive", "curriculum"}
    assert {(len(run["signal"]), run["tests"][-1]["step"]) for run in runs} == {(2, 2)}


def test_full_stops() -> None:
    with FullStops(1, 1, 1.0) as problems:
        answers = [problem.answer or "" for drawn in problems.warm(2).values() for problem in drawn]
    assert answers
    assert all(answer.endswith(".") for answer in answers)


def test_rows_by_pass_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two problems, one is answered right in two of eight samples, and the other in none."""
    _, tokenizer = models.build(1, width=32, layers=1)
    with Bridge(tasks=["lcm"], seed=1, num_generators=1, num_verifiers=1) as bridge:
        first = bridge.draw(0)
        texts = [f"<answer>{first.answer}</answer>"] * 2 + ["<answer>no</answer>"] * 14
        answers = [Sample(tokenizer.encode(text, add_special_tokens=False), [], True) for text in texts]
        monkeypatch.setattr(learning_trl, "sample", lambda *_: answers)
        monkeypatch.setattr(learning_trl, "ASKED", 2)
        rows = RightOrWrong(bridge).choose_rows(None, tokenizer, 16)
    assert [row["reference"] for row in rows] == [first.reference]


def test_no_row_by_pass_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning_trl, "ASKED", 0)
    with pytest.raises(SystemExit, match=r"none of 0 problems has a pass rate from 0\.2 to 0\.8"):
        RightOrWrong(cast(Bridge, None)).choose_rows(None, None, 16)
