"""The launcher before its slow imports, in new processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from .processes import REPOSITORY, SCRIPT

CTRL_C = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n"


def run(*words: str, path: Path | None = None, python: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run the launcher. Modules in the folder `path` replace installed packages."""
    environment = {**os.environ, "PYTHONPATH": str(path or "")}
    command = [sys.executable, *python, str(SCRIPT), *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def test_ctrl_c_during_imports_prints_nothing(tmp_path: Path) -> None:
    (tmp_path / "atroposlib.py").write_text(CTRL_C)
    ended = run("serve", path=tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, "", "")


def test_evaluate_command_imports_no_atropos(tmp_path: Path) -> None:
    (tmp_path / "atroposlib.py").write_text(CTRL_C)
    ended = run("evaluate", "--dry-run", "x", path=tmp_path)
    assert (ended.returncode >= 0, "Traceback" in ended.stderr) == (True, False)


def test_launcher_prints_a_one_line_error_if_packages_are_missing() -> None:
    ended = run("-h", python=("-S",))  # without site-packages
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"python {SCRIPT}: required packages are not installed for {sys.executable}; ")
    assert len(ended.stderr.splitlines()) == 1


def test_missing_atropos_extra_prints_a_one_line_error(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['atroposlib'] = None\n")
    ended = run("serve", path=tmp_path)
    assert ended.returncode == 1
    needed = f"pip install '{REPOSITORY}[atropos]'"
    assert ended.stderr == f"python {SCRIPT}: the packages for Atropos are not installed; run `{needed}`\n"


def test_importing_raises_if_another_reasoning_env_package_was_imported(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "copy_of_environment").symlink_to(REPOSITORY)
    other = tmp_path / "other" / "reasoning_env"
    other.mkdir(parents=True)
    (other / "__init__.py").touch()
    script = "import reasoning_env, copy_of_environment"
    variables = {**os.environ, "PYTHONPATH": f"{other.parent}{os.pathsep}{tree}"}
    ended = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=variables, capture_output=True, text=True)
    assert ended.stderr.splitlines()[-1].endswith(f"{other}, which has been imported; uninstall one of them")


def test_help_of_a_command_imports_no_atropos(tmp_path: Path) -> None:
    (tmp_path / "atroposlib.py").write_text(CTRL_C)
    ended = run("serve", "help", path=tmp_path)
    assert (ended.returncode, ended.stdout.startswith("usage: ")) == (0, True)
