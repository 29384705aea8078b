"""The best split: a surface count that tells right answers apart, with a constant on each side."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from operator import itemgetter

from ..verifiers.shortcuts import NUMBER

ENOUGH = 20
"""Problems from which a split can be chosen at all."""
MARKS = ("#", "0", "1", "1 1", "X", "O", ".", ",", "?", "(", "all ", "no ", "not ", "some ", " or ")
DOUBLED = re.compile(r"(?=(\S)\s?\1)")
"""Two equal marks side by side."""


def counts(question: str) -> list[float]:
    """Count characters, words, lines, numbers and some marks; add the first, last and largest number."""
    text, words, lines = question.casefold(), question.split(), question.strip().splitlines() or [""]
    numbers = [*map(float, NUMBER.findall(question))] or [0.0]
    sizes = [len(text), len({*text}), len(words), len({*words}), len(lines), len(lines[-1]), len(numbers)]
    doubled = len(DOUBLED.findall(question))
    return [*sizes, doubled, numbers[0], numbers[-1], max(numbers), *(text.count(mark.casefold()) for mark in MARKS)]


def pay_best_split(questions: Sequence[str], answers: Sequence[str]) -> list[float]:
    """Return what the best split earns on each problem, chosen on the other half of them.

    Of few problems it is about the most that any could earn: whether the answer is one of the two that come most
    often, and came before.
    """
    if len(answers) < ENOUGH:
        frequent = {answer for answer, _ in Counter(answers).most_common(2)}
        return [float(answer in frequent and answer in answers[:number]) for number, answer in enumerate(answers)]
    rows = [*zip(map(counts, questions), answers, strict=True)]
    first, second = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    earned = []
    for others, paid in ((second, first), (first, second)):
        split = _choose(others)
        earned += [float(split(row) == answer) for row, answer in paid]
    return earned


def _choose(rows: Sequence[tuple[Sequence[float], str]]) -> Callable[[Sequence[float]], str]:
    """Return the count, its limit and the answers below and above it that are right most often."""
    best = (0, 0, 0.0, "", "")
    for column in range(len(rows[0][0])):
        ordered = sorted(((row[column], answer) for row, answer in rows), key=itemgetter(0))
        below: Counter[str] = Counter()
        above = Counter(answer for _, answer in rows)
        for (value, answer), (following, _) in pairwise(ordered):
            below[answer] += 1
            above[answer] -= 1
            if value < following:
                (low, right), (high, also) = below.most_common(1)[0], above.most_common(1)[0]
                best = max(best, (right + also, column, (value + following) / 2, low, high))
    _, column, limit, low, high = best
    return lambda row: low if row[column] < limit else high
