"""Guards: functions that score answers in place of library verifiers that are unsafe for model text.

A guard executes no code, and limits its work.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Collection

from .calculations import MAX_SIDES
from .grammars import logic
from .grammars.expressions import ExpressionError, evaluate_exactly, parse_expression
from .markup import nesting_depth
from .rules import Dataset, Entry

MAX_NUMBER_CHARACTERS = 100


def score_without_running(answer: str, entry: Entry, dataset: Dataset) -> tuple[float, bool]:
    """Return the library's score, calculated without `eval`, and True if the answer has code that was not run."""
    from .grammars import python_text

    with python_text.read_safely(sys.modules[type(dataset).__module__]) as refused:
        score = dataset.score_answer(answer, entry)
    return score, bool(refused)


# ---- numbers


def score_complex_number(answer: str, entry: Entry, dataset: Dataset) -> float:
    """Return the library's score, but 0 for long numbers and nan. The library gives nan the score 1 on any problem."""
    return 0.0 if "n" in answer.casefold() else score_complex_as_library(answer, entry, dataset)[0]


def score_complex_as_library(answer: str, entry: Entry, dataset: Dataset) -> tuple[float, bool]:
    """Return the library's score, but 0 for long numbers."""
    return dataset.score_answer(answer, entry) if len(answer) <= MAX_NUMBER_CHARACTERS else 0.0, False


def score_coin_flip(answer: str, entry: Entry, dataset: Dataset) -> float:
    # The verifier removes commas, and Python allows underscores in numbers.
    exponent = re.search(r"[eE][+-]?(\d+)", re.sub("[,_]", "", answer))
    if len(answer) > MAX_NUMBER_CHARACTERS or (exponent and int(exponent[1]) > 99):
        return 0.0
    return dataset.score_answer(answer, entry)


# ---- lists, boards and JSON


def score_equal(answer: str, entry: Entry, dataset: Dataset) -> float:
    """Return 1 for a string that equals a right answer, else 0. The library would execute other answers as code."""
    right: Collection[str] = entry["metadata"].get("valid_answers") or [entry["answer"]]
    return float(answer in right)


def score_codeio(answer: str, entry: Entry, dataset: Dataset) -> float:
    """Score as the library does, but compare large JSON trees only for equality: their edit distance takes too long."""
    oracle = entry["answer"].strip()
    answer = answer.strip()
    first = answer.find("{")
    last = answer.rfind("}")
    json_part = answer[first : last + 1] if first >= 0 else ""
    work = _tree_work(json_part) * _tree_work(oracle)
    # A comparison with `work` 2,500 takes 0.05 s of processor time, and runs for the answer and for each of 16 guesses.
    # For 1.7 % of problems the trees are larger, and a nearly right answer could take 12 s: it scores 0.01 instead.
    # The edit distance between two strings takes time proportional to the product of their lengths.
    bounded = work <= 2_500 and len(json_part) * len(oracle) <= 10_000_000
    if answer.strip() == oracle or (bounded and len(json_part) <= max(300, 20 * len(oracle))):
        return dataset.score_answer(answer, entry)
    if not json_part:
        return 0.0
    try:
        if json.loads(json_part) != json.loads(oracle):
            return 0.01  # the verifier's lowest score for valid JSON
    except (ValueError, RecursionError):
        return len(oracle) / len(answer) if oracle in answer else 0.0
    around = len(answer) - len(json_part)
    return max(len(oracle) / (len(oracle) + 0.5 * around), 0.2)  # the verifier's score for JSON inside other text


def _tree_work(text: str) -> int:
    """Return the depth of a JSON tree times an upper bound of the number of nodes."""
    return (1 + sum(map(text.count, ",:[{"))) * max(1, nesting_depth(text, "[{", "]}"))


# ---- formulas


def score_arithmetic(answer: str, entry: Entry, dataset: Dataset) -> float:
    """Return 0.05 for an arithmetic expression, otherwise 0.01. Right answers get 1 from `correct_countdown`."""
    try:
        evaluate_exactly(parse_arithmetic(answer))
    except ExpressionError:
        return 0.01
    return 0.05


def parse_arithmetic(answer: str) -> ast.expr:
    """Parse an arithmetic expression, ignoring a full stop after a number. Raises ExpressionError for other strings."""
    return parse_expression(re.sub(r"(?<=\d)\.$", "", answer.strip()), max_parts=200)


def score_integration(answer: str, entry: Entry, dataset: Dataset) -> float:
    from .grammars import algebra

    metadata = entry["metadata"]
    sides = answer.split("=", MAX_SIDES)  # each side of `20*x**2/10 + C = 2*x**2 + C` must be right
    try:
        return float(
            all(algebra.is_antiderivative(side, metadata["integrand"], metadata["variable"]) for side in sides)
        )
    except ExpressionError:
        return 0.0


def score_polynomial_multiplication(answer: str, entry: Entry, dataset: Dataset) -> float:
    from .grammars import algebra

    try:
        return float(algebra.is_same_polynomial(answer, entry["answer"]))
    except ExpressionError:
        return 0.0


def score_propositional_logic(answer: str, entry: Entry, dataset: Dataset) -> float:
    """Score as the library does, but reject answers with many new variables. The verifier would try all values."""
    variables = frozenset(entry["metadata"]["variables"])
    if len(answer) > logic.MAX_CHARACTERS or not variables.issuperset(re.findall("[A-Z]", answer)):
        return 0.0
    try:
        bounded = variables.issuperset(logic.variables(logic.parse_formula(answer)))
    except ValueError:
        bounded = False
    if bounded or len(variables) + sum(map(answer.count, logic.PRECEDENCE)) <= 10:
        return dataset.score_answer(answer, entry)
    return 0.05
