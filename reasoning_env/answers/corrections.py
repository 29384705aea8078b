"""Corrections: the strict score of a value that the library's verifier pays by a wrong rule, and no type can tell.

A correction gets the verifier's notation of a value, and the score of the guard or the library.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from functools import lru_cache

from .grammars import logic
from .grammars.expressions import ExpressionError, evaluate_exactly
from .guards import parse_arithmetic
from .notations import seconds
from .rules import Dataset, Entry

NEAR = 0.1
"""The relative error, as a share of the right number, from which an answer earns nothing."""


def correct_length(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Pay words in their places by the share of the right number of words, and the letters of one word likewise."""
    right, said = str(entry["answer"]).split(), answer.split()
    if len(right) == 1:
        return score * min(1.0, len(right[0]) / max(1, len("".join(said))))
    return score * min(1.0, len(right) / max(1, len(said)))


def correct_word_ladder(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Take words of the library's larger list too: its ladders come from 4,000 words, to which PEEK does not belong."""
    if not 0.0 < score < 1.0:  # no ladder at all, or all words are known
        return score
    steps = [word.strip().upper() for word in answer.split(",")]
    ladder_words: set[str] = vars(dataset)["word_sets"][len(entry["metadata"]["end_word"])]
    known = ladder_words | _english_words(type(dataset).__module__)
    unknown = [word for word in steps if word not in known]
    return float(0.5 ** len(unknown))


@lru_cache(maxsize=1)
def _english_words(module: str) -> frozenset[str]:
    """Return the library's English words of three to five letters, names left out."""
    with sys.modules[module].get_data_file_path("words3to10.txt").open(encoding="utf-8") as lines:
        words = (line.strip() for line in lines)
        return frozenset(word.upper() for word in words if len(word) <= 5 and word.islower())


def correct_rectangle_count(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Pay a count by its relative error: in absolute terms any small number is near most counts."""
    return min(score, _nearness(float(answer), float(entry["answer"])))


def correct_time_intervals(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Pay a duration by its relative error: in absolute terms any duration is near most others."""
    return min(score, _nearness(float(seconds(answer)), float(seconds(entry["answer"]))))


def _nearness(said: float, right: float) -> float:
    """Return 1 for the right number, falling linearly to 0 at a relative error of NEAR."""
    return max(0.0, 1.0 - abs(said - right) / (NEAR * abs(right))) if right else 0.0


def correct_codeio(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Pay long JSON at most by the ratio of lengths: similarity is relative to the longer text, and grows with it."""
    try:
        said = json.dumps(json.loads(answer[answer.index("{") : answer.rindex("}") + 1]))
    except (ValueError, RecursionError):
        return score
    return min(score, len(entry["answer"].strip()) / len(said))


def correct_kakurasu(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Pay nothing for a board with other cells than 0 and 1: the library reads -1 as 1."""
    return score if {*answer.split()} <= {"0", "1"} else 0.0


def correct_survo(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Pay any matrix with the given cells and sums, whose blanks hold the given numbers: several may fit."""
    puzzle = entry["metadata"]["puzzle"]
    matrix = [[int(cell) if cell.isdecimal() else -1 for cell in line.split()] for line in answer.split("\n")]
    if [len(row) for row in matrix] != [len(row) for row in puzzle]:
        return score
    pairs = [pair for row, given in zip(matrix, puzzle, strict=True) for pair in zip(row, given, strict=True)]
    fits = (
        all(cell == given for cell, given in pairs if given)
        and sorted(cell for cell, given in pairs if not given) == sorted(entry["metadata"]["candidate_numbers"])
        and all(sum(line[:-1]) == line[-1] for line in (*matrix, *zip(*matrix, strict=True)))
    )
    return 1.0 if fits else score


def correct_countdown(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Pay the floor for values near the target, numbers hidden in decimals, and powers, which absorb numbers."""
    return score if _solves(answer, entry["metadata"]["numbers"], entry["metadata"]["target"]) else min(score, 0.05)


def correct_puzzle24(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Pay the floor for numbers that were not given, and for values between 24 and 25."""
    return score if _solves(answer, entry["metadata"]["numbers"], 24) else min(score, 0.01)


def _solves(answer: str, numbers: list[int], target: int) -> bool:
    """Tell whether an expression without powers has exactly the value of the target and exactly these whole numbers."""
    try:
        tree = parse_arithmetic(answer)
        used = [str(node.value) for node in ast.walk(tree) if isinstance(node, ast.Constant)]
        if "**" in answer or not all(map(str.isdigit, used)) or sorted(map(int, used)) != sorted(numbers):
            return False
        return evaluate_exactly(tree) == target
    except ExpressionError:
        return False


def correct_propositional_logic(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Pay nothing for joined premises, or for what one premise implies: a conclusion must need several premises.

    Where no such conclusion exists, as in problems that are never served, the library's score stays.
    """
    metadata = entry["metadata"]
    premises = metadata["premises"]
    if logic.are_contradictory(premises) or not logic.concludes(metadata["example_answer"], premises):
        return score
    if score < 1.0 and not re.fullmatch(r"\(*[A-Z]\)*", answer.strip()):  # the library calls each variable trivial
        return 0.0
    try:
        return float(logic.concludes(answer, premises))
    except ValueError:
        return 0.0
