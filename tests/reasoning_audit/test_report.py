"""The results of an audit, as JSON and in one line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reasoning_audit.probes import Probe, TaskAudit
from reasoning_audit.report import AuditOutcome, make_report, outcome_line, result_of
from tests.reasoning_audit.audits import BAD, EMPTY, GOOD, LIBRARY, RESULTS, audit_of, tally


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
def test_result_of_a_task(audit: TaskAudit, result: AuditOutcome) -> None:
    assert result_of(audit) is result


def test_failed_tasks_are_named() -> None:
    line = outcome_line([GOOD, BAD, EMPTY], RESULTS, fails=True)
    assert [task for task in ("maze at 0.5", "gcd", "jugs") if task in line] == ["maze at 0.5"]


def test_passed_tasks_are_counted() -> None:
    results = {"gcd": AuditOutcome.PASSES, "jugs": AuditOutcome.NOT_PROBED}
    assert outcome_line([GOOD, EMPTY], results, fails=False).startswith("audit passed: 1 of 2 tasks")


def test_findings_fail_without_a_task_over_its_bound() -> None:
    assert outcome_line([GOOD], {"gcd": AuditOutcome.PASSES}, fails=True).startswith(
        "audit failed: see the findings above"
    )


@pytest.fixture
def report() -> Any:
    made = make_report([GOOD, BAD, EMPTY], RESULTS, LIBRARY, scores="the scores of training", seed=42)
    return json.loads(json.dumps(made, allow_nan=False))


def test_report_says_what_was_audited(report: Any) -> None:
    assert (report["scores"], report["seed"]) == ("the scores of training", 42)
    assert report["library"] == {"version": "1.2", "path": "/library"}
    assert report["modules"] == {}


def test_report_has_results(report: Any) -> None:
    assert report["failed"] == ["maze at 0.5"]
    assert [one["result"] for one in report["audits"]] == ["passes", "FAILS", "not probed"]
    assert report["audits"][2]["failures"] == list(EMPTY.failures)


def test_report_has_counts(report: Any) -> None:
    maze = report["audits"][1]
    assert (maze["task"], maze["level"], maze["items"], maze["flawed"]) == ("maze", 0.5, 4, {})
    assert (len(maze["faults"]), maze["failures"], set(maze["escaped"].values())) == (1, [], {0})


def test_report_has_numbers_of_a_probe(report: Any) -> None:
    maze = report["audits"][1]
    probed = maze["kinds"]["0"]
    assert maze["slowest_ms"] == probed.pop("slowest_ms") == pytest.approx(12.3)
    assert probed == {
        "role": "shortcut",
        "items": 4,
        "mean": 0.75,
        "reasons": {"scored": 4},
        "best": {"seed": 100, "score": 0.75, "answer": "x" * 200},
    }
