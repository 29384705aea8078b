"""What a task declares of its answers: their type, and what is done with a value of it, on the library's own types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from .types import AnswerType

Entry = Mapping[str, Any]


class Dataset(Protocol):
    """The part of a dataset of the library that guards use."""

    config: Any

    def score_answer(self, answer: str, entry: Entry) -> float: ...


Guard = Callable[[str, Entry, Dataset], float]
"""Replaces `score_answer` for one task: returns the score of an answer to an entry of a dataset."""
LibraryScore = Callable[[str, Entry, Dataset], tuple[float, bool]]
"""Returns the score of the library's verifier, and whether the answer holds code, which is not run here."""
Correction = Callable[[str, Entry, Dataset, float], float]
"""Returns the strict score from an answer, its entry and dataset, and the score of the guard or the library."""


@dataclass(frozen=True)
class AnswerRules:
    """How the answers to a task are read and judged. Without a type, the task's verifier reads any text."""

    type: AnswerType | None = None
    """What a text must be, as a whole, to be a value; None for tasks that this project does not know."""
    several_right_answers: bool = False
    """Other values than the expected answer may be right: what the verifier or its guard pays in full is right."""
    guard: Guard | None = None
    """Scores answers in place of a verifier that must not get model text as it is."""
    as_library: LibraryScore | None = None
    """Scores answers in place of the guard where rewards are not strict: as the library does, shortcuts included."""
    correction: Correction | None = None
    """Changes the score of a value that is not the expected answer. The first line of its docstring says how."""
    most_partial: float = 1.0
    """The highest score of a wrong value."""
    guesses: Callable[[Mapping[str, Any]], list[str]] | None = None
    """Makes guesses, from an entry's metadata, that only this task's answers allow, and that solve it in part."""
    ends_in_full_stop: bool = False
    """Right answers may end in a full stop of their own."""
    names: tuple[str, ...] = ()
    """Names of the result that may stand before a value, as in `GCD: 4`; braces hold a key of the metadata. The numbers
    of the metadata may stand after a name: `gcd(8, 12) = 4`."""
    is_formula: bool = False
    """Answers are formulas of Python, and mathematical notation such as `10x^7` is read too."""
