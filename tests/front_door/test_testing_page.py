"""The file of tests that docs/testing.md shows passes, test by test."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHOWN = "\n\n".join(re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "testing.md").read_text(), re.S))
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What pytest says of each test of the page, in a process and a folder of their own."""
    folder = tmp_path_factory.mktemp("shown")
    (folder / "test_shown.py").write_text(SHOWN)
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-p", "no:xdist", "test_shown.py"]
    command += ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(folder)]
    ended = subprocess.run(
        command, cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    found = dict(re.findall(r"::(\w+) (PASSED|FAILED|ERROR)", ended.stdout))
    assert found, ended.stdout + ended.stderr
    return {name: outcome if outcome == "PASSED" else ended.stdout for name, outcome in found.items()}


@pytest.mark.parametrize("name", re.findall(r"async def (test_\w+)", SHOWN))
def test_shown_test_passes(outcomes: dict[str, str], name: str) -> None:
    assert outcomes[name] == "PASSED"
