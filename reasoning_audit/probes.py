"""Probes: answers that the audit scores and that are known to be right, wrong, or made without reasoning.

A kind of probe is a rule that makes an answer to any problem. One kind is an exception: the decision tree
(`learner.py`) predicts the right option from features of the question.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from enum import StrEnum
from itertools import chain

from reasoning_env.answers.shortcuts import SHOWN_NUMBER, copies, filled_boards, layouts
from reasoning_env.records import Problem

from .fragments import fragments

FEW_OPTIONS = 4
"""A task outside `TASKS` counts as multiple-choice if its audited problems have at most this many different answers."""
LEARNT_FROM = 20
"""Minimum number of problems for a decision tree: half of them train the tree, and half test it."""
LONG_BYTES = 20_000
"""Maximum length of the audit's answers, in bytes. It equals the limit in training (`rewards.MAX_ANSWER_BYTES`)."""
ANSWER_CELL = re.compile(r"[^\s,\[\]()\"'|]+")
CONSTANT_ANSWERS: Mapping[str, str] = {
    **{text: text for text in ("0", "1", "nan", "inf", "I don't know", "True False", "yes no", "[]", "{}", '""')},
    "a dot": ".",
    "a dash": "-",
    "junk": "qwxz",
    "20 kB of words": ("the quick brown fox jumps over the lazy dog " * LONG_BYTES)[:LONG_BYTES].strip(),
    "20 kB of digits": ("1234567890" * LONG_BYTES)[:LONG_BYTES],
    "20 kB of numbers": " ".join(map(str, range(LONG_BYTES)))[:LONG_BYTES],
}
"""Answers that are the same for every question, by kind of probe."""
GARBAGE = frozenset({"I don't know", "a dot", "a dash", "junk", "20 kB of words", "20 kB of digits"})
"""The constant answers that are never right."""


class Probe(StrEnum):
    """The kinds of probes that the code uses by name. Other kinds are plain strings."""

    ORACLE = "right answer"
    PERTURBED = "right answer with one character changed"
    BLANK = "empty answer"
    QUESTION = "the question"
    NEIGHBOUR = "the right answer of another problem"
    ALL_OPTIONS = "all options at once"
    OTHER_SIGN = "right answer with the opposite sign"
    OTHER_SECOND_DIGIT = "right answer with the second digit changed"
    FIRST_HALF = "first half of the digits of the right answer"
    WITHOUT_LAST_CELL = "right answer without its last item"
    FIRST_LETTER = "first letter of the right answer, then garbage"
    OR_ANOTHER = "right answer, the word 'or', wrong answer"
    ANOTHER_OR = "wrong answer, the word 'or', right answer"
    THEN_ANOTHER = "right answer, then wrong answer"
    ANOTHER_THEN = "wrong answer, then right answer"
    BEST_CONSTANT = "the best constant answer"
    BEST_TREE = "the best decision tree"


WRONG_PROBES = (
    Probe.OTHER_SIGN,
    Probe.OTHER_SECOND_DIGIT,
    Probe.FIRST_HALF,
    Probe.WITHOUT_LAST_CELL,
    Probe.FIRST_LETTER,
)
"""Ways to change a right answer into a wrong one. In some problems, but not in all, the result may still be right."""
HEDGES = ((Probe.OR_ANOTHER, Probe.ANOTHER_OR), (Probe.THEN_ANOTHER, Probe.ANOTHER_THEN))
"""Pairs of kinds of probes, which state a right and a wrong answer in opposite orders. A verifier that accepts both
searches for the right answer."""
NO_SHORTCUTS = frozenset({Probe.ORACLE, Probe.PERTURBED, Probe.BLANK, *WRONG_PROBES, *chain.from_iterable(HEDGES)})
"""Kinds of answers that are no shortcuts: empty, or made from the right answer."""


def is_shortcut(probe: str) -> bool:
    """Return True if a policy could give this kind of answer without reasoning. Shortcuts must have low mean scores."""
    return probe not in NO_SHORTCUTS


