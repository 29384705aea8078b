"""The command without PyTorch, and the second opinion on answers; neither needs PyTorch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from learn.tasks import TASKS, confirms

ROOT = Path(__file__).parents[2]


def test_missing_pytorch_is_one_line(tmp_path: Path) -> None:
    code = "import sys; sys.modules['torch'] = None; from learn.command import main; sys.exit(main(sys.argv[1:]))"
    ended = subprocess.run(
        [sys.executable, "-c", code, "--folder", str(tmp_path)], cwd=ROOT, capture_output=True, text=True
    )
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert "PyTorch" in ended.stderr
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("task", "question", "answer"),
    [
        ("chain_sum", "State the final answer to the following arithmetic problem: -5 - 7 =", "-12"),
        ("letter_counting", 'How many times does the letter "v" appear in the text: "Verne VI of"?', "2"),
        ("spell_backward", "Spell this word backward (example: sun -> nus): chess", "ssehc"),
    ],
)
def test_second_opinion_knows_right_from_wrong(task: str, question: str, answer: str) -> None:
    assert all(phrase in question for phrase in TASKS[task].phrases)
    assert confirms(task, question, answer)
    assert not confirms(task, question, answer + "1")
