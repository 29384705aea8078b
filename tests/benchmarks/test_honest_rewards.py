"""The figures and the picture of saved runs; `tests/integrations/test_honest_rewards.py` trains."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.honest_rewards import main


def save(folder: Path, arm: str, seed: int, *paid: float) -> None:
    evaluations: list[dict[str, Any]] = [
        {"step": step, "paid": {"chain_sum": 0.5, "coin_flip": share}}
        | {name: {"chain_sum": 0.5, "coin_flip": 0.0} for name in ("right", "confirmed")}
        for step, share in enumerate(paid)
    ]
    run = {"seed": seed, "steps": 1, "completions": 8, "seconds": 1.0, "evaluations": evaluations}
    (folder / f"{arm}-{seed}.json").write_text(json.dumps(run))


@pytest.fixture
def picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that the command line of these tests names."""
    words = ["--folder", str(tmp_path), "--arms", "strict", "library", "--seeds", "1", "2"]
    monkeypatch.setattr(sys, "argv", ["honest_rewards", *words, "--picture", str(tmp_path / "honest.svg")])
    return tmp_path / "honest.svg"


def test_saved_runs_are_drawn(picture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra learn")
    for arm, paid in (("strict", 0.0), ("library", 1.0)):
        for seed in (1, 2):
            save(picture.parent, arm, seed, 0.25, paid)
    main()
    assert json.loads(capsys.readouterr().out)["library"]["faulty paid"] == [[0.25, 1.0], [0.25, 1.0]]
    assert "reasoning-gym as it is: paid" in picture.read_text()


def test_missing_run_is_named(picture: Path) -> None:
    missing = f"{picture.parent / 'strict-1.json'} does not exist; run --arms strict --seeds 1 first"
    with pytest.raises(SystemExit, match=missing):
        main()
