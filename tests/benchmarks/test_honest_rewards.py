"""The figures and the picture of saved runs; `tests/integrations/test_honest_rewards.py` trains."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def save(folder: Path, arm: str, seed: int, *paid: float) -> None:
    evaluations: list[dict[str, Any]] = [
        {"step": step, "paid": {"chain_sum": 0.5, "coin_flip": share}}
        | {name: {"chain_sum": 0.5, "coin_flip": 0.0} for name in ("right", "confirmed")}
        for step, share in enumerate(paid)
    ]
    run = {"seed": seed, "steps": 1, "completions": 8, "seconds": 1.0, "evaluations": evaluations}
    (folder / f"{arm}-{seed}.json").write_text(json.dumps(run))


def saved(folder: Path, picture: Path) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "benchmarks.honest_rewards",
        "--folder",
        str(folder),
        "--arms",
        "strict",
        "library",
    ]
    command += ["--seeds", "1", "2", "--picture", str(picture)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_saved_runs_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra learn")
    for arm, paid in (("strict", 0.0), ("library", 1.0)):
        for seed in (1, 2):
            save(tmp_path, arm, seed, 0.25, paid)
    done = saved(tmp_path, tmp_path / "honest.svg")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["library"]["faulty paid"] == [[0.25, 1.0], [0.25, 1.0]]
    assert "reasoning-gym as it is: paid" in (tmp_path / "honest.svg").read_text()


def test_missing_run_is_named(tmp_path: Path) -> None:
    done = saved(tmp_path, tmp_path / "honest.svg")
    assert done.returncode == 1
    assert f"{tmp_path / 'strict-1.json'} does not exist; run --arms strict --seeds 1 first" in done.stderr
