"""The command without PyTorch, and the second opinion on answers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from learn.tasks import TASKS, confirms

ROOT = Path(__file__).parents[2]


def test_missing_pytorch_is_reported(tmp_path: Path) -> None:
    code = "import sys; sys.modules['torch'] = None; from learn.command import main; sys.exit(main(sys.argv[1:]))"
    ended = subprocess.run(
        [sys.executable, "-c", code, "--folder", str(tmp_path)], cwd=ROOT, capture_output=True, text=True
    )
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert "PyTorch" in ended.stderr
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("task", "asked", "answer"),
    [
        ("number_sorting", "3.0, 7.0, 1.0", "['7.0', '3.0', '1.0']"),
        ("spell_backward", "chess", "ssehc"),
        ("spiral_matrix", "1 2 3\n4 5 6\n7 8 9\n", "1 2 3 6 9 8 7 4 5"),
    ],
)
def test_second_opinion(task: str, asked: str, answer: str) -> None:
    phrases = TASKS[task].phrases
    question = f"{phrases[1]}{asked}{phrases[2]}" if task == "number_sorting" else f"{phrases[0]}{asked}"
    assert confirms(task, question, answer)
    assert not confirms(task, question, answer.replace("3", "4").replace("e", "a"))
