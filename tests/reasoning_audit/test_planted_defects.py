"""The audit finds the planted defect of each test task, and no defect in the same task without it."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest

from reasoning_audit.command import audit_command
from reasoning_audit.findings import Defect

MODULE = Path(__file__).with_name("planted_defects.py")


@pytest.mark.slow
def test_audit_finds_exactly_the_planted_defects(tmp_path: Path) -> None:
    config = tmp_path / "short.yaml"
    config.write_text("env: {scoring_deadline_s: 0.5}")
    argv = ["--task-modules", str(MODULE), "--tasks", "planted_*,clean_*", "--config", str(config)]
    argv += ["--items", "3", "--levels", "defaults", "--output", str(tmp_path / "audit.json")]
    assert audit_command(argv, tmp_path) == 1
    report = json.loads((tmp_path / "audit.json").read_text())
    planted = {audit["task"] for audit in report["audits"] if audit["task"].startswith("planted_")}
    assert len(planted) == 17
    found = defaultdict(set)
    for finding in report["findings"]:
        found[finding["task"]].add(finding["defect"])
    assert {task for task in planted if task.removeprefix("planted_") not in found[task]} == set()
    assert {task: names for task, names in found.items() if task.startswith("clean_")} == {}


@pytest.mark.slow
def test_audit_finds_dependence_on_the_hash_seed(tmp_path: Path) -> None:
    """The problems of this task depend on PYTHONHASHSEED."""
    argv = ["--tasks", "isomorphic_strings", "--rewards", "library", "--levels", "defaults", "--items", "3"]
    audit_command([*argv, "--output", str(tmp_path / "audit.json")], tmp_path)
    findings = json.loads((tmp_path / "audit.json").read_text())["findings"]
    assert Defect.PROCESSES_DIFFER in {finding["defect"] for finding in findings}


def test_every_kind_of_defect_except_two_is_planted_in_a_test_task() -> None:
    text = MODULE.read_text()
    assert {defect for defect in Defect if f'"{defect.value}": ((' not in text} == {
        Defect.VERIFIER_FAILS,
        Defect.NO_PROBLEM,
    }
