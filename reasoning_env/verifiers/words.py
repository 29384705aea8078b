"""Corrections of tasks whose answers are words: one of a few options, or words in order."""

from __future__ import annotations

import re

from .entries import Correction, Dataset, Entry
from .exact import says_otherwise


def correct_choice(*options: str) -> Correction:
    """Pay nothing for an answer that names several options or none, denies an option, or doubts it."""

    def correct(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
        said = answer.casefold()
        named = set(re.findall(rf"\b(?:{'|'.join(options)})\b", said))
        return 0.0 if len(named) != 1 or says_otherwise(said, named.pop()) else score

    return correct


def correct_halting(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Pay nothing for other text than the option: the library takes any text for True."""
    return float(answer.strip().casefold() == str(entry["answer"]).casefold())


def correct_knights_knaves(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Pay nothing for two claims about one person: partial credit is meant for one claim about each person."""
    if score in (0.0, 1.0):
        return score
    words = re.findall(r"[a-z]+", answer.lower())
    return score if all(words.count(str(name).lower()) == 1 for name in entry["metadata"]["names"]) else 0.0


def correct_spell_backward(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Pay letters in their places by the share of the right length if more letters follow, at most 0.8."""
    share = _share(len(entry["answer"]), len(answer))
    return score if share == 1.0 else min(score, 0.8) * share


def correct_word_sorting(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Pay words in their places by the share of the right number of words if more words follow."""
    return score * _share(len(entry["metadata"]["sorted_words"]), len(answer.split(",")))


def correct_letter_jumble(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Pay words in their places by the share of the right number of words if more words follow."""
    return score * _share(len(entry["answer"].split()), len(answer.split()))


def correct_figlet_font(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Pay letters in their places by the share of the right length if more text follows."""
    return score * _share(len(entry["answer"].strip()), len("".join(answer.split())))


def _share(right: int, said: int) -> float:
    """Return the share of what is said that may be right, in [0, 1]; 1 for an answer that is not too long."""
    return min(1.0, right / max(said, 1))
