"""The map of tasks and levels."""

from __future__ import annotations

from reasoning_audit.findings import Defect, Finding, Severity
from reasoning_audit.page import heat_map_page
from reasoning_audit.scores import TaskAudit

from .audits import BAD, EMPTY, GOOD, report_of


def test_tasks_over_their_bound_come_first() -> None:
    page = heat_map_page(report_of(GOOD, BAD, EMPTY))
    assert page.index("<th>maze</th>") < page.index("<th>gcd</th>")
    fault = "&#x27;0&#x27; earns 0.75 in the mean of 4 problems, over 0.35"
    title = f"maze at 0.5: 0, 4 problems; {fault}"
    assert f'<td class="used10 over" title="{title}">0.75<small>0.35</small></td>' in page
    assert "1 fail: maze at 0.5" in page
    assert '<td class="none why">0, at level 0.5</td>' in page


def test_names_are_escaped() -> None:
    page = heat_map_page(report_of(TaskAudit("<b>", None, 0, {}, failures=('"><script>',))))
    assert "<script>" not in page
    assert "<th><b>" not in page


def test_findings_are_shown() -> None:
    evidence = "maze:train:1", "<b>", 0.75, 1.0, "score maze '<answer>'"
    finding = Finding(Defect.COPY_PAID, Severity.HIGH, "maze", 0.5, "<i>paid</i>", *evidence)
    page = heat_map_page(report_of(GOOD, findings=[finding]))
    assert "1 findings, the worst first" in page
    assert "<td>maze at 0.5</td>" in page
    assert "&lt;i&gt;paid&lt;/i&gt;<small>maze:train:1</small>" in page
    assert "<td>0.75</td><td>1</td>" in page
    assert "<i>" not in page


def test_page_without_findings() -> None:
    assert "There are none." in heat_map_page(report_of(GOOD))
