"""The map of tasks and levels."""

from __future__ import annotations

from reasoning_audit.findings import Defect, Finding, Severity
from reasoning_audit.page import heat_map_page
from reasoning_audit.probes import TaskAudit
from reasoning_audit.report import AuditOutcome, make_report
from tests.reasoning_audit.audits import BAD, EMPTY, GOOD, LIBRARY, RESULTS


def test_tasks_over_their_bound_come_first() -> None:
    report = make_report([GOOD, BAD, EMPTY], RESULTS, LIBRARY, scores="the scores of training", seed=42)
    page = heat_map_page(report)
    assert page.index("<th>maze</th>") < page.index("<th>gcd</th>")
    title = "maze at 0.5: 0, 4 problems; &#x27;0&#x27; earns 0.75, over 0.35"
    assert f'<td class="used10 over" title="{title}">0.75<small>0.35</small></td>' in page
    assert "1 fail: maze at 0.5" in page
    assert '<td class="none why">0, at level 0.5</td>' in page


def test_names_are_escaped() -> None:
    evil = TaskAudit("<b>", None, 0, {}, failures=('"><script>',))
    report = make_report([evil], {"<b>": AuditOutcome.NOT_PROBED}, LIBRARY, scores="x", seed=1)
    page = heat_map_page(report)
    assert "<script>" not in page
    assert "<th><b>" not in page


def test_findings_are_shown() -> None:
    finding = Finding(
        Defect.COPY_PAID,
        "maze",
        0.5,
        "<i>paid</i>",
        reference="maze:train:1",
        answer="<b>",
        score=0.75,
        expected=1.0,
        command="score maze '<answer>'",
        severity=Severity.HIGH,
    )
    report = make_report([GOOD], RESULTS, LIBRARY, [finding], scores="x", seed=1)
    page = heat_map_page(report)
    assert "1 findings, the worst first" in page
    assert "<td>maze at 0.5</td>" in page
    assert "&lt;i&gt;paid&lt;/i&gt;<small>maze:train:1</small>" in page
    assert "<td>0.75</td><td>1</td>" in page
    assert "<i>" not in page


def test_page_without_findings() -> None:
    assert "There are none." in heat_map_page(make_report([GOOD], RESULTS, LIBRARY, scores="x", seed=1))
