"""Demo and rig work under other names, as they have when installed, and bring in nothing of the environment."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import demo
import testing


@pytest.mark.parametrize("module", ["reasoning_gym_demo.command", "reasoning_gym_testing.inference_server"])
def test_modules_import_under_the_installed_name(module: str, tmp_path: Path) -> None:
    for package in (demo, testing):
        target = tmp_path / f"reasoning_gym_{package.__name__}"
        shutil.copytree(Path(package.__file__).parent, target, ignore=shutil.ignore_patterns("__pycache__"))
    code = f"""
import sys
import {module}
unwanted = {{"demo", "testing", "reasoning_env", "reasoning_gym", "reasoning_gym_environment"}}
unwanted |= {{"atroposlib", "transformers"}}
assert not unwanted & set(sys.modules), unwanted & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
