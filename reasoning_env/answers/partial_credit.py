"""Start partial credit at what the best answer without reasoning earns on the same problem."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .entries import Entry
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


def guesses(entry: Entry, own: Callable[[Mapping[str, Any]], list[str]] | None = None) -> set[str]:
    """Return answers to an entry that take no reasoning; `own` makes those of its task from the entry's metadata."""
    question = str(entry["question"])
    found = {*copies(question).values(), *filled_boards(question).values(), *quotations(question)}
    if entry.get("answer") is not None:
        found.update(layouts(str(entry["answer"])).values())
    if own is not None:
        found.update(own(entry["metadata"]))
    return found
