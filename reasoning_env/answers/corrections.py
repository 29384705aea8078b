"""Corrections: functions that replace a score where the library's verifier applies a wrong rule.

Only strict rewards use corrections.
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
"""An answer with this relative error or a larger one scores 0."""


def correct_length(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """If the answer is longer than the right answer, multiply the score by right length / answer length.

    A length is the number of words, or the number of letters if the right answer is one word.
    """
    right, given = str(entry["answer"]).split(), answer.split()
    if len(right) == 1:
        return score * min(1.0, len(right[0]) / max(1, len("".join(given))))
    return score * min(1.0, len(right) / max(1, len(given)))


def correct_word_ladder(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Accept all English words that the library knows, because its list for ladders lacks words such as PEEK."""
    if not 0.0 < score < 1.0:  # the answer is no ladder, or the smaller list has all its words
        return score
    steps = [word.strip().upper() for word in answer.split(",")]
    ladder_words: set[str] = vars(dataset)["word_sets"][len(entry["metadata"]["end_word"])]
    known = ladder_words | _english_words(type(dataset).__module__)
    unknown = [word for word in steps if word not in known]
    return float(0.5 ** len(unknown))  # as in the library, which halves the score for each unknown word


@lru_cache(maxsize=1)
def _english_words(module: str) -> frozenset[str]:
    """Return the library's English words of three to five letters, without proper names."""
    # Call the library's function through its loaded module, because this package does not import the library.
    with sys.modules[module].get_data_file_path("words3to10.txt").open(encoding="utf-8") as lines:
        words = (line.strip() for line in lines)
        return frozenset(word.upper() for word in words if len(word) <= 5 and word.islower())


def correct_rectangle_count(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Score a count by its relative error.

    By absolute error, any small guess would score well, because most counts are small.
    """
    return min(score, _nearness(float(answer), float(entry["answer"])))


def correct_time_intervals(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Score a duration by its relative error, because the library accepts large absolute errors."""
    return min(score, _nearness(float(seconds(answer)), float(seconds(entry["answer"]))))


def _nearness(given: float, right: float) -> float:
    """Return 1 for the right number, 0 for a relative error of NEAR or more, and a linear score in between."""
    return max(0.0, 1.0 - abs(given - right) / (NEAR * abs(right))) if right else 0.0


def correct_codeio(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Limit the score to len(right answer) / len(answer): the library favours longer answers."""
    try:
        given = json.dumps(json.loads(answer[answer.index("{") : answer.rindex("}") + 1]))
    except (ValueError, RecursionError):
        return score
    return min(score, len(entry["answer"].strip()) / len(given))


def correct_kakurasu(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Return 0 if a cell is neither 0 nor 1, because the library reads -1 as 1."""
    return score if {*answer.split()} <= {"0", "1"} else 0.0


def correct_survo(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Accept any matrix with the given cells, sums and candidate numbers, because several matrices can fit."""
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
    """Return 1 if an expression equals the target, has no powers and uses exactly the given numbers; else `score`."""
    return 1.0 if _solves(answer, entry["metadata"]["numbers"], entry["metadata"]["target"]) else score


def correct_puzzle24(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Return 1 for an expression without powers that equals 24 and has exactly the given numbers, else at most 0.01."""
    # The library also accepts other numbers, and values above 24 but below 25.
    return 1.0 if _solves(answer, entry["metadata"]["numbers"], 24) else min(score, 0.01)


def _solves(answer: str, numbers: list[int], target: int) -> bool:
    """Return True if an expression equals the target, has no `**`, and uses exactly the given numbers, each once."""
    try:
        tree = parse_arithmetic(answer)
        used = [str(node.value) for node in ast.walk(tree) if isinstance(node, ast.Constant)]
        if "**" in answer or not all(map(str.isdigit, used)) or sorted(map(int, used)) != sorted(numbers):
            return False
        return evaluate_exactly(tree) == target
    except ExpressionError:
        return False


def correct_propositional_logic(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Return 1 for a conclusion that needs several premises, and 0 for any other formula."""
    metadata = entry["metadata"]
    premises = metadata["premises"]
    if logic.are_contradictory(premises) or not logic.concludes(metadata["example_answer"], premises):
        return score  # such problems are never served
    # The library scores a right formula 1, or less if the formula is a single variable.
    if score < 1.0 and not re.fullmatch(r"\(*[A-Z]\)*", answer.strip()):
        return 0.0
    try:
        return float(logic.concludes(answer, premises))
    except ValueError:
        return 0.0
