"""The table of what trees earn."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
TWICE = """
from functools import cache

from tools import trees

trees.fast_library = cache(trees.fast_library)
trees.main(["--tasks", "isomorphic_strings,lcm", "--count", "60"])
trees.main(["--tasks", "lcm", "--count", "30", "--all", "--level", "0"])
"""


@pytest.fixture(scope="module")
def printed() -> list[str]:
    """The lines of the tool, run twice in one process; it puts faster generators into the library of its process."""
    command = [sys.executable, "-c", TWICE]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def test_rows_over_the_bound(printed: list[str]) -> None:
    head, rule, row = printed[:3]
    assert head.count("|") == rule.count("|") == row.count("|")
    assert row.startswith("| `isomorphic_strings` | defaults | 60 | ")
    assert "| repeated letters of word (0, 0)" in row


def test_all_rows(printed: list[str]) -> None:
    assert len(printed) == 6
    assert printed[-1].startswith("| `lcm` | 0 | 30 | ")
