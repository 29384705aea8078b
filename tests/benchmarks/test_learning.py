from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.learning import main


def save(folder: Path, *points: tuple[int, float]) -> None:
    folder.mkdir(parents=True)
    history: list[dict[str, Any]] = [{"completions": done, "test": {"a": score, "b": score}} for done, score in points]
    (folder / "curves.json").write_text(json.dumps(history))


def learning(folder: Path, *argv: str) -> int:
    return main(["--saved", "--seeds", "1", "--folder", str(folder), *argv])


def test_saved_runs_are_summarised(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(tmp_path / "easy-1", (0, 0.25), (1000, 0.75))
    assert learning(tmp_path, "--arms", "easy") == 0
    easy = json.loads(capsys.readouterr().out)["easy"]
    assert (easy["before"], easy["after"], easy["completions"]) == ([0.25], [0.75], [1000])


def test_untrained_run_is_no_control(tmp_path: Path) -> None:
    save(tmp_path / "shuffled-1", (0, 0.25))
    with pytest.raises(SystemExit, match="no test after the first step"):
        learning(tmp_path, "--arms", "shuffled")


def test_missing_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=f"{tmp_path / 'shuffled-1' / 'curves.json'} does not exist"):
        learning(tmp_path, "--arms", "shuffled")


def test_picture_of_saved_runs(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra learn")
    for arm in ("easy", "shuffled"):
        save(tmp_path / f"{arm}-1", (0, 0.25), (1000, 0.75))
    picture = tmp_path / "learning.png"
    assert learning(tmp_path, "--arms", "easy", "shuffled", "--picture", str(picture)) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
