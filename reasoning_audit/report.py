"""The report of an audit: the findings and each task's scores, as JSON and as printed text."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from reasoning_env.records import LibraryInfo
from reasoning_env.runtime.terminal import print_table
from reasoning_env.runtime.text import pluralize, printable
from reasoning_env.storage.values import Count, Name, Share

from .findings import Defect, Finding, count_by_severity, sort_by_severity
from .options import level_name
from .probes import Probe, is_shortcut
from .scores import TaskAudit, place


class AuditOutcome(StrEnum):
    """The result of auditing a task at a level."""

    PASSES = "passes"
    FAILS = "FAILS"
    GIVES_AWAY = "gives away"
    """A known weakness: answers that need no reasoning score too high, so training excludes the task."""
    NOT_PROBED = "not probed"


@dataclass(frozen=True)
class AuditedTask:
    """The results of a task at a level; `level` is None for the library's default parameters.

    - `flawed` counts rejected problems by cause; `failures` are the errors of problems that could not be generated.
    - `worst` is the highest-scoring kind of answer that needs no reasoning; None if all such kinds score 0.
    - `means` has the mean score of each kind of answer.
    """

    task: Name
    level: Share | None
    result: AuditOutcome
    items: Count
    flawed: dict[Name, Count]
    failures: list[Name]
    bound: Annotated[Share, Field(gt=0)]
    worst: Name | None
    faults: list[Name]
    means: dict[Name, Share]

    @property
    def place(self) -> str:
        return place(self.task, self.level)


@dataclass(frozen=True)
class LibraryNames:
    """The version and the folder of the library."""

    version: Name
    path: Name


@dataclass(frozen=True)
class Report:
    """The results of an audit: the content of `audit.json`.

    - `scores` names the audited scores, such as `the library's own scores`.
    - `failed` names the tasks and levels with the outcome FAILS.
    - `findings` start with the highest severity.
    - `modules` maps `module NAME` to the version of a task module.
    """

    scores: Name
    seed: Count
    library: LibraryNames
    failed: list[Name]
    findings: list[Finding]
    audits: list[AuditedTask]
    modules: dict[Name, Name] = field(default_factory=dict)


def make_report(
    audits: Sequence[TaskAudit],
    findings: Sequence[Finding],
    library: LibraryInfo,
    *,
    scores: str,
    seed: int,
    left_out: Container[str] = (),
) -> Report:
    """Return the report. `left_out` are the tasks that training excludes (see `result_of`)."""
    audited = [_audited_task(audit, result_of(audit, left_out)) for audit in audits]
    return Report(
        scores,
        seed,
        LibraryNames(library.version, library.path),
        [audit.place for audit in audited if audit.result is AuditOutcome.FAILS],
        sort_by_severity(findings),
        audited,
        dict(library.modules),
    )


def result_of(audit: TaskAudit, left_out: Container[str] = ()) -> AuditOutcome:
    """Return the outcome. If the only faults are high scores of shortcuts, and training excludes the task (`left_out`),
    the outcome is GIVES_AWAY instead of FAILS."""
    if not audit.items:
        return AuditOutcome.NOT_PROBED
    if audit.faults:
        is_known = audit.task in left_out and all(map(is_shortcut, audit.faults))
        return AuditOutcome.GIVES_AWAY if is_known else AuditOutcome.FAILS
    return AuditOutcome.PASSES


def _audited_task(audit: TaskAudit, result: AuditOutcome) -> AuditedTask:
    return AuditedTask(
        task=audit.task,
        level=audit.level,
        result=result,
        items=audit.items,
        flawed=dict(audit.flawed),
        failures=list(audit.failures),
        bound=audit.bound,
        worst=audit.worst,
        faults=list(audit.faults.values()),
        means={str(probe): audit.mean(probe) for probe in audit.tallies},
    )


# ------------------------------------------------------------------ as a file


def encode_report(report: Report) -> str:
    """Return a report as JSON."""
    return json.dumps(asdict(report), indent=1)


# ------------------------------------------------------------------ as text


def print_report(report: Report, *, fails: bool) -> None:
    """Print the table of tasks, the findings and the result. `fails` says whether the audit failed."""
    library = report.library
    source = f"reasoning-gym {library.version} from {library.path}; " if library.version else ""
    print(f"{source}{report.scores}\n")
    _print_table(report.audits)
    for audit in report.audits:
        if audit.failures:
            count, first = len(audit.failures), audit.failures[0]
            print(f"{audit.place}: {pluralize(count, 'problem')} not audited; the first error: {first}")
    for finding in report.findings:
        _print_finding(finding)
    print(findings_line(report.findings))
    print(outcome_line(report.audits, fails=fails), flush=True)


def _print_table(audits: Sequence[AuditedTask]) -> None:
    rows = [_row(audit) for audit in audits]
    text_columns = {"TASK", "LEVEL", "MOST REJECTED", "BEST SHORTCUT", "RESULT"}
    print_table(list(rows[0]), [list(row.values()) for row in rows], numbers=rows[0].keys() - text_columns)
    print("""
