"""The library's types that verifiers use: entries of datasets, and datasets that score answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

Entry = Mapping[str, Any]


class Dataset(Protocol):
    """The part of a dataset of the library that guards use."""

    config: Any

    def score_answer(self, answer: str, entry: Entry) -> float: ...


Guard = Callable[[str, Entry, Dataset], float]
"""Replaces `score_answer` for one task: returns the score of an answer to an entry of a dataset."""
Correction = Callable[[str, Entry, Dataset, float], float]
"""Returns the strict score from an answer, its entry and dataset, and the score of the guard or the library."""
