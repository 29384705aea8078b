"""Check questions against their right answers, by their texts alone.

A question contradicts its answer where the same question has another answer too. A question gives its answer away where
it states the answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reasoning_env.records import Problem

MANY = 3
"""The fewest problems that have something in common by more than chance. Audits of three items need three."""


@dataclass(frozen=True)
class SecondAnswer:
    """A problem whose question has another problem's answer too: no fault if the verifier pays for both."""

    problem: Problem
    other: str


def contradictions(problems: Sequence[Problem]) -> list[SecondAnswer]:
    """Return the problems whose right answer is not that of an earlier problem with the same question."""
    first: dict[str, str] = {}
    found = []
    for problem in problems:
        # Where many answers are right, the answer is only an example. Rows of a score function may have no question.
        if problem.question and problem.answer is not None:
            other = first.setdefault(problem.question, problem.answer)
            if other != problem.answer:
                found.append(SecondAnswer(problem, other))
    return found


def giveaways(problems: Sequence[Problem]) -> list[Problem]:
    """Return the problems that state their answers, if most problems do: one may do so by chance."""
    answered = [(problem, answer.strip()) for problem in problems if (answer := problem.known_answer)]
    stating = [problem for problem, answer in answered if answer and _states(problem.question, answer)]
    return [] if len(stating) < max(MANY, 0.8 * len(answered)) else stating


def _states(question: str, answer: str) -> bool:
    statement = (
        rf"\b(?:answer|solution|result|hint)\b(?:\s+(?:is|was|equals|are))?\s*[:=]?\s*[\"'`(]*{re.escape(answer)}"
    )
    return re.search(rf"{statement}(?!\w)", question, re.IGNORECASE) is not None


def same_problems(by_level: Mapping[float, Sequence[Problem]]) -> bool:
    """Tell whether the easiest and the hardest level ask the same questions for the same seeds."""
    if len(by_level) < 2:
        return False
    easiest = [problem.question for problem in by_level[min(by_level)]]
    hardest = [problem.question for problem in by_level[max(by_level)]]
    return len(easiest) >= MANY and easiest == hardest
