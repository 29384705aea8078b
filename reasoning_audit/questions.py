"""Check questions against their right answers, by their texts alone.

A question contradicts its answer where the answer breaks an instruction of the question about the answer's form. A
question gives its answer away where it states the answer. Only instructions are read that can be checked without
knowing the task, so that no clean task is accused.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from reasoning_env.records import Problem

MANY = 3
"""The fewest problems whose common form tells something: one value rounded to three decimals may end in a nought.

One, two and six find nothing in 1,770 problems of reasoning-gym and RLVE-Gym. Audits of three items need three.
"""
WORDS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
SAID = r"(?:answer|respond|reply|output|return|result|write|give|provide)\b[^.\n]{0,60}?"
"""The beginning of an instruction about the answer."""
DECIMALS = re.compile(r"(?:to|with|rounded to|using) (\d|one|two|three|four|five|six) decimal (?:places|digits)", re.I)
OPTIONS = re.compile(
    SAID + r"\b(yes|no|true|false)\b[\"'`]?(?:\s*(?:or|/)\s*)[\"'`]?\b(yes|no|true|false)\b", re.IGNORECASE
)
INTEGER = re.compile(SAID + r"\b(?:a|an|one|single|as an?) (?:single )?(?:integer|whole number)\b", re.IGNORECASE)
ONE_WORD = re.compile(SAID + r"\b(?:one|a single) word\b", re.IGNORECASE)
UPPER = re.compile(SAID + r"\b(?:in|use|only|all) (?:upper ?case|capital letters)\b", re.IGNORECASE)
LOWER = re.compile(SAID + r"\b(?:in|use|only|all) (?:lower ?case|small letters)\b", re.IGNORECASE)
STATED_NUMBER = re.compile(r"-?\d+(?:\.(\d+))?")
WHOLE = re.compile(r"[-+]?\d+")


@dataclass(frozen=True)
class Remark:
    """What is wrong with a problem, in words.

    `other` is the answer of another problem with the same question: there is no fault if the verifier pays for both.
    """

    problem: Problem
    text: str
    other: str | None = None


def contradictions(problems: Sequence[Problem]) -> list[Remark]:
    """Return the problems whose right answer breaks the question's own instruction, or is one of two for a question."""
    answered = [(problem, answer) for problem in problems if (answer := problem.known_answer) is not None]
    found = [*_two_answers(answered), *_decimals(answered)]
    for problem, answer in answered:
        found += [Remark(problem, text) for rule in RULES if (text := rule(problem.question, answer.strip()))]
    return found


def giveaways(problems: Sequence[Problem]) -> list[Remark]:
    """Return the problems that state their answers, if most problems do: one may do so by chance."""
    answered = [(problem, answer.strip()) for problem in problems if (answer := problem.known_answer)]
    stating = [problem for problem, answer in answered if answer and _states(problem.question, answer)]
    if len(stating) < max(MANY, 0.8 * len(answered)):
        return []
    return [Remark(problem, "the question states its answer") for problem in stating]


def _states(question: str, answer: str) -> bool:
    statement = (
        rf"\b(?:answer|solution|result|hint)\b(?:\s+(?:is|was|equals|are))?\s*[:=]?\s*[\"'`(]*{re.escape(answer)}"
    )
    return re.search(rf"{statement}(?!\w)", question, re.IGNORECASE) is not None


def _two_answers(answered: Sequence[tuple[Problem, str]]) -> Iterator[Remark]:
    first: dict[str, str] = {}
    for problem, answer in answered:
        # Where many answers are right, the answer is only an example. Rows of a score function may have no question.
        if problem.question and problem.answer is not None and first.setdefault(problem.question, answer) != answer:
            other = first[problem.question]
            yield Remark(problem, f"the same question has the answers {other[:40]!r} and {answer[:40]!r}", other)


def _decimals(answered: Sequence[tuple[Problem, str]]) -> Iterator[Remark]:
    """Find numbers with more decimals than their questions ask for, and questions whose answers all have fewer."""
    used: defaultdict[int, list[tuple[Problem, int]]] = defaultdict(list)
    for problem, answer in answered:
        asked = DECIMALS.search(problem.question)
        numbers = STATED_NUMBER.findall(answer)
        if asked is not None and any(numbers):
            places = WORDS.get(asked[1].casefold()) or int(asked[1])
            used[places].append((problem, max(map(len, numbers))))
    for places, found in used.items():
        for problem, decimals in found:
            if decimals > places:
                yield Remark(problem, f"the question asks for {places} decimals, the answer has {decimals}")
        most = max(decimals for _, decimals in found)
        if most < places and len(found) >= MANY:
            text = (
                f"the question asks for {places} decimals, and the answers of {len(found)} problems have at most {most}"
            )
            yield Remark(found[0][0], text)


Rule = Callable[[str, str], str | None]
"""Takes a question and its answer, and returns what is wrong."""


def _option(question: str, answer: str) -> str | None:
    asked = OPTIONS.search(question)
    if asked is None or answer.casefold() in (options := {asked[1].casefold(), asked[2].casefold()}):
        return None
    return f"the question asks for {' or '.join(sorted(options))}, the answer is {answer[:40]!r}"


def _form(asked: re.Pattern[str], holds: Callable[[str], bool], name: str) -> Rule:
    def rule(question: str, answer: str) -> str | None:
        if asked.search(question) is None or holds(answer):
            return None
        return f"the question asks for {name}, the answer is {answer[:40]!r}"

    return rule


RULES: Sequence[Rule] = (
    _option,
    _form(INTEGER, lambda answer: WHOLE.fullmatch(answer) is not None, "a whole number"),
    _form(ONE_WORD, lambda answer: len(answer.split()) == 1, "one word"),
    _form(UPPER, lambda answer: answer == answer.upper(), "capital letters"),
    _form(LOWER, lambda answer: answer == answer.lower(), "small letters"),
)


def same_problems(by_level: Mapping[float, Sequence[Problem]]) -> bool:
    """Tell whether the easiest and the hardest level ask for the same for the same seeds.

    Equal questions ask for the same. Questions that differ in a number ask for the same too if the answers and the
    numbers of words are equal, because a question may name its level. A few answers may be equal by chance.
    """
    if len(by_level) < 2:
        return False
    easiest = by_level[min(by_level)]
    hardest = by_level[max(by_level)]
    if len(easiest) < MANY or len(easiest) != len(hardest):
        return False
    return _texts(easiest) == _texts(hardest) or (
        len({problem.answer for problem in easiest}) >= MANY and _outlines(easiest) == _outlines(hardest)
    )


def _texts(problems: Sequence[Problem]) -> list[str]:
    return [problem.question for problem in problems]


def _outlines(problems: Sequence[Problem]) -> list[tuple[str | None, int]]:
    return [(problem.answer, len(problem.question.split())) for problem in problems]
