"""Rules for the answers of a task: the answer type, and the functions that score a value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from .types import AnswerType

Entry = Mapping[str, Any]


class Dataset(Protocol):
    """The interface of the library's datasets that guards and corrections use."""

    config: Any

    def score_answer(self, answer: str, entry: Entry) -> float: ...


Guard = Callable[[str, Entry, Dataset], float]
"""Replaces `score_answer` for one task: returns the score of an answer to an entry of a dataset."""
LibraryScore = Callable[[str, Entry, Dataset], tuple[float, bool]]
"""Returns the library verifier's score without running code, and True if the answer has code that was not run."""
Correction = Callable[[str, Entry, Dataset, float], float]
"""Returns the corrected score of an answer to an entry of a dataset. The last argument is the uncorrected score."""


@dataclass(frozen=True)
class AnswerRules:
    """How the answers of a task are read and scored. If `type` is None, every string counts as a value."""

    type: AnswerType | None = None
    """Reads a whole answer as a value. None for tasks without a declaration in this project."""
    several_right_answers: bool = False
    """True if values other than the expected answer may be right. If False and `type` is set, they score below 1."""
    guard: Guard | None = None
    """Scores answers in place of the verifier, if the verifier must not receive unchecked model text."""
    library_score: LibraryScore | None = None
    """Scores answers as the library's verifier does. Used instead of `guard` if rewards are not strict."""
    correction: Correction | None = None
    """Changes the score of a value other than the expected answer. docs/defects.md quotes this function's docstring."""
    max_partial: float = 1.0
    """Limit for the partial credit of a wrong answer."""
    guesses: Callable[[Mapping[str, Any]], list[str]] | None = None
    """Returns guesses from an entry's metadata, beside those of `shortcuts.guesses`."""
    ends_in_full_stop: bool = False
    """True if right answers may end in a full stop. Then a full stop is removed only after a mark such as `*`."""
    result_names: tuple[str, ...] = ()
    """Names of the result that may precede the value, as in `GCD: 4` or `gcd(8, 12) = 4`. In a name, `{key}` stands for
    the value of `key` in the metadata."""
    is_formula: bool = False
    """True if answers are formulas in Python's notation. Then mathematical notation, such as `10x^7`, is read too."""
