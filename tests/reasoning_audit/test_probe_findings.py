"""The findings that follow from the scores of probes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from reasoning_audit.findings import Defect, Reproduction, Severity
from reasoning_audit.probe_findings import defect_of, findings_of
from reasoning_audit.probes import Probe, ProbeTally, TaskAudit
from reasoning_env.records import Reason, Verdict
from tests.reasoning_audit.audits import BAD, EMPTY, GOOD
from tests.records import make_spec, problem_of

COMMANDS = Reproduction(lambda _problem, answer: f"score {answer}", "the audit")


def _audit(scores: Mapping[str, float], reason: Reason = Reason.SCORED) -> TaskAudit:
    """An audit of four problems, on each of which a kind of probe earns its score."""
    tallies = {}
    for probe, score in scores.items():
        tallies[probe] = ProbeTally()
        for seed in range(4):
            tallies[probe].add(Verdict(score, reason, probe), problem_of(make_spec("gcd", seed=seed)), 0.9)
    return TaskAudit("gcd", None, 4, tallies)


@pytest.mark.parametrize(
    ("probe", "defect"),
    [
        (Probe.ORACLE, Defect.GOLD_NOT_PAID),
        (Probe.PERTURBED, Defect.WRONG_ABOVE_RIGHT),
        (Probe.BLANK, Defect.EMPTY_PAID),
        (Probe.BEST_SPLIT, Defect.GIVES_ANSWER_AWAY),
        (Probe.NEIGHBOUR, Defect.CONSTANT_PAID),
        (Probe.QUESTION, Defect.COPY_PAID),
        ("junk", Defect.GARBAGE_PAID),
        ("0", Defect.CONSTANT_PAID),
        ("20 kB of words", Defect.REPETITION_PAID),
        ("12 for every number", Defect.LAYOUT_PAID),
        ("the last line", Defect.COPY_PAID),
    ],
)
def test_defect_of_a_probe(probe: str, defect: Defect) -> None:
    assert defect_of(probe) is defect


def test_clean_task_has_no_finding() -> None:
    assert findings_of(GOOD, COMMANDS) == []


def test_finding_has_evidence() -> None:
    [finding] = findings_of(BAD, COMMANDS)
    assert (finding.defect, finding.severity, finding.place) == (Defect.CONSTANT_PAID, Severity.HIGH, "maze at 0.5")
    assert (finding.score, finding.answer, finding.command) == (0.75, "x" * 200, f"score {'x' * 500}")
    assert finding.reference.startswith("gcd:train:100:")


@pytest.mark.parametrize(("score", "found"), [(0.1, 0), (0.11, 1)])
def test_garbage_has_a_low_bound(score: float, found: int) -> None:
    assert len(findings_of(_audit({"junk": score}), COMMANDS)) == found


def test_one_finding_of_a_defect() -> None:
    [finding] = findings_of(_audit({"0": 0.5, "1": 0.75}), COMMANDS)
    assert (finding.answer, finding.score, finding.expected) == ("1", 0.75, 0.9)


def test_rare_unpaid_gold_is_medium() -> None:
    gold = ProbeTally()
    for seed in range(30):
        gold.add(Verdict(float(seed != 7), Reason.SCORED, "3"), problem_of(make_spec("gcd", seed=seed)))
    [finding] = findings_of(TaskAudit("gcd", None, 30, {Probe.ORACLE: gold}), COMMANDS)
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
def test_wrong_answer_paid_in_full(paid: Mapping[str, float], defects: list[Defect]) -> None:
    audit = _audit(paid)
    right = ProbeTally()
    for seed in range(4):
        right.add(Verdict(1.0, Reason.SCORED, "3"), problem_of(make_spec("gcd", seed=seed)))
    audit = replace(audit, tallies={**audit.tallies, Probe.ORACLE: right})
    assert [one.defect for one in findings_of(audit, COMMANDS)] == defects


@pytest.mark.parametrize(
    ("reason", "defect"),
    [
        (Reason.TIMEOUT, Defect.TOO_SLOW),
        (Reason.OUT_OF_MEMORY, Defect.TOO_MUCH_MEMORY),
    ],
)
def test_failed_answer_is_a_finding(reason: Reason, defect: Defect) -> None:
    assert [one.defect for one in findings_of(_audit({"0": 0.0}, reason), COMMANDS)] == [defect]


def test_task_left_out_is_low() -> None:
    [finding] = findings_of(BAD, COMMANDS, left_out={"maze"})
    assert finding.severity is Severity.LOW
    assert "left out" not in findings_of(BAD, COMMANDS)[0].detail


def test_unpaid_gold_of_a_task_left_out() -> None:
    findings = findings_of(_audit({Probe.ORACLE: 0.0}), COMMANDS, left_out={"gcd"})
    assert [one.severity for one in findings] == [Severity.HIGH]


def test_task_without_problems() -> None:
    [finding] = findings_of(EMPTY, COMMANDS)
    assert (finding.defect, finding.detail) == (Defect.NO_PROBLEM, EMPTY.failures[0])
    assert finding.command == "the audit"


def test_split_has_no_answer_to_score() -> None:
    split = ProbeTally()
    for seed in range(4):
        split.add(Verdict(1.0, Reason.SCORED), problem_of(make_spec("gcd", seed=seed)))
    [finding] = findings_of(TaskAudit("gcd", None, 4, {Probe.BEST_SPLIT: split}), COMMANDS)
    assert (finding.defect, finding.command) == (Defect.GIVES_ANSWER_AWAY, "the audit")
