"""What needs no environment class is answered without the imports that take seconds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "reasoning_gym_environment.py"
RUN = """
import runpy, sys
sys.path[0] = sys.argv[1].rpartition("/")[0]  # as for a script
sys.argv.pop(0)
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    sys.stderr.write("\\nLOADED " + " ".join({name.split(".")[0] for name in sys.modules}))
"""
HEAVY = {"atroposlib", "wandb", "openai", "transformers", "torch", "aiohttp", "numpy", "reasoning_gym"}


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--version"], "reasoning-gym 0.1"),
        (["serve", "-h"], "--tasks"),
        (["evaluate", "-h"], "--preset"),
        (["settings", "-h"], "--markdown"),
        (["report", "--help"], "--output"),
    ],
)
def test_command_loads_no_framework(argv: list[str], words: str) -> None:
    ended = subprocess.run([sys.executable, "-c", RUN, str(SCRIPT), *argv], capture_output=True, text=True)
    output, _, loaded = (ended.stdout + ended.stderr).rpartition("LOADED ")
    assert ended.returncode == 0, output
    assert words in output
    assert not HEAVY & set(loaded.split())
