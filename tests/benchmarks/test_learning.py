from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def save(folder: Path, *points: tuple[int, float]) -> None:
    folder.mkdir(parents=True)
    history: list[dict[str, Any]] = [{"completions": done, "test": {"a": score, "b": score}} for done, score in points]
    (folder / "curves.json").write_text(json.dumps(history))


def learning(folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.learning", "--saved", "--seeds", "1", "--folder", str(folder), *argv]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_saved_runs_are_summarised(tmp_path: Path) -> None:
    save(tmp_path / "easy-1", (0, 0.25), (1000, 0.75))
    done = learning(tmp_path, "--arms", "easy")
    assert done.returncode == 0
    easy = json.loads(done.stdout)["easy"]
    assert (easy["before"], easy["after"], easy["completions"]) == ([0.25], [0.75], [1000])


def test_untrained_run_is_no_control(tmp_path: Path) -> None:
    save(tmp_path / "shuffled-1", (0, 0.25))
    done = learning(tmp_path, "--arms", "shuffled")
    assert done.returncode == 1
    assert "no test after the first step" in done.stderr


def test_missing_run_is_named(tmp_path: Path) -> None:
    done = learning(tmp_path, "--arms", "shuffled")
    assert done.returncode == 1
    assert f"{tmp_path / 'shuffled-1' / 'curves.json'} does not exist" in done.stderr


def test_picture_of_saved_runs(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra learn")
    for arm in ("easy", "shuffled"):
        save(tmp_path / f"{arm}-1", (0, 0.25), (1000, 0.75))
    picture = tmp_path / "learning.png"
    assert learning(tmp_path, "--arms", "easy", "shuffled", "--picture", str(picture)).returncode == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
