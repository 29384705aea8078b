"""Run the test file that docs/own.md shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reasoning_gym_testing import Processes

ROOT = Path(__file__).resolve().parents[2]
SECTION = (ROOT / "docs" / "own.md").read_text().split("\n## Test your code\n")[1]
SHOWN = "\n\n".join(re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL))
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """pytest's result for each test of the page. pytest runs in a new process and folder."""
    folder = tmp_path_factory.mktemp("shown")
    (folder / "test_shown.py").write_text(SHOWN)
    options = f"-v --assert=plain -p no:cacheprovider -p no:xdist -o pythonpath={ROOT}"
    places = f"-c {ROOT / 'pyproject.toml'} --rootdir {folder} test_shown.py"
    words = ["-m", "pytest", *options.split(), *places.split()]
    with Processes(folder) as processes:
        ended = processes.start("pytest", words, python=True, cwd=folder)
        ended.end()
    found = dict(re.findall(r"::(\w+) (PASSED|FAILED|ERROR)", ended.stdout))
    assert found, ended.stdout + ended.stderr
    return {name: outcome if outcome == "PASSED" else ended.stdout for name, outcome in found.items()}


@pytest.mark.parametrize("name", re.findall(r"async def (test_\w+)", SHOWN))
def test_example_test_of_the_docs_passes(outcomes: dict[str, str], name: str) -> None:
    assert outcomes[name] == "PASSED"
