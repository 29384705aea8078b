"""The table of what trees earn."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def printed(*options: str) -> list[str]:
    """Return the lines that the tool prints; it puts faster generators into the library of its process."""
    command = [sys.executable, "-m", "tools.trees", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def test_rows_over_the_bound() -> None:
    head, rule, row = printed("--tasks", "isomorphic_strings,lcm", "--count", "60")
    assert head.count("|") == rule.count("|") == row.count("|")
    assert row.startswith("| `isomorphic_strings` | defaults | 60 | ")
    assert "| repeated letters of word (0, 0)" in row


def test_all_rows() -> None:
    assert printed("--tasks", "lcm", "--count", "30", "--all", "--level", "0")[-1].startswith("| `lcm` | 0 | 30 | ")