def make_probes(problems: Sequence[Problem], between: str = "") -> list[dict[str, str]]:
    """Return each problem's probes (answers to score) by kind.

    `between` is the text between the two answers in a probe THEN_ANOTHER or ANOTHER_THEN. If `between` is empty, there
    are no such probes.
    """
    oracles = [problem.known_answer for problem in problems]
    different = sorted({oracle for oracle in oracles if oracle is not None})
    shared: dict[str, str] = {Probe.BLANK: " ", **CONSTANT_ANSWERS}
    if 2 <= len(different) <= 2 * FEW_OPTIONS:
        # Add no words, because some verifiers score the share of the answer that is right.
        shared[Probe.ALL_OPTIONS] = " ".join(different)
    by_problem = []
    for position, (problem, oracle) in enumerate(zip(problems, oracles, strict=True)):
        question = problem.question
        probes = {**shared, Probe.QUESTION: question.strip()}
        probes |= copies(question) | fragments(question) | filled_boards(question)
        if oracle is not None:
            probes |= {Probe.ORACLE: oracle, Probe.PERTURBED: perturb(oracle)}
            probes |= layouts(oracle)
            others = [other for other in oracles[position + 1 :] + oracles[:position] if other is not None]
            if others:
                probes[Probe.NEIGHBOUR] = others[0]
            different_ones = (other for other in others if other.casefold() != oracle.casefold())
            probes |= hedges(oracle, next(different_ones, perturb(oracle)), between)
            if problem.answer is not None:  # otherwise many answers are right, perhaps also changed answers
                probes |= wrong_answers(oracle)
        by_problem.append({probe: _cut(text) for probe, text in probes.items()})
    return by_problem


def perturb(answer: str) -> str:
    """Change the last digit or letter: 3 to 4, 9 to 0, a to b. Append an x if the answer has no digit or letter."""
    for position in range(len(answer) - 1, -1, -1):
        for alphabet in (string.digits, string.ascii_lowercase, string.ascii_uppercase):
            number = alphabet.find(answer[position])
            if number >= 0:
                changed = alphabet[(number + 1) % len(alphabet)]
                return answer[:position] + changed + answer[position + 1 :]
    return answer + "x"


def wrong_answers(answer: str) -> dict[str, str]:
    """Return wrong variants of a right answer, by kind; {} unless the answer is a number, a word or a list.

    A number changes by at least one percent, because verifiers may accept rounded numbers.
    """
    text = answer.strip()
    wrong: dict[str, str] = {}
    if SHOWN_NUMBER.fullmatch(text) and float(text):
        wrong[Probe.OTHER_SIGN] = text[1:] if text[0] == "-" else f"-{text.removeprefix('+')}"
        digits = text.lstrip("+-")
        if digits.isdecimal() and len(digits) > 2:
            head = text[: -len(digits)]
            second = "8" if digits[1] == "9" else str(int(digits[1]) + 1)
            wrong[Probe.OTHER_SECOND_DIGIT] = f"{head}{digits[0]}{second}{digits[2:]}"
            wrong[Probe.FIRST_HALF] = f"{head}{digits[: len(digits) // 2]}"
    elif text.isalpha() and len(text) > 1:
        wrong[Probe.FIRST_LETTER] = f"{text[0]}qwxz"
    elif cells := list_cells(text):
        before, last = cells[-2:]
        wrong[Probe.WITHOUT_LAST_CELL] = text[: before.end()] + text[last.end() :]
    return wrong


def list_cells(text: str) -> list[re.Match[str]]:
    """Return a match for each item of a flat list such as `[1, 2]`; [] for a single item, and for other strings."""
    if not (text.startswith("[") and text.endswith("]")) or text.count("[") > 1:
        return []
    cells = [*ANSWER_CELL.finditer(text)]
    return cells if len(cells) > 1 else []


def hedges(answer: str, other: str, between: str) -> dict[str, str]:
    """Return answers that state both the right answer and a wrong one, in both orders, by kind of probe."""
    texts = {Probe.OR_ANOTHER: f"{answer} or {other}", Probe.ANOTHER_OR: f"{other} or {answer}"}
    if between:
        texts |= {
            Probe.THEN_ANOTHER: f"{answer}{between}{other}",
            Probe.ANOTHER_THEN: f"{other}{between}{answer}",
        }
    return {str(probe): text for probe, text in texts.items()}


def _cut(text: str) -> str:
    return text.encode("utf-8", "replace")[:LONG_BYTES].decode("utf-8", "ignore")
