"""The package works under another name, as it has when it is installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import demo

PACKAGE = Path(demo.__file__).parent


@pytest.mark.parametrize("module", ["command", "policy_server", "toy_trainer", "train_tokenizer"])
def test_modules_import_under_the_installed_name(module: str, tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "reasoning_gym_demo", ignore=shutil.ignore_patterns("__pycache__"))
    code = f"""
import sys
import reasoning_gym_demo.{module}
unwanted = {{"demo", "reasoning_env", "reasoning_gym", "reasoning_gym_environment", "atroposlib", "transformers"}}
assert not unwanted & set(sys.modules), unwanted & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
