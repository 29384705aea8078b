"""What needs no environment class is answered without the imports that take seconds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "reasoning_gym_environment.py"
RUN = """
import runpy, sys
try:
    runpy.run_path(sys.argv[1], run_name="__main__")
finally:
    sys.stderr.write("\\nLOADED " + " ".join({name.split(".")[0] for name in sys.modules}))
"""
HEAVY = {"atroposlib", "wandb", "openai", "transformers", "torch", "aiohttp", "numpy", "reasoning_gym"}


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], "usage"),
        (["--version"], "reasoning-gym 0.1"),
        (["settings"], "group_size"),
        (["tasks", "--help"], "--difficulty"),
        (["report", "--help"], "--output"),
    ],
)
def test_command_loads_no_framework(argv: list[str], words: str) -> None:
    # The folder of a script is the first place where it finds modules.
    code = f"import sys; sys.path[0] = {str(SCRIPT.parent)!r}; sys.argv.pop(0)\n" + RUN.replace(
        "sys.argv[1]", "sys.argv[0]"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(SCRIPT), *argv], capture_output=True, text=True)
    output, _, loaded = (ended.stdout + ended.stderr).rpartition("LOADED ")
    assert ended.returncode == 0, output
    assert words in output
    assert not HEAVY & set(loaded.split())
