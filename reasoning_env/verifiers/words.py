"""Corrections of tasks whose answers are words: one of a few options, or words in order."""

from __future__ import annotations

import math
import re

from .entries import Correction, Dataset, Entry

FILLERS = frozenset(
    {"the", "my", "final", "correct", "answer", "result", "is", "it", "boxed", "text", "so", "therefore"}
)
"""Words around a choice that do not change the choice."""
DENIAL = r"\b(?:not|never|neither|nor|deny|denies|cannot)\b|n['\u2019]t\b"


def correct_choice(*options: str) -> Correction:
    """Pay nothing for an answer that names several options or none, or denies an option."""

    def correct(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
        named = set(re.findall(rf"\b(?:{'|'.join(options)})\b", answer.casefold()))
        return score if len(named) == 1 and not re.search(DENIAL, answer.casefold()) else 0.0

    return correct


def correct_halting(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Pay nothing for text without an option: the library takes any text for True."""
    words = [word for word in re.findall("[a-z]+", answer.casefold()) if word not in FILLERS]
    return float(words == [str(entry["answer"]).casefold()])


def correct_knights_knaves(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Pay nothing for two claims about one person: partial credit is meant for one claim about each person."""
    if score in (0.0, 1.0):
        return score
    words = re.findall(r"[a-z]+", answer.lower())
    return score if all(words.count(str(name).lower()) == 1 for name in entry["metadata"]["names"]) else 0.0


def correct_spell_backward(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Pay at most 0.8 for the right word with letters after it."""
    word = answer.lower()
    right = entry["answer"].lower()
    return min(score, 0.8) if word.startswith(right) and word != right else score


def correct_word_sorting(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Pay the right words by their share if other words follow."""
    said = len(answer.split(","))
    right = len(entry["metadata"]["sorted_words"])
    return right / said if score == 1.0 and said > right else score


def correct_letter_jumble(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Pay the right words by their share if other words follow."""
    said = len(answer.split())
    right = len(entry["answer"].split())
    return right / said if math.isclose(score, 1.0) and said > right else score


def correct_figlet_font(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Pay at most 0.9 for ten right letters with any text after them."""
    right = answer.replace(" ", "").strip().lower() == entry["answer"].strip().lower()
    return score if right else min(score, 0.9)
