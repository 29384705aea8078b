"""The page of defects: made from saved findings and from the tables of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reasoning_audit.findings import Defect, Finding, Severity
from reasoning_audit.report import Report, make_report
from reasoning_audit.scores import TaskAudit
from reasoning_env.errors import ConfigError
from reasoning_env.tasks import TASKS
from tests.records import make_library
from tools.defects import FINDINGS, HELD, REPORTED, Runs, _escaped, defects_page, read_runs, runs_of

ROOT = Path(__file__).parents[2]


def _finding(task: str, defect: Defect = Defect.COPY_PAID, detail: str = "paid") -> Finding:
    reference = f'{task}:eval:7:-:0.1.25:{"0" * 16}:{{"size": 2}}'
    return Finding(defect, Severity.HIGH, task, None, detail, reference, "a|b\n<c>", 1.0, 1.0, "again")


def _line(runs: Runs, task: str) -> str:
    [line] = [line for line in defects_page(runs).splitlines() if line.startswith(f"| `{task}` |")]
    return line


def test_page_has_not_drifted() -> None:
    assert FINDINGS.with_suffix(".md").read_text() == defects_page(read_runs(FINDINGS))


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
    assert set(REPORTED) <= set(TASKS)


def test_marks_of_markdown_are_shown_as_they_are() -> None:
    assert _escaped("9**9_[x]`") == "9&#42;&#42;9&#95;&#91;x&#93;&#96;"


def test_finding_has_evidence() -> None:
    line = _line(Runs("0.1.25", plain=[_finding("lcm")]), "lcm")
    assert '`copy_paid`: <code>"a&#124;b&#92;n&lt;c&gt;"</code> earns 1 (paid); seed 7' in line
    assert "refused" in line
    assert line.count(" | ") == 4


@pytest.mark.parametrize(("task", "here"), [("lcm", "| open |"), ("syllogism", "left out of training")])
def test_what_is_found_still(task: str, here: str) -> None:
    found = [_finding(task)]
    assert here in _line(Runs("0.1.25", plain=found, corrected=found), task)


def test_row_from_tables_alone() -> None:
    line = _line(Runs("0.1.25"), "family_relationships")
    assert "wrong answers" in line
    assert "#535" in line
    assert "| `lcm` |" not in defects_page(Runs("0.1.25"))


def _report(scores: str, task: str) -> Report:
    audits = [TaskAudit(task, None, 0, {})]
    return make_report(audits, [_finding(task)], make_library({}, version="0.1.25", path="/"), scores=scores, seed=1)


def test_runs_are_told_apart() -> None:
    reports = [_report("the scores of training", "gcd"), _report("the library's own scores", "gcd")]
    runs = runs_of(reports)
    assert (len(runs.plain), len(runs.corrected)) == (1, 1)
    with pytest.raises(ConfigError, match="plain"):
        runs_of(reports[:1])
