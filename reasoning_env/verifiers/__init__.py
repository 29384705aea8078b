"""The library's verifiers, with guards before and corrections after them against hostile text.

Runs inside workers only. Nothing here imports reasoning_gym; the library's datasets are handed in.
"""

from __future__ import annotations

from collections.abc import Collection

from ..library_facts import facts
from .corrections import CORRECTIONS, correct_parts_of_numbers
from .floors import PartialCredit
from .guards import GUARDS, Dataset, Entry
from .invalid_problems import find_flaw
from .looks import look, option
from .readings import plain_reading

__all__ = [
    "CORRECTIONS",
    "GUARDS",
    "PartialCredit",
    "find_flaw",
    "look",
    "option",
    "plain_reading",
    "preload",
    "verify",
]


def preload(tasks: Collection[str]) -> None:
    """Import what the verifiers of some tasks import late, so that forked workers share it."""
    if any(facts(task).algebraic for task in tasks):
        from .grammars import algebra

        algebra.is_antiderivative("x**2/2", "x", "x")  # sympy imports most of itself when it first simplifies


def verify(task: str, dataset: Dataset, answer: str, entry: Entry, *, strict: bool) -> float:
    """Return an answer's score, corrected where `strict`. Raises whatever the library's verifier raises."""
    guard = GUARDS.get(task)
    score = dataset.score_answer(answer, entry) if guard is None else guard(answer, entry, dataset)
    if not strict:
        return score
    if task in CORRECTIONS:
        return CORRECTIONS[task](answer, entry, dataset, score)
    return correct_parts_of_numbers(answer, entry, dataset, score)
