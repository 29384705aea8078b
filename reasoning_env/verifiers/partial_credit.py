"""Where partial credit starts: at what the best answer without reasoning earns on the same problem."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from .entries import Entry
from .shortcuts import copies, filled_boards, layouts, pressed_alone, quotations

FORM_SCORE = 0.1
"""The most that verifiers pay for the form of an answer, or for a right one in another form: it stays as it is."""


def above_guessing(score: float, guess: float) -> float:
    """Return how far a partial score lies from the best guess's to full marks, but at least FORM_SCORE."""
    return max(FORM_SCORE, (score - guess) / (1.0 - guess))


def guesses(entry: Entry) -> set[str]:
    """Return answers to an entry that take no reasoning."""
    question, answer = str(entry["question"]), entry.get("answer")
    repeated = {*copies(question).values(), *filled_boards(question).values(), *quotations(question)}
    return repeated.union(_guesses_of_its_kind(entry), layouts(str(answer)).values() if answer is not None else ())


def _guesses_of_its_kind(entry: Entry) -> list[str]:
    """Return answers that solve the entry in part without reasoning; there are none for most tasks."""
    metadata = entry.get("metadata")
    if not isinstance(metadata, dict):
        return []
    if "knight_knave_terms" in metadata:
        return _everybody(metadata)
    if "start_word" in metadata:
        return ladders(metadata["start_word"], metadata["end_word"])
    if "target_value" in metadata and "buttons" in metadata:
        return pressed_alone(metadata["buttons"], metadata["target_value"])
    return []


def _everybody(metadata: Mapping[str, Any]) -> list[str]:
    """The same said of everybody, or of every other."""
    knight, knave = (str(metadata["knight_knave_terms"][key]) for key in ("a_knight", "a_knave"))
    in_turn = ((knight, knight), (knave, knave), (knight, knave), (knave, knight))
    return [", ".join(f"{name} is {roles[n % 2]}" for n, name in enumerate(metadata["names"])) for roles in in_turn]


def ladders(start: str, end: str) -> list[str]:
    """Change one word into another letter by letter, from the left and from the right, words or not."""
    lengths = range(len(end) + 1)
    ways = ([end[:n] + start[n:] for n in lengths], [start[:n] + end[n:] for n in reversed(lengths)])
    return [",".join(word for word, _ in groupby(way)) for way in ways]
