"""The results of an audit, as JSON and in one line: which tasks pass, and the score of each kind of answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NotRequired

from pydantic import Field, TypeAdapter
from typing_extensions import TypedDict  # pydantic cannot read the TypedDict of Python 3.11

from reasoning_env.errors import ConfigError
from reasoning_env.library_facts import facts
from reasoning_env.records import LibraryInfo
from reasoning_env.storage.reading import Count, Name, Number, Share, describe, read_json

from .findings import Finding, FindingRow, count_by_severity, finding_row, worst_first
from .probes import TaskAudit, is_shortcut, role_of

DEFAULTS = "defaults"
"""The name, among levels, of the library's own parameters."""


class AuditOutcome(StrEnum):
    """The result of a task at a level."""

    PASSES = "passes"
    FAILS = "FAILS"
    GIVES_AWAY = "gives away"
    """The task is known to fail, and `exclude_gameable` leaves the task out of training."""
    NOT_PROBED = "not probed"


class BestAnswer(TypedDict):
    """The answer of a probe that earned most; its text is cut to 200 characters."""

    seed: Count
    score: Share
    answer: str


class ProbeNumbers(TypedDict):
    """The scores of a kind of probe."""

    role: Name
    items: Count
    mean: Share
    slowest_ms: Number
    reasons: dict[Name, Count]
    best: BestAnswer | None


class AuditedTask(TypedDict):
    """A task at a level, which is None for the library's defaults."""

    task: Name
    level: Share | None
    result: Name
    items: Count
    flawed: dict[Name, Count]
    """Rejected problems by cause."""
    failures: list[Name]
    bound: Annotated[Share, Field(gt=0)]
    worst: Name | None
    """The kind of probe without reasoning that earns most; None where every such kind earns 0."""
    faults: list[Name]
    slowest_ms: Number
    escaped: dict[Name, Count]
    """Answers that the verifier failed at, by the kind of failure."""
    kinds: dict[Name, ProbeNumbers]


class LibraryNames(TypedDict):
    """The release of the library, and its folder."""

    version: Name
    path: Name


class Report(TypedDict):
    """The numbers of an audit, as `audit --output` saves them."""

    scores: Name
    """Whose scores were probed, in words."""
    seed: Count
    library: LibraryNames
    modules: NotRequired[dict[Name, Name]]
    """The versions of what made the other tasks, as `module NAME`; missing in older reports."""
    failed: list[Name]
    findings: list[FindingRow]
    """The worst first."""
    audits: list[AuditedTask]


_REPORT = TypeAdapter(Report)


def read_report(path: Path) -> Report:
    """Return the numbers that `audit --output` saved. Raises ConfigError for another file."""
    try:
        report = _REPORT.validate_python(read_json(path))
        for audit in report["audits"]:
            if audit["worst"] is not None and audit["worst"] not in audit["kinds"]:
                raise ValueError(f"{audit['task']}: `kinds` has no {audit['worst']!r}, which `worst` names")
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {describe(error)}", setting="--from") from error
    except ValueError as error:
        raise ConfigError(
            f"{path} holds no audit of this version ({describe(error)})",
            setting="--from",
            remedy="name a file that `audit --output` has written",
        ) from error
    return report


def result_of(audit: TaskAudit, left_out: Container[str] = ()) -> AuditOutcome:
    """Return the result of a task at a level. Tasks of `left_out` are known to fail, and training leaves them out."""
    if not audit.items:
        return AuditOutcome.NOT_PROBED
    if audit.faults:
        is_known = facts(audit.task).gives_away and all(map(is_shortcut, audit.faults))
        return AuditOutcome.GIVES_AWAY if is_known or audit.task in left_out else AuditOutcome.FAILS
    return AuditOutcome.PASSES


def outcome_line(audits: Sequence[TaskAudit], results: Mapping[str, AuditOutcome], *, fails: bool) -> str:
    """Return one line: whether the audit `fails`, and the tasks over their bound with the worst fault of each."""
    outcome = "failed" if fails else "passed"
    over = [audit for audit in audits if results[audit.name] is AuditOutcome.FAILS]
    if over:
        return f"audit {outcome}: {'; '.join(map(_describe_faults, over))}"
    counts = Counter(results.values())
    passed = f"{counts[AuditOutcome.PASSES]} of {len(audits)} tasks and levels"
    told = f"{passed} pay a policy without reasoning no more than the bound"
    if counts[AuditOutcome.GIVES_AWAY]:
        told += f", and {counts[AuditOutcome.GIVES_AWAY]} give the answer away"
    return f"audit {outcome}: {'see the findings above; ' if fails else ''}{told}"


def _describe_faults(audit: TaskAudit) -> str:
    probe = max(audit.faults, key=audit.mean)
    more = f" (and {len(audit.faults) - 1} more)" if len(audit.faults) > 1 else ""
    return f"{audit.name}: {audit.faults[probe]}{more}"


def findings_line(findings: Sequence[Finding]) -> str:
    """Return the number of findings by severity, in words."""
    if not findings:
        return "no findings"
    counts = count_by_severity(findings)
    return (
        f"{len(findings)} findings: {', '.join(f'{count} {severity}' for severity, count in counts.items() if count)}"
    )


def make_report(
    audits: Sequence[TaskAudit],
    results: Mapping[str, AuditOutcome],
    library: LibraryInfo,
    findings: Sequence[Finding] = (),
    *,
    scores: str,
    seed: int,
) -> Report:
    """Return every number of the audit, as JSON values."""
    return {
        "scores": scores,
        "seed": seed,
        "library": {"version": library.version, "path": library.path},
        "modules": dict(library.modules),
        "failed": [name for name, result in results.items() if result is AuditOutcome.FAILS],
        "findings": [finding_row(finding) for finding in worst_first(findings)],
        "audits": [
            {
                "task": audit.task,
                "level": audit.level,
                "result": results[audit.name].value,
                "items": audit.items,
                "flawed": dict(audit.flawed),
                "failures": list(audit.failures),
                "bound": audit.bound,
                "worst": audit.worst,
                "faults": list(audit.faults.values()),
                "slowest_ms": 1000 * audit.slowest_s,
                "escaped": {reason.value: count for reason, count in audit.escaped.items()},
                "kinds": {probe: _numbers(audit, probe) for probe in audit.tallies},
            }
            for audit in audits
        ],
    }


def _numbers(audit: TaskAudit, probe: str) -> ProbeNumbers:
    tally = audit.tallies[probe]
    best: BestAnswer | None = None
    if tally.best is not None:
        answer = (tally.best.verdict.answer or "")[:200]
        best = {"seed": tally.best.problem.spec.seed, "score": tally.best.verdict.score, "answer": answer}
    return {
        "role": role_of(probe).value,
        "items": len(tally.scores),
        "mean": audit.mean(probe),
        "slowest_ms": 1000 * tally.slowest_s,
        "reasons": {reason.value: count for reason, count in sorted(tally.reasons.items())},
        "best": best,
    }
