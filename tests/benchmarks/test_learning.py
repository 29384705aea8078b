from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import learning


def save(folder: Path, *points: tuple[int, float]) -> None:
    folder.mkdir(parents=True)
    history: list[dict[str, Any]] = [{"completions": done, "test": {"a": score, "b": score}} for done, score in points]
    (folder / "curves.json").write_text(json.dumps(history))


def test_saved_runs_are_summarised_without_running_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(tmp_path / "easy-1", (0, 0.25), (1000, 0.75))
    assert learning.main(["--saved", "--arms", "easy", "--seeds", "1", "--folder", str(tmp_path)]) == 0
    easy = json.loads(capsys.readouterr().out)["easy"]
    assert (easy["before"], easy["after"], easy["completions"]) == ([0.25], [0.75], [1000])


def test_a_run_that_never_trained_is_no_control(tmp_path: Path) -> None:
    save(tmp_path / "shuffled-1", (0, 0.25))
    with pytest.raises(SystemExit, match="no test after the first step"):
        learning.main(["--saved", "--arms", "shuffled", "--seeds", "1", "--folder", str(tmp_path)])


def test_a_saved_run_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"plain-1.curves\.json does not exist"):
        learning.main(["--saved", "--arms", "plain", "--seeds", "1", "--folder", str(tmp_path)])


def test_picture_is_drawn_from_saved_runs(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra learn")
    for arm in ("easy", "shuffled"):
        save(tmp_path / f"{arm}-1", (0, 0.25), (1000, 0.75))
    argv = ["--saved", "--arms", "easy", "shuffled", "--seeds", "1", "--folder", str(tmp_path)]
    assert learning.main([*argv, "--picture", str(tmp_path / "learning.png")]) == 0
    assert (tmp_path / "learning.png").read_bytes().startswith(b"\x89PNG")