DRAWS: problems generated for each accepted problem; MOST REJECTED: the most frequent reason for rejecting a problem
ORACLE: mean score of the right answers; PERTURBED: mean score of right answers with one character changed
BEST SHORTCUT: the highest-scoring kind of answer made without reasoning; MEAN: the mean score of this kind
BOUND: highest value of MEAN that passes
gives away: answers without reasoning are known to score high, so training excludes the task""")


def _row(audit: AuditedTask) -> Mapping[str, str]:
    """Return the table's row for an audited task: the value of each column, by the column's heading."""

    def mean(probe: str | None) -> str:
        return f"{audit.means[probe]:.2f}" if probe in audit.means else "-"

    draws = 1 + sum(audit.flawed.values()) / audit.items if audit.items else 0.0
    return {
        "TASK": audit.task,
        "LEVEL": level_name(audit.level),
        "ITEMS": str(audit.items),
        "DRAWS": f"{draws:.1f}",
        "MOST REJECTED": max(audit.flawed, key=audit.flawed.__getitem__, default="-"),
        "ORACLE": mean(Probe.ORACLE),
        "PERTURBED": mean(Probe.PERTURBED),
        "BEST SHORTCUT": audit.worst or "-",
        "MEAN": mean(audit.worst),
        "BOUND": f"{audit.bound:.2f}",
        "RESULT": audit.result.value,
    }


OTHER_SCORES = {Defect.CALLS_DIFFER: "second call", Defect.PROCESSES_DIFFER: "second process"}
"""What `Finding.expected` is for these defects. For other defects, it is the score of the right answer."""


def _print_finding(finding: Finding) -> None:
    print(f"\n{finding.severity.value}: {finding.defect.value} in {finding.place}: {printable(finding.detail)}")
    if finding.reference:
        print(f"  problem   {printable(finding.reference)}")
    if finding.answer or finding.score is not None:
        print(f"  answer    {printable(finding.answer)}")
    if finding.score is not None:
        other = OTHER_SCORES.get(finding.defect, "right answer")
        compared = "" if finding.expected is None else f" ({other}: {finding.expected:g})"
        print(f"  score     {finding.score:g}{compared}")
    if finding.command:
        print(f"  again     {printable(finding.command)}")


def findings_line(findings: Sequence[Finding]) -> str:
    """Return a line such as `3 findings: 1 high, 2 low`."""
    if not findings:
        return "no findings"
    counts = count_by_severity(findings)
    by_severity = ", ".join(f"{count} {severity}" for severity, count in counts.items() if count)
    return f"{len(findings)} findings: {by_severity}"


def outcome_line(audits: Sequence[AuditedTask], *, fails: bool) -> str:
    """Return a line with the result of the audit and the failed tasks. `fails` is true if the exit status is 1."""
    outcome = "failed" if fails else "passed"
    failed = [audit.place for audit in audits if audit.result is AuditOutcome.FAILS]
    if failed:
        return f"audit {outcome}: {', '.join(failed)}"
    counts = Counter(audit.result for audit in audits)
    passed = f"{counts[AuditOutcome.PASSES]} of {len(audits)} pairs of task and level"
    summary = f"{passed} have mean scores within the bounds of the audit"
    if counts[AuditOutcome.GIVES_AWAY]:
        summary += f", and {counts[AuditOutcome.GIVES_AWAY]} give the answer away"
    return f"audit {outcome}: {'see the findings above; ' if fails else ''}{summary}"
