"""Solve a served problem, and compare the solver's answers with the scores of the session's judge."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from reasoning_env import Problem, Session

from .contract import AmbiguousError, Solution, UnsolvedError
from .table import TABLE

ALMOST_RIGHT = 0.99
"""Lowest score that the statistics count as right."""


class Finding(StrEnum):
    """The result of comparing a served problem with its solver."""

    AGREES = "agrees"
    DISAGREES = "disagrees"
    """The solver's answer does not get full score, or the solver's check rejects the served answer."""
    REFUSES = "refuses"
    """A further right answer does not get full score."""
    OVERPAYS = "overpays"
    """A wrong answer gets the score of a right answer."""
    AMBIGUOUS = "ambiguous"
    """The question has several readings with different answers."""
    UNSOLVED = "unsolved"
    """The solver gave up."""
    NO_SOLVER = "no solver"


@dataclass(frozen=True)
class Opinion:
    """A finding about a problem, with the answer that shows it, and the score if the answer was scored."""

    problem: Problem
    finding: Finding
    answer: str = ""
    score: float | None = None
    reason: str = ""

    def __str__(self) -> str:
        words = [f"{self.problem.task}: {self.finding.value}"]
        if self.reason:
            words.append(self.reason)
        if self.answer:
            words.append(f"{self.answer[:80]!r} earns {self.score}, served is {str(self.problem.answer)[:80]!r}")
        return "; ".join([*words, self.problem.reference])


async def opinions_of(session: Session[Problem], problem: Problem) -> list[Opinion]:
    """Compare a problem with the task's solver, and return the findings: AGREES alone if nothing is wrong."""
    second = TABLE.get(problem.task)
    if second is None or (second.solve is None and second.check is None):
        return [Opinion(problem, Finding.NO_SOLVER, reason="" if second is None else second.why)]
    try:
        if (
            second.check is not None
            and problem.answer is not None
            and not second.check(problem.question, problem.answer)
        ):
            return [Opinion(problem, Finding.DISAGREES, problem.answer, 1.0, "the served answer does not pass")]
        if second.solve is None:
            return [Opinion(problem, Finding.AGREES)]
        solution = second.solve(problem.question)
    except AmbiguousError as error:
        return [Opinion(problem, Finding.AMBIGUOUS, reason=str(error))]
    except UnsolvedError as error:
        return [Opinion(problem, Finding.UNSOLVED, reason=str(error))]
    return await _judged(session, problem, solution)


async def _judged(session: Session[Problem], problem: Problem, solution: Solution) -> list[Opinion]:
    texts = [solution.answer, *solution.others, *solution.wrong]
    # Not by `session.judge`, which refuses answers as long as the longest of the library.
    verdicts = await session.pool.score(problem, texts)
    scores = [verdict.score for verdict in verdicts]
    right = 1 + len(solution.others)
    opinions = []
    if scores[0] < 1.0:
        opinions.append(Opinion(problem, Finding.DISAGREES, solution.answer, scores[0]))
    for text, score in zip(solution.others, scores[1:right], strict=True):
        if score < 1.0:
            opinions.append(Opinion(problem, Finding.REFUSES, text, score))
    for text, score in zip(solution.wrong, scores[right:], strict=True):
        if score >= min(ALMOST_RIGHT, scores[0] or 1.0):
            opinions.append(Opinion(problem, Finding.OVERPAYS, text, score))
    return opinions or [Opinion(problem, Finding.AGREES)]
