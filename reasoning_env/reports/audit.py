"""The results of an audit, as JSON and in one line: which tasks pass, and the score of each kind of answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TypedDict

from ..library_facts import facts
from ..metrics.stats import LibraryInfo
from .verifier_probes import TaskAudit, is_shortcut, role_of

DEFAULTS = "defaults"
"""The name, among levels, of the library's own parameters."""


class Result(StrEnum):
    """The result of a task at a level."""

    PASSES = "passes"
    FAILS = "FAILS"
    GIVES_AWAY = "gives away"
    """The task is known to fail, and `exclude_gameable` leaves the task out of training."""
    NOT_PROBED = "not probed"


class BestAnswer(TypedDict):
    """The answer of a probe that earned most; its text is cut to 200 characters."""

    seed: int
    score: float
    answer: str


class ProbeNumbers(TypedDict):
    """The scores of a kind of probe."""

    role: str
    items: int
    mean: float
    slowest_ms: float
    reasons: dict[str, int]
    best: BestAnswer | None


class AuditedTask(TypedDict):
    """A task at a level, which is None for the library's defaults."""

    task: str
    level: float | None
    result: str
    items: int
    flawed: dict[str, int]
    """Rejected problems by cause."""
    failures: list[str]
    bound: float
    worst: str | None
    """The kind of probe without reasoning that earns most; None where every such kind earns 0."""
    faults: list[str]
    slowest_ms: float
    escaped: dict[str, int]
    """Answers that the verifier failed at, by the kind of failure."""
    kinds: dict[str, ProbeNumbers]


class Report(TypedDict):
    """The numbers of an audit, as `audit --output` saves them."""

    scores: str
    """Whose scores were probed, in words."""
    seed: int
    library: dict[str, str]
    failed: list[str]
    audits: list[AuditedTask]


def result_of(audit: TaskAudit) -> Result:
    """Return the result of a task at a level."""
    if not audit.items:
        return Result.NOT_PROBED
    if audit.faults:
        is_known = facts(audit.task).gives_away and all(map(is_shortcut, audit.faults))
        return Result.GIVES_AWAY if is_known else Result.FAILS
    return Result.PASSES


def outcome_line(audits: Sequence[TaskAudit], results: Mapping[str, Result]) -> str:
    """Return one line: the audit passed, or the tasks that fail with the worst fault of each."""
    failed = [audit for audit in audits if results[audit.name] is Result.FAILS]
    if not failed:
        passed = sum(result is Result.PASSES for result in results.values())
        levels = f"{passed} of {len(audits)} tasks and levels"
        return f"audit passed: {levels} pay a policy without reasoning no more than the bound"
    return f"audit failed: {'; '.join(map(_describe_failure, failed))}"


def _describe_failure(audit: TaskAudit) -> str:
    probe = max(audit.faults, key=audit.mean)
    more = f" (and {len(audit.faults) - 1} more)" if len(audit.faults) > 1 else ""
    return f"{audit.name}: {audit.faults[probe]}{more}"


def make_report(
    audits: Sequence[TaskAudit], results: Mapping[str, Result], library: LibraryInfo, *, scores: str, seed: int
) -> Report:
    """Return every number of the audit, as JSON values."""
    return {
        "scores": scores,
        "seed": seed,
        "library": {"version": library.version, "path": library.path},
        "failed": [name for name, result in results.items() if result is Result.FAILS],
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
        answer = (tally.best.answer or "")[:200]
        best = {"seed": tally.best_seed, "score": tally.best.score, "answer": answer}
    return {
        "role": role_of(probe).value,
        "items": len(tally.scores),
        "mean": audit.mean(probe),
        "slowest_ms": 1000 * tally.slowest_s,
        "reasons": {reason.value: count for reason, count in sorted(tally.reasons.items())},
        "best": best,
    }
