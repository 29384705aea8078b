"""The command `learn` without PyTorch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_missing_pytorch_prints_a_one_line_error(tmp_path: Path) -> None:
    code = "import sys; sys.modules['torch'] = None; from learn.command import main; sys.exit(main(sys.argv[1:]))"
    ended = subprocess.run(
        [sys.executable, "-c", code, "--folder", str(tmp_path)], cwd=ROOT, capture_output=True, text=True
    )
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert "PyTorch" in ended.stderr
    assert ended.stderr.count("\n") == 1
