"""Start partial credit at what the best answer without reasoning earns on the same problem."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Any

from .entries import Entry
from .moves import single_button_plans
from .shortcuts import copies, filled_boards, layouts, quotations

FORM_SCORE = 0.1
"""The most that verifiers pay for the form of an answer, or for a right answer in another form. Such scores stay."""


MOST_PARTIAL = 0.98
"""Partial credit is below this score, so that from 0.99 on an answer is right."""


def above_guessing(score: float, guess: float) -> float:
    """Return a partial score as a share of the way from the best guess's score to 1, scaled to MOST_PARTIAL.

    It is at least FORM_SCORE, and keeps the order of scores.
    """
    return max(FORM_SCORE, MOST_PARTIAL * (score - guess) / (1.0 - guess))


def guesses(task: str, entry: Entry) -> set[str]:
    """Return answers to an entry that take no reasoning."""
    question = str(entry["question"])
    found = {*copies(question).values(), *filled_boards(question).values(), *quotations(question)}
    if entry.get("answer") is not None:
        found.update(layouts(str(entry["answer"])).values())
    if task in GUESSES:
        found.update(GUESSES[task](entry["metadata"]))
    return found


def same_roles(metadata: Mapping[str, Any]) -> list[str]:
    """Return answers that give everybody the same role, or two roles in turn."""
    knight = str(metadata["knight_knave_terms"]["a_knight"])
    knave = str(metadata["knight_knave_terms"]["a_knave"])
    in_turn = ((knight, knight), (knave, knave), (knight, knave), (knave, knight))
    return [", ".join(f"{name} is {roles[n % 2]}" for n, name in enumerate(metadata["names"])) for roles in in_turn]


def ladders(start: str, end: str) -> list[str]:
    """Change one word into another letter by letter, from the left and from the right, through words or not."""
    lengths = range(len(end) + 1)
    from_left = [end[:length] + start[length:] for length in lengths]
    from_right = [start[:length] + end[length:] for length in reversed(lengths)]
    return [",".join(word for word, _ in groupby(steps)) for steps in (from_left, from_right)]


GUESSES: Mapping[str, Callable[[Mapping[str, Any]], list[str]]] = {
    "knights_knaves": same_roles,
    "quantum_lock": lambda metadata: single_button_plans(metadata["buttons"], metadata["target_value"]),
    "word_ladder": lambda metadata: ladders(metadata["start_word"], metadata["end_word"]),
}
"""From the metadata of an entry: guesses that only this task's answers allow, and that solve the entry in part."""
