"""The help of each command imports no slow packages."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "reasoning_gym_environment.py"
SAYS = {
    "--version": "reasoning-gym 0.1",
    "serve -h": "--tasks",
    "evaluate -h": "--preset",
    "settings -h": "--markdown",
    "report --help": "--output",
    "audit -h": "--items",
    "compare -h": "--json",
    "demo -h": "--batches",
    "problems -h": "--out",
    "rescore -h": "--keep",
    "score -h": "--seed",
    "tasks -h": "--level",
    "judge -h": "--port",  # last, because the modules that it imports stay loaded
}
NEEDS = {"judge -h": {"pydantic", "yaml"}}
"""The help of `judge` imports these packages because it describes the fields of a settings class."""
RUN = """
import contextlib, io, json, runpy, sys

script, *lines = sys.argv[1:]
sys.path[0] = script.rpartition("/")[0]  # as for a script
found = {}
for line in lines:
    sys.argv = [script, *line.split()]
    status = None
    with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.redirect_stderr(printed):
        try:
            runpy.run_path(script, run_name="__main__")
        except SystemExit as end:
            status = end.code
    loaded = {name.split(".")[0] for name in sys.modules}
    found[line] = {"status": status or 0, "printed": printed.getvalue(), "loaded": sorted(loaded)}
print(json.dumps(found))
"""
OF_ATROPOS = {"atroposlib", "wandb", "openai", "transformers", "tokenizers", "torch"}
HEAVY = {*OF_ATROPOS, "aiohttp", "numpy", "pydantic", "yaml", "reasoning_gym", "reasoning_gym_testing"}


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """For each command line, its output and the modules that are loaded afterwards, all in one process."""
    command = [sys.executable, "-c", RUN, str(SCRIPT), *SAYS]
    answers: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return answers


@pytest.mark.parametrize("line", SAYS)
def test_help_option_imports_no_slow_package(found: dict[str, Any], line: str) -> None:
    assert found[line]["status"] == 0
    assert SAYS[line] in found[line]["printed"]
    assert HEAVY & set(found[line]["loaded"]) == NEEDS.get(line, set())
