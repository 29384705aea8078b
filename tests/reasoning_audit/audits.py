"""Audit results for tests: a task that passes, a task that fails, and a task without problems."""

from __future__ import annotations

from collections.abc import Sequence

from reasoning_audit.findings import Finding
from reasoning_audit.probes import Probe
from reasoning_audit.report import Report, make_report
from reasoning_audit.scores import ProbeTally, TaskAudit
from reasoning_env.records import Reason, Verdict
from tests.records import make_library, make_spec, problem_of

LIBRARY = make_library({"gcd": "arithmetic"}, version="1.2", path="/library")


def tally(*scores: float) -> ProbeTally:
    tally = ProbeTally()
    for number, score in enumerate(scores):
        tally.add(Verdict(score, Reason.SCORED, "x" * 500, 0.0123), problem_of(make_spec("gcd", seed=100 + number)))
    return tally


def audit_of(task: str, zero: float = 0.0, level: float | None = None) -> TaskAudit:
    return TaskAudit(task, level, 4, {Probe.ORACLE: tally(*[1.0] * 4), "0": tally(*[zero] * 4)})


GOOD = audit_of("gcd")
BAD = audit_of("maze", 0.75, level=0.5)
EMPTY = TaskAudit("jugs", None, 0, {}, failures=("jugs, seed 1: took over 20 s", "jugs, seed 2: took over 20 s"))


def report_of(*audits: TaskAudit, findings: Sequence[Finding] = ()) -> Report:
    return make_report(audits, findings, LIBRARY, scores="the scores of training", seed=42)
