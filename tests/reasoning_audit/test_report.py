"""The report of an audit as JSON, and its last line."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import TypeAdapter

from reasoning_audit.findings import Defect, Finding, Severity
from reasoning_audit.probes import Probe
from reasoning_audit.report import AuditOutcome, Report, encode_report, outcome_line, print_report, result_of
from reasoning_audit.scores import TaskAudit

from .audits import BAD, EMPTY, GOOD, audit_of, report_of, tally


@pytest.mark.parametrize(
    ("audit", "result"),
    [
        (GOOD, AuditOutcome.PASSES),
        (BAD, AuditOutcome.FAILS),
        (EMPTY, AuditOutcome.NOT_PROBED),
        (audit_of("tsumego", 0.75), AuditOutcome.GIVES_AWAY),
        (TaskAudit("tsumego", None, 4, {Probe.ORACLE: tally(*[0.5] * 4)}), AuditOutcome.FAILS),
    ],
)
def test_mean_scores_decide_the_audit_result_of_a_task(audit: TaskAudit, result: AuditOutcome) -> None:
    assert result_of(audit, {"tsumego"}) is result


def test_last_line_of_the_audit_output_names_failed_tasks() -> None:
    line = outcome_line(report_of(GOOD, BAD, EMPTY).audits, fails=True)
    assert [task for task in ("maze at 0.5", "gcd", "jugs") if task in line] == ["maze at 0.5"]


def test_last_line_of_the_audit_output_counts_passed_tasks() -> None:
    assert outcome_line(report_of(GOOD, EMPTY).audits, fails=False).startswith(
        "audit passed: 1 of 2 pairs of task and level"
    )


def test_last_line_reports_a_failed_audit_even_if_no_task_failed() -> None:
    assert outcome_line(report_of(GOOD).audits, fails=True).startswith("audit failed: see the findings above")


@pytest.fixture
def saved() -> Any:
    return json.loads(encode_report(report_of(GOOD, BAD, EMPTY)))


def test_audit_report_is_unchanged_after_json_encoding_and_decoding() -> None:
    finding = Finding(Defect.COPY_PAID, Severity.HIGH, "maze", 0.5, "paid", "maze:train:1", "b", 0.75, 1.0, "score")
    report = report_of(GOOD, BAD, EMPTY, findings=[finding])
    assert TypeAdapter(Report).validate_json(encode_report(report)) == report


def test_audit_report_says_how_the_audit_was_made(saved: Any) -> None:
    assert (saved["scores"], saved["seed"]) == ("the scores of training", 42)
    assert saved["library"] == {"version": "1.2", "path": "/library"}
    assert saved["modules"] == {}


def test_audit_report_has_results_by_task(saved: Any) -> None:
    assert saved["failed"] == ["maze at 0.5"]
    assert [one["result"] for one in saved["audits"]] == ["passes", "FAILS", "not probed"]
    assert saved["audits"][2]["failures"] == list(EMPTY.failures)


@pytest.mark.parametrize(
    ("defect", "shown"),
    [(Defect.COPY_PAID, "1 (right answer: 0.5)"), (Defect.CALLS_DIFFER, "1 (second call: 0.5)")],
)
def test_printed_finding_names_the_score_to_compare_with(
    capsys: pytest.CaptureFixture[str], defect: Defect, shown: str
) -> None:
    finding = Finding(defect, Severity.HIGH, "maze", 0.5, "paid", "maze:train:1", "b", score=1.0, expected=0.5)
    print_report(report_of(GOOD, findings=[finding]), fails=False)
    assert f"  score     {shown}\n" in capsys.readouterr().out
