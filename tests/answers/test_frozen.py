"""Compare scores of some answers with their recorded scores. `tools/frozen.py` compares more answers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from reasoning_env.workers.library import Library
from tools import frozen

ROOT = Path(__file__).parents[2]
HINT = "look at each difference; `python -m tools.frozen record --kind KIND --tasks NAME` records a score that is meant"


def printed(*options: str) -> str:
    """Return the output of a comparison, run in a process with the hash seed of workers."""
    command = [sys.executable, "-m", "tools.frozen", "compare", "--jobs", "1", *options]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode in (0, 1), ended.stderr
    return ended.stderr + ended.stdout


def test_scores_of_a_small_sample_of_answers_equal_the_recorded_scores() -> None:
    """Hostile answers take the longest, so only the slow test compares them."""
    kinds = [word for kind in frozen.KINDS if kind != "hostile" for word in ("--kind", kind)]
    lines = printed("--defaults", "--problems", "1", "--one-in", "40", *kinds)
    assert lines.endswith("\n0 differences\n"), f"{lines}\n{HINT}"


@pytest.mark.slow
def test_scores_of_a_large_sample_of_answers_equal_the_recorded_scores() -> None:
    lines = printed("--problems", "2", "--one-in", "4")
    assert lines.endswith("\n0 differences\n"), f"{lines}\n{HINT}"


def test_changed_score_is_printed_with_the_recorded_score(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line has the answer and both scores. Answers without a recorded score are skipped."""
    monkeypatch.setattr(frozen, "FOLDER", tmp_path)
    library = Library(None)
    monkeypatch.setattr(frozen, "shared_library", lambda: library)
    table = frozen.Table(3)
    table.set_row(frozen.Place("gcd", None), {"RIGHT?": ["0.25", "0", "-"]})
    table.write("two_answers")
    assert frozen.compare("two_answers", ["gcd"], 1, frozen.Sample(None, 1, defaults_only=False)) == 1
    first, counts = capsys.readouterr().out.splitlines()
    assert first == "two_answers gcd defaults seed 3988807829, 'RIGHT?': '3?' had 0.25, has 0; right is '3'"
    assert counts == "two_answers: 2 compared, 1 differ, 1 partial down; 0 no longer exist"
