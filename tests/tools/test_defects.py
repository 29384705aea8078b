"""The page of defects: made from saved findings and from the tables of the code."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from reasoning_audit.findings import Defect
from reasoning_audit.report import Report
from reasoning_env.errors import ConfigError
from reasoning_env.library_facts import FACTS
from tools.defects import FINDINGS, HELD, REPORTED, Runs, defects_page, runs_of

ROOT = Path(__file__).parents[2]


def _row(task: str, defect: str = "copy_paid", **fields: Any) -> Any:
    reference = f'{task}:eval:7:-:0.1.25:{"0" * 16}:{{"size": 2}}'
    row = {"defect": defect, "severity": "high", "task": task, "level": None, "detail": "paid", "reference": reference}
    return {**row, "answer": "a|b\n<c>", "score": 1.0, "expected": 1.0, "command": "again", **fields}


def _line(runs: Runs, task: str) -> str:
    [line] = [line for line in defects_page(runs).splitlines() if line.startswith(f"| `{task}` |")]
    return line


def _runs(**runs: Any) -> Runs:
    return {"library": "0.1.25", "plain": [], "corrected": [], "rlve": [], "examples": [], **runs}  # type: ignore[typeddict-item]


def test_page_has_not_drifted() -> None:
    assert FINDINGS.with_suffix(".md").read_text() == defects_page(json.loads(FINDINGS.read_text()))


def test_every_defect_is_held_by_a_test() -> None:
    assert set(HELD) == set(Defect)
    page = (ROOT / "docs" / "defects.md").read_text()
    named = set(re.findall(r"`(tests/[^`]*)`", page)) | {held.test for held in HELD.values()}
    missing = []
    for test in named:
        path, _, name = test.partition("::")
        if f"def {name}(" not in (ROOT / path).read_text():
            missing.append(test)
    assert missing == []


def test_reported_tasks_exist() -> None:
    assert set(REPORTED) <= set(FACTS)


def test_finding_has_evidence() -> None:
    line = _line(_runs(plain=[_row("lcm")]), "lcm")
    assert "`copy_paid`: <code>&quot;a&#124;b\\n&lt;c&gt;&quot;</code> earns 1 (paid); seed 7" in line
    assert "refused" in line
    assert line.count(" | ") == 4


def test_what_is_found_still_is_open() -> None:
    assert "| open |" in _line(_runs(plain=[_row("lcm")], corrected=[_row("lcm")]), "lcm")
    assert "left out of training" in _line(_runs(plain=[_row("syllogism")], corrected=[_row("syllogism")]), "syllogism")


def test_row_from_tables_alone() -> None:
    line = _line(_runs(), "family_relationships")
    assert "wrong answers" in line
    assert "#535" in line
    assert "| `lcm` |" not in defects_page(_runs())


def test_environments_of_rlve() -> None:
    page = defects_page(
        _runs(
            rlve=[
                _row("rlve/Integral", "text_executed"),
                _row("rlve/Maze", detail="1 earns 1; training leaves the task out"),
            ]
        )
    )
    assert "| `Integral` | `text_executed`" in page
    assert page.splitlines()[-1].endswith("| left out of training |")


def _report(scores: str, task: str) -> Report:
    audits: Any = [{"task": task}]
    return {
        "scores": scores,
        "seed": 1,
        "library": {"version": "0.1.25", "path": "/"},
        "failed": [],
        "findings": [_row(task)],
        "audits": audits,
    }


def test_runs_are_told_apart() -> None:
    reports = [_report("the scores of training", "gcd"), _report("the library's own scores", "gcd")]
    runs = runs_of([*reports, _report("the scores of training", "rlve/Maze")])
    assert [len(runs[name]) for name in ("plain", "corrected", "rlve")] == [1, 1, 1]  # type: ignore[literal-required]
    with pytest.raises(ConfigError, match="rlve"):
        runs_of(reports)
