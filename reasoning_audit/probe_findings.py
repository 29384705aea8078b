"""Turn the scores of probes into findings."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import replace

from reasoning_env.records import Reason
from reasoning_env.verifiers.partial_credit import FORM_SCORE
from reasoning_env.verifiers.shortcuts import LAYOUTS

from .findings import MAX_ANSWER, MEANINGS, Defect, Finding, Reproduction, Severity
from .probes import (
    CONSTANT_ANSWERS,
    GARBAGE,
    HEDGES,
    REPETITIONS,
    WRONG_PROBES,
    PolicyRole,
    Probe,
    ProbedAnswer,
    ProbeTally,
    TaskAudit,
    is_shortcut,
    role_of,
)
from .questions import MANY

GOLD_SCORE = 0.95
"""The least that a right answer must earn. The mean of a task is 1 in 539 of 540 tasks, and 0.99 in the other."""
DEFECTS_OF_REASONS: Mapping[Reason, Defect] = {
    Reason.TIMEOUT: Defect.TOO_SLOW,
    Reason.OUT_OF_MEMORY: Defect.TOO_MUCH_MEMORY,
    Reason.CRASH: Defect.TOO_MUCH_MEMORY,
}
"""The defect of each way in which an answer ends a worker. Errors are looked at again by the watch."""


def findings_of(audit: TaskAudit, commands: Reproduction, left_out: Container[str] = ()) -> list[Finding]:
    """Return the findings of a task at a level, one for each defect: the answer that shows the defect best.

    Where a task of `left_out`, which training leaves out, pays policies without reasoning, the severity is low.
    """
    best: dict[Defect, Finding] = {}
    for finding in _findings(audit, commands):
        other = best.get(finding.defect)
        if other is None or (finding.score or 0.0) > (other.score or 0.0):
            best[finding.defect] = finding
    if audit.task not in left_out:
        return [*best.values()]
    excused = {defect_of(probe) for probe in audit.tallies if is_shortcut(probe)}
    return [
        replace(one, severity=Severity.LOW, detail=f"{one.detail}; training leaves the task out")
        if one.defect in excused
        else one
        for one in best.values()
    ]


def defect_of(probe: str) -> Defect:
    """Return the defect that a high score of a probe shows."""
    if probe in GARBAGE or probe == Probe.TAGGED:
        return Defect.GARBAGE_PAID
    if probe == Probe.BLANK:
        return Defect.EMPTY_PAID
    if probe in REPETITIONS:
        return Defect.REPETITION_PAID
    if probe == Probe.BEST_SPLIT:
        return Defect.GIVES_ANSWER_AWAY
    if probe in CONSTANT_ANSWERS or probe in (Probe.BEST_CONSTANT, Probe.NEIGHBOUR, Probe.ALL_OPTIONS):
        return Defect.CONSTANT_PAID
    if probe in LAYOUTS:
        return Defect.LAYOUT_PAID
    if role_of(probe) is PolicyRole.SHORTCUT:
        return Defect.COPY_PAID
    return Defect.WRONG_ABOVE_RIGHT if probe == Probe.PERTURBED else Defect.GOLD_NOT_PAID


def _findings(audit: TaskAudit, commands: Reproduction) -> Iterator[Finding]:
    def finding(defect: Defect, example: ProbedAnswer | None, detail: str, severity: Severity | None = None) -> Finding:
        severity = severity or MEANINGS[defect].severity
        if example is None or example.verdict.answer is None:
            return Finding(defect, audit.task, audit.level, detail, command=commands.audit, severity=severity)
        return Finding(
            defect,
            audit.task,
            audit.level,
            detail,
            reference=example.problem.reference,
            answer=example.verdict.answer[:MAX_ANSWER],
            score=example.verdict.score,
            expected=example.right_score,
            command=commands.score(example.problem, example.verdict.answer),
            severity=severity,
        )

    if not audit.items:
        cause = audit.failures[0] if audit.failures else "every problem is rejected"
        yield finding(Defect.NO_PROBLEM, None, cause)
        return
    yield from _gold_findings(audit, finding)
    yield from _wrong_findings(audit, finding)
    for probe, tally in audit.tallies.items():
        mean = audit.mean(probe)
        if is_shortcut(probe) and mean > audit.bound_of(probe):
            bound = audit.bound_of(probe)
            detail = f"{str(probe)!r} earns {mean:.2f} in the mean of {audit.items} problems, over {bound:.2f}"
            yield finding(defect_of(probe), tally.best, detail)
        if probe == Probe.BLANK and mean > FORM_SCORE:
            yield finding(Defect.EMPTY_PAID, tally.best, f"a blank earns {mean:.2f} in the mean")
        for reason, example in tally.failed.items():
            if reason in DEFECTS_OF_REASONS:
                detail = f"{reason.value} at {str(probe)!r} ({tally.reasons[reason]} of {len(tally.scores)} answers)"
                yield finding(DEFECTS_OF_REASONS[reason], example, detail)


def _gold_findings(audit: TaskAudit, finding: Callable[..., Finding]) -> Iterator[Finding]:
    gold: ProbeTally | None = audit.tallies.get(Probe.ORACLE)
    if gold is None:
        return
    mean = audit.mean(Probe.ORACLE)
    unpaid = sum(score < GOLD_SCORE for score in gold.scores)
    if unpaid:
        # A rare problem whose right answer earns less does not spoil a training.
        severity = Severity.HIGH if mean < GOLD_SCORE else Severity.MEDIUM
        detail = f"{unpaid} of {len(gold.scores)} right answers earn less than {GOLD_SCORE:g}"
        yield finding(Defect.GOLD_NOT_PAID, gold.worst, detail, severity)
    perturbed = audit.mean(Probe.PERTURBED)
    if mean < perturbed:
        tally = audit.tallies[Probe.PERTURBED]
        yield finding(
            Defect.WRONG_ABOVE_RIGHT, tally.best, f"changed answers earn {perturbed:.2f}, right ones {mean:.2f}"
        )


def _wrong_findings(audit: TaskAudit, finding: Callable[..., Finding]) -> Iterator[Finding]:
    """Find wrong answers that earn as much as right ones on every problem; a few problems prove nothing."""
    if audit.mean(Probe.ORACLE) < GOLD_SCORE:
        return

    def is_paid(probe: str) -> bool:
        tally = audit.tallies.get(probe)
        return tally is not None and len(tally.scores) >= MANY and tally.is_never_below_right

    for probe in WRONG_PROBES:
        if is_paid(probe):
            detail = f"{str(probe)!r} earns as much as the right answer, on {len(audit.tallies[probe].scores)} problems"
            yield finding(Defect.WRONG_PAID, audit.tallies[probe].best, detail)
    for pair in HEDGES:
        if all(map(is_paid, pair)) and not is_paid(Probe.PERTURBED):  # else answers near the right one are paid
            detail = f"{str(pair[0])!r} earns as much as the right answer, in both orders"
            yield finding(Defect.HEDGE_PAID, audit.tallies[pair[0]].best, detail)
