"""What verifiers see of the library: entries of datasets, and the datasets that score answers to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

Entry = Mapping[str, Any]


class Dataset(Protocol):
    """The part of a library's dataset that guards use."""

    config: Any

    def score_answer(self, answer: str, entry: Entry) -> float: ...


Guard = Callable[[str, Entry, Dataset], float]
"""Takes the place of `score_answer` for one task: from an answer, the entry and its dataset, the score."""
Correction = Callable[[str, Entry, Dataset, float], float]
"""From an answer, the entry, its dataset and the score so far: the score that counts where rewards are strict."""
