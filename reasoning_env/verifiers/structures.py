"""Guards and corrections of tasks whose answers are lists, boards or JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from .entries import Dataset, Entry
from .grammars.expressions import parse_list

MAX_TREE_WORK = 2_500
"""The cost of a comparison of JSON trees: 0.05 s of processor time, for the answer and for each of 16 guesses.

1.7 % of problems have larger trees (0.5 % over 40,000, where a near miss took 12 s): there a near miss earns 0.01.
"""
MAX_EDIT_COST = 10_000_000
"""The cost of an edit distance: characters of the answer times characters of the expected answer."""


def score_n_queens(answer: str, entry: Entry, dataset: Dataset) -> float:
    valid = entry["metadata"]["valid_answers"]
    if answer in valid:
        return 1.0
    return 0.5 if _as_text(answer, _lines) in valid else 0.0


def score_binary_matrix(answer: str, entry: Entry, dataset: Dataset) -> float:
    if answer == entry["answer"]:
        return 1.0
    return 0.1 if _as_text(answer, lambda value: _lines(map(str, row) for row in value)) == entry["answer"] else 0.0


def score_spiral_matrix(answer: str, entry: Entry, dataset: Dataset) -> float:
    oracle = entry["answer"].strip()
    if answer.strip() == oracle:
        return 1.0
    return 0.1 if _as_text(answer, lambda value: " ".join(map(str, value))) == oracle else 0.0


def score_string_insertion(answer: str, entry: Entry, dataset: Dataset) -> float:
    if answer == entry["answer"]:
        return 1.0
    return 0.1 if _as_text(answer, "".join) == entry["answer"] else 0.0


def _as_text(answer: str, write: Callable[[Any], str]) -> str | None:
    """Return the answer, read as a list, in the form of the expected answer; None for another shape."""
    try:
        return write(parse_list(answer))
    except (TypeError, ValueError):
        return None


def _lines(rows: Iterable[Iterable[str]]) -> str:
    return "\n".join(" ".join(row) for row in rows)


def score_codeio(answer: str, entry: Entry, dataset: Dataset) -> float:
    """Bound the edit distance between trees of JSON, whose cost is nodes times nodes times depth."""
    oracle = entry["answer"].strip()
    answer = answer.strip()
    first = answer.find("{")
    last = answer.rfind("}")
    said = answer[first : last + 1] if first >= 0 else ""
    work = _tree_work(said) * _tree_work(oracle)
    bounded = work <= MAX_TREE_WORK and len(said) * len(oracle) <= MAX_EDIT_COST
    if answer.strip() == oracle or (bounded and len(said) <= max(300, 20 * len(oracle))):
        return dataset.score_answer(answer, entry)
    if not said:
        return 0.0
    try:
        if json.loads(said) != json.loads(oracle):
            return 0.01  # the verifier's lowest score for valid JSON
    except (ValueError, RecursionError):
        return len(oracle) / len(answer) if oracle in answer else 0.0
    around = len(answer) - len(said)
    return max(len(oracle) / (len(oracle) + 0.5 * around), 0.2)  # as the verifier pays for JSON with text around it


def _tree_work(text: str) -> int:
    """Return an upper bound of a JSON text's nodes times its depth."""
    depth = deepest = 0
    for bracket in re.findall(r"[\[{\]}]", text):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return (1 + sum(map(text.count, ",:[{"))) * max(1, deepest)


def correct_codeio(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Pay long JSON at most by the ratio of lengths: similarity is relative to the longer text, and grows with it."""
    if score == 1.0:
        return score
    try:
        said = json.dumps(json.loads(answer[answer.index("{") : answer.rindex("}") + 1]))
    except (ValueError, RecursionError):
        return score
    return min(score, len(entry["answer"].strip()) / len(said))


def correct_pool_matrix(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Pay numbers near the right ones, and a column that is written as a row, like any matrix of as many cells."""
    return min(score, 0.1)
