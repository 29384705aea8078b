"""Files that state the same fact about the project, such as its version, agree."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml

import reasoning_env

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def promised_pythons() -> set[str]:
    """Return the Python versions in the package's classifiers."""
    return {match[1] for line in PROJECT["classifiers"] if (match := re.search(r":: (3\.\d+)$", line))}


def test_citation_file_has_the_package_version() -> None:
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == reasoning_env.__version__


def test_ci_workflow_covers_every_supported_python() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    assert set(workflow["jobs"]["test"]["strategy"]["matrix"]["python"]) == promised_pythons()


def test_requires_python_has_no_upper_bound() -> None:
    assert PROJECT["requires-python"] == f">={min(promised_pythons())}"


def test_wheel_built_from_the_verifiers_folder_declares_the_core_requirements() -> None:
    """The wheel of hub/verifiers contains the core, so it needs the core's requirements and those of the extra."""
    folder = ROOT / "hub" / "verifiers"
    wheel = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert wheel["version"] == reasoning_env.__version__
    assert wheel["requires-python"] == PROJECT["requires-python"]
    assert wheel["dependencies"] == PROJECT["dependencies"] + PROJECT["optional-dependencies"]["verifiers"]
    module = "reasoning_gym_taskset.py"  # no symbolic link, because the hub's tool omits linked files
    assert (folder / module).read_text() == (ROOT / module).read_text()


def test_pyproject_lists_every_package() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    folders = [file.parent.relative_to(ROOT) for file in (ROOT / "reasoning_env").rglob("__init__.py")]
    elsewhere = settings["tool"]["setuptools"]["package-dir"].keys()
    named = {name for name in settings["tool"]["setuptools"]["packages"] if name.startswith("reasoning_env")}
    assert named - elsewhere == {".".join(folder.parts) for folder in folders}


def test_openenv_version_is_the_same_in_all_files() -> None:
    folder = ROOT / "hub" / "openenv" / "reasoning_gym_environment"
    [pin] = PROJECT["optional-dependencies"]["openenv"]
    assert re.findall(r"openenv==[\d.]+", (folder / "server" / "Dockerfile").read_text()) == [pin]
    assert yaml.safe_load((folder / "openenv.yaml").read_text())["version"] == reasoning_env.__version__
