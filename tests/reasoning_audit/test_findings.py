"""Derive findings from the scores of probes; sort, merge and count them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reasoning_audit.findings import (
    Defect,
    Finding,
    Reporter,
    Severity,
    count_by_severity,
    findings_of,
    merge,
    sort_by_severity,
)
from reasoning_audit.probes import Probe
from reasoning_audit.reproduction import LibraryCommands, OwnCommands, Reproduction
from reasoning_audit.scores import ProbeTally, TaskAudit
from reasoning_env.records import Problem, Reason, Verdict
from tests.records import make_spec, problem_of

from .audits import BAD, EMPTY


def finding(defect: Defect = Defect.COPY_PAID, severity: Severity = Severity.HIGH, **fields: Any) -> Finding:
    return Finding(defect, severity, **{"task": "gcd", "level": None, "detail": "seen", **fields})


def test_every_defect_has_an_explanation() -> None:
    page = (Path(__file__).parents[2] / "reasoning_audit" / "README.md").read_text()
    named = re.findall(r"^\| `(\w+)` \| (\w+)", page, re.MULTILINE)
    assert dict(named) == {defect.value: defect.severity.value for defect in Defect}


def test_findings_are_sorted_by_severity() -> None:
    given = [finding(severity=severity) for severity in (Severity.LOW, Severity.HIGH, Severity.MEDIUM)]
    assert [one.severity for one in sort_by_severity(given)] == [Severity.HIGH, Severity.MEDIUM, Severity.LOW]
    assert count_by_severity(given[:2]) == {Severity.HIGH: 1, Severity.MEDIUM: 0, Severity.LOW: 1}


@pytest.mark.parametrize(
    ("defect", "answer", "shown"),
    [
        (Defect.TEXT_EXECUTED, "4", "score_answer('4', d[0])"),
        (Defect.PROCESSES_DIFFER, "", "for s in 0 1; do PYTHONHASHSEED=$s"),
        (Defect.PROCESSES_DIFFER, "4", "again"),
        (Defect.CALLS_DIFFER, "4", "again"),
        (Defect.TEXT_EXECUTED, "4" * 2_001, "again"),
    ],
)
def test_finding_has_a_command_that_reproduces_the_finding(defect: Defect, answer: str, shown: str) -> None:
    problem = problem_of(make_spec("maze"))
    of_library = Reporter("maze", None, LibraryCommands("again"), is_watched=True)
    assert shown in of_library.finding(defect, "", problem, answer).command
    own = Reporter("maze", None, OwnCommands("again", program="program"), is_watched=True)
    assert own.finding(defect, "", problem, answer).command == "again"


def test_findings_at_several_levels_are_merged() -> None:
    given = [finding(level=level, score=score) for level, score in ((None, 0.5), (0.0, 0.9), (1.0, 0.4))]
    [merged] = merge([*given])
    assert (merged.level, merged.detail) == (0.0, "seen; also at the defaults, level 1")
    assert len(merge([*given, finding(task="maze"), finding(Defect.LAYOUT_PAID)])) == 3


# ------------------------------------------------------------------ findings from scores


class ScoreCommands(Reproduction):
    def score(self, problem: Problem, answer: str) -> str:
        return f"score {answer}"


def _found(audit: TaskAudit, left_out: Collection[str] = ()) -> list[Finding]:
    return findings_of(audit, Reporter(audit.task, audit.level, ScoreCommands("again")), left_out)


def _audit(scores: Mapping[str, float], reason: Reason = Reason.SCORED) -> TaskAudit:
    """Return an audit of four problems, in which each kind of probe gets the given score."""
    tallies = {}
    for probe, score in scores.items():
        tallies[probe] = ProbeTally()
        for seed in range(4):
            tallies[probe].add(Verdict(score, reason, probe), problem_of(make_spec("gcd", seed=seed)), 0.9)
    return TaskAudit("gcd", None, 4, tallies)


def test_finding_has_an_answer_and_a_problem_reference_as_evidence() -> None:
    [finding] = _found(BAD)
    assert (finding.defect, finding.severity, finding.place) == (Defect.CONSTANT_PAID, Severity.HIGH, "maze at 0.5")
    assert (finding.score, finding.answer, finding.command) == (0.75, "x" * 200, f"score {'x' * 500}")
    assert finding.reference.startswith("gcd:train:100:")


@pytest.mark.parametrize(("score", "found"), [(0.1, 0), (0.11, 1)])
def test_garbage_answer_with_a_positive_score_is_a_finding(score: float, found: int) -> None:
    assert len(_found(_audit({"junk": score}))) == found


def test_findings_with_the_same_defect_are_merged() -> None:
    [finding] = merge(_found(_audit({"0": 0.5, "1": 0.75})))
    assert (finding.answer, finding.score, finding.expected) == ("1", 0.75, 0.9)


def test_finding_has_medium_severity_if_one_of_30_right_answers_is_rejected() -> None:
    gold = ProbeTally()
    for seed in range(30):
        gold.add(Verdict(float(seed != 7), Reason.SCORED, "3"), problem_of(make_spec("gcd", seed=seed)))
    [finding] = _found(TaskAudit("gcd", None, 30, {Probe.ORACLE: gold}))
    assert (finding.defect, finding.severity) == (Defect.GOLD_NOT_PAID, Severity.MEDIUM)
    assert finding.reference.startswith("gcd:train:7:")


@pytest.mark.parametrize(
    ("paid", "defects"),
    [
        ({Probe.OTHER_SIGN: 0.9}, [Defect.WRONG_PAID]),
        ({Probe.OTHER_SIGN: 0.89}, []),
        ({Probe.OR_ANOTHER: 0.9, Probe.ANOTHER_OR: 0.9}, [Defect.HEDGE_PAID]),
        ({Probe.OR_ANOTHER: 0.9, Probe.ANOTHER_OR: 0.5}, []),
        ({Probe.OR_ANOTHER: 0.9, Probe.ANOTHER_OR: 0.9, Probe.PERTURBED: 0.9}, []),
    ],
)
def test_wrong_answer_with_full_score_is_a_finding(paid: Mapping[str, float], defects: list[Defect]) -> None:
    audit = _audit(paid)
    right = ProbeTally()
    for seed in range(4):
        right.add(Verdict(1.0, Reason.SCORED, "3"), problem_of(make_spec("gcd", seed=seed)))
    audit = replace(audit, tallies={**audit.tallies, Probe.ORACLE: right})
    assert [one.defect for one in _found(audit)] == defects


@pytest.mark.parametrize(
    ("reason", "defect"),
    [
        (Reason.TIMEOUT, Defect.TOO_SLOW),
        (Reason.OUT_OF_MEMORY, Defect.TOO_MUCH_MEMORY),
    ],
)
def test_timeout_or_memory_error_is_a_finding(reason: Reason, defect: Defect) -> None:
    assert [one.defect for one in _found(_audit({"0": 0.0}, reason))] == [defect]


def test_finding_on_a_task_left_out_of_training_has_low_severity() -> None:
    [finding] = _found(BAD, left_out={"maze"})
    assert finding.severity is Severity.LOW
    assert "left out" not in _found(BAD)[0].detail


def test_rejected_right_answer_has_high_severity_even_if_training_omits_the_task() -> None:
    findings = _found(_audit({Probe.ORACLE: 0.0}), left_out={"gcd"})
    assert [one.severity for one in findings] == [Severity.HIGH]


def test_task_that_can_generate_no_problem_is_a_finding() -> None:
    [finding] = _found(EMPTY)
    assert (finding.defect, finding.detail) == (Defect.NO_PROBLEM, EMPTY.failures[0])
    assert finding.command == "again"


def test_audit_command_reproduces_a_finding_about_a_decision_tree() -> None:
    split = ProbeTally()
    for seed in range(4):
        split.add(Verdict(1.0, Reason.SCORED), problem_of(make_spec("gcd", seed=seed)))
    [finding] = _found(TaskAudit("gcd", None, 4, {Probe.BEST_TREE: split}))
    assert (finding.defect, finding.command) == (Defect.GIVES_ANSWER_AWAY, "again")
