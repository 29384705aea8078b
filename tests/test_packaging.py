"""What is said of this project in several files is said alike."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml

import reasoning_env

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def promised_pythons() -> set[str]:
    """The versions of Python that the classifiers name."""
    return {match[1] for line in PROJECT["classifiers"] if (match := re.search(r":: (3\.\d+)$", line))}


def test_a_citation_names_this_version() -> None:
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == reasoning_env.__version__


def test_the_workflow_tests_the_pythons_that_are_promised() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    assert set(workflow["jobs"]["test"]["strategy"]["matrix"]["python"]) == promised_pythons()


def test_a_newer_python_is_not_shut_out() -> None:
    assert PROJECT["requires-python"] == f">={min(promised_pythons())}"
