"""The findings of an audit: the defects of a verifier, each with evidence. README.md explains each defect."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from reasoning_env.answers.shortcuts import FORM_SCORE, LAYOUTS
from reasoning_env.records import Problem, Reason
from reasoning_env.storage.values import Name, Number, Share

from .probes import CONSTANT_ANSWERS, GARBAGE, HEDGES, WRONG_PROBES, Probe, is_shortcut
from .reproduction import MAX_SCORED, Reproduction
from .scores import MANY, RIGHT_ANSWER_SCORE, ProbedAnswer, TaskAudit, level_words, place

MAX_ANSWER = 200
"""Maximum number of characters of an answer in a finding."""


class Severity(StrEnum):
    """How much a defect can harm a training run."""

    LOW = "low"
    """A small defect, or a known defect of a task that training excludes."""
    MEDIUM = "medium"
    """Rewards are wrong for some problems or under some conditions."""
    HIGH = "high"
    """A policy can learn wrong behaviour: wrong answers score high, right ones score low, or an answer runs as code."""

    @property
    def rank(self) -> int:
        return [*Severity].index(self)


class Defect(StrEnum):
    """The defects that an audit finds. README.md explains each of them."""

    GOLD_NOT_PAID = "gold_not_paid"
    GARBAGE_PAID = "garbage_paid"
    EMPTY_PAID = "empty_paid"
    CONSTANT_PAID = "constant_paid"
    COPY_PAID = "copy_paid"
    LAYOUT_PAID = "layout_paid"
    WRONG_PAID = "wrong_paid"
    HEDGE_PAID = "hedge_paid"
    WRONG_ABOVE_RIGHT = "wrong_above_right"
    SCORE_OUT_OF_RANGE = "score_out_of_range"
    CALLS_DIFFER = "calls_differ"
    PROCESSES_DIFFER = "processes_differ"
    TEXT_EXECUTED = "text_executed"
    TOO_SLOW = "too_slow"
    TOO_MUCH_MEMORY = "too_much_memory"
    VERIFIER_FAILS = "verifier_fails"
    CONTRADICTS_QUESTION = "contradicts_question"
    GIVES_ANSWER_AWAY = "gives_answer_away"
    NO_PROBLEM = "no_problem"

    @property
    def severity(self) -> Severity:
        """The default severity of findings with this defect."""
        if self in (Defect.VERIFIER_FAILS, Defect.NO_PROBLEM):
            return Severity.LOW
        return Severity.MEDIUM if self in OF_MEDIUM_SEVERITY else Severity.HIGH


OF_MEDIUM_SEVERITY = frozenset({
    *(Defect.EMPTY_PAID, Defect.SCORE_OUT_OF_RANGE, Defect.PROCESSES_DIFFER, Defect.TOO_SLOW, Defect.TOO_MUCH_MEMORY),
    Defect.CONTRADICTS_QUESTION,
})  # fmt: skip
DEFECTS_OF_REASONS: Mapping[Reason, Defect] = {
    Reason.TIMEOUT: Defect.TOO_SLOW,
    Reason.OUT_OF_MEMORY: Defect.TOO_MUCH_MEMORY,
    Reason.CRASH: Defect.TOO_MUCH_MEMORY,
}
"""The defect that a verdict with one of these reasons shows."""


@dataclass(frozen=True)
class Finding:
    """One defect with its evidence, as reports save it.

    - `reference` names the problem; "" if the finding is not about a single problem.
    - `answer` is the answer that shows the defect, truncated to MAX_ANSWER characters.
    - `score` is the score of the answer. `expected` is the score to compare with: the score of the right
      answer, or of the same answer in a second call or process; None if there is no such score.
    - `detail` describes the finding in words.
    - `command` reproduces the finding.
    """

    defect: Defect
    severity: Severity
    task: Name
    level: Share | None
    detail: Name
    reference: str = ""
    answer: Annotated[str, Field(max_length=MAX_ANSWER)] = ""
    score: Number | None = None
    expected: Number | None = None
    command: str = ""

    @property
    def place(self) -> str:
        return place(self.task, self.level)


@dataclass(frozen=True)
class Reporter:
    """Makes the findings of a task at a level, each with the command that reproduces it.

    If `is_watched` is True, the scores come from watched workers, which call the original verifier without guards.
    """

    task: str
    level: float | None
    commands: Reproduction
    is_watched: bool = False

    def finding(
        self,
        defect: Defect,
        detail: str,
        problem: Problem | None = None,
        answer: str = "",
        score: float | None = None,
        expected: float | None = None,
        *,
        severity: Severity | None = None,
    ) -> Finding:
        """Return a finding. If `problem` is None, the finding is about the whole task."""
        return Finding(
            defect,
            severity or defect.severity,
            self.task,
            self.level,
            detail,
            reference="" if problem is None else problem.reference,
            answer=answer[:MAX_ANSWER],
            score=score,
            expected=expected,
            command=self.commands.audit if problem is None else self._command(defect, problem, answer),
        )

    def _command(self, defect: Defect, problem: Problem, answer: str) -> str:
        if len(answer) > MAX_SCORED:
            return self.commands.audit
        match defect:
            case Defect.PROCESSES_DIFFER if not answer:
                return self.commands.two_hash_seeds(problem)
            case Defect.PROCESSES_DIFFER | Defect.CALLS_DIFFER:
                return self.commands.audit
        return (self.commands.bare_score if self.is_watched else self.commands.score)(problem, answer)

    def shown_by(
        self, example: ProbedAnswer | None, defect: Defect, detail: str, *, severity: Severity | None = None
    ) -> Finding:
        """Return a finding with the answer of `example` as evidence; without evidence if there is no such answer."""
        if example is None or example.verdict.answer is None:
            return self.finding(defect, detail, severity=severity)
        verdict = example.verdict
        evidence = example.problem, example.verdict.answer, verdict.score, example.right_score
        return self.finding(defect, detail, *evidence, severity=severity)


def sort_by_severity(findings: Iterable[Finding]) -> list[Finding]:
    """Sort findings by severity, then by defect and task."""
    return sorted(findings, key=lambda one: (-one.severity.rank, one.defect, one.task, one.level or -1.0))


def merge(findings: Iterable[Finding]) -> list[Finding]:
    """Keep the worst finding of each task and defect, by severity and then score.

    `detail` then also names the levels of the other findings.
    """
    grouped: dict[tuple[str, Defect], list[Finding]] = {}
    for finding in findings:
        grouped.setdefault((finding.task, finding.defect), []).append(finding)
    merged = []
    for same in grouped.values():
        worst = max(same, key=lambda one: (one.severity.rank, one.score or 0.0))
        others = [level for level in dict.fromkeys(one.level for one in same) if level != worst.level]
        detail = f"{worst.detail}; also at {', '.join(map(level_words, others))}" if others else worst.detail
        merged.append(replace(worst, detail=detail))
    return merged


def count_by_severity(findings: Iterable[Finding]) -> dict[Severity, int]:
    """Return the number of findings of each severity, the highest severity first."""
    severities = [finding.severity for finding in findings]
    return {severity: severities.count(severity) for severity in reversed(Severity)}


def is_at_least(findings: Iterable[Finding], severity: Severity) -> bool:
    """Return True if any finding has at least this severity."""
    return any(finding.severity.rank >= severity.rank for finding in findings)


# ------------------------------------------------------------------ findings from the scores of probes


def findings_of(audit: TaskAudit, reporter: Reporter, left_out: Container[str] = ()) -> list[Finding]:
    """Return the findings from the scores of a task at a level.

    `left_out` are the tasks that training excludes. For them, a high score without reasoning has low severity.
    """
    if not audit.items:
        cause = audit.failures[0] if audit.failures else "no problem was generated or scored"
        return [reporter.finding(Defect.NO_PROBLEM, cause)]
    return [
        *_reference_answer_findings(audit, reporter),
        *_wrong_findings(audit, reporter),
        *_shortcut_findings(audit, reporter, is_left_out=audit.task in left_out),
        *_failure_findings(audit, reporter),
    ]


def defect_of(probe: str) -> Defect:
    """Return the defect of a verifier that scores this kind of answer too high."""
    if probe in GARBAGE:
        return Defect.GARBAGE_PAID
    if probe == Probe.BEST_TREE:
        return Defect.GIVES_ANSWER_AWAY
    if probe in CONSTANT_ANSWERS or probe in (Probe.BEST_CONSTANT, Probe.NEIGHBOUR, Probe.ALL_OPTIONS):
        return Defect.CONSTANT_PAID
    return Defect.LAYOUT_PAID if probe in LAYOUTS else Defect.COPY_PAID


def _reference_answer_findings(audit: TaskAudit, reporter: Reporter) -> Iterator[Finding]:
    gold = audit.tallies.get(Probe.ORACLE)
    if gold is None:
        return
    unpaid = sum(score < RIGHT_ANSWER_SCORE for score in gold.scores)
    if unpaid:
        # If only a few right answers score too low, the harm to a training run is small.
        severity = Severity.HIGH if Probe.ORACLE in audit.faults else Severity.MEDIUM
        detail = f"{unpaid} of {len(gold.scores)} right answers earn less than {RIGHT_ANSWER_SCORE:g}"
        yield reporter.shown_by(gold.worst, Defect.GOLD_NOT_PAID, detail, severity=severity)
    if Probe.PERTURBED in audit.faults:
        best = audit.tallies[Probe.PERTURBED].best
        yield reporter.shown_by(best, Defect.WRONG_ABOVE_RIGHT, audit.faults[Probe.PERTURBED])


def _wrong_findings(audit: TaskAudit, reporter: Reporter) -> Iterator[Finding]:
    """Yield findings for kinds of wrong answers that never scored lower than the right answer."""
    if audit.mean(Probe.ORACLE) < RIGHT_ANSWER_SCORE:
        return

    def is_paid(probe: str) -> bool:
        tally = audit.tallies.get(probe)
        return tally is not None and len(tally.scores) >= MANY and tally.is_never_below_right

    for probe in filter(is_paid, WRONG_PROBES):
        tally = audit.tallies[probe]
        detail = f"{str(probe)!r} earns as much as the right answer (on all {len(tally.scores)} problems)"
        yield reporter.shown_by(tally.best, Defect.WRONG_PAID, detail)
    for pair in HEDGES:
        # If even a changed right answer scores as high, the verifier gives partial credit, and a pair shows no defect.
        if all(map(is_paid, pair)) and not is_paid(Probe.PERTURBED):
            detail = f"{str(pair[0])!r} and {str(pair[1])!r} each earn as much as the bare right answer"
            yield reporter.shown_by(audit.tallies[pair[0]].best, Defect.HEDGE_PAID, detail)


def _shortcut_findings(audit: TaskAudit, reporter: Reporter, *, is_left_out: bool) -> Iterator[Finding]:
    for probe, fault in audit.faults.items():
        if is_shortcut(probe):
            detail = f"{fault}; training excludes the task" if is_left_out else fault
            severity = Severity.LOW if is_left_out else None
            yield reporter.shown_by(audit.tallies[probe].best, defect_of(probe), detail, severity=severity)
    if audit.mean(Probe.BLANK) > FORM_SCORE:
        detail = f"an empty answer earns {audit.mean(Probe.BLANK):.2f} on average"
        yield reporter.shown_by(audit.tallies[Probe.BLANK].best, Defect.EMPTY_PAID, detail)


def _failure_findings(audit: TaskAudit, reporter: Reporter) -> Iterator[Finding]:
    for probe, tally in audit.tallies.items():
        for reason, example in tally.failed.items():
            if reason in DEFECTS_OF_REASONS:
                detail = f"{reason.value} for {str(probe)!r} ({tally.reasons[reason]} of {len(tally.scores)} answers)"
                yield reporter.shown_by(example, DEFECTS_OF_REASONS[reason], detail)
