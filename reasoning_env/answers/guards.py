"""Guards: functions that score answers in place of library verifiers that are unsafe for model text.

For every honest answer, a guard returns the library's own score. A guard executes no code, and limits its work.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Callable, Iterable
from typing import Any

from .calculations import MAX_SIDES
from .grammars import logic
from .grammars.expressions import ExpressionError, evaluate_exactly, parse_expression
from .literals import as_json, literal_value
from .rules import Dataset, Entry

MAX_NUMBER_CHARACTERS = 100


def score_without_running(answer: str, entry: Entry, dataset: Dataset) -> tuple[float, bool]:
    """Return the score of the library's verifier, with its `eval` replaced by a calculation that runs no code.

    Also returns True if the answer contains code that cannot be scored without running it.
    """
    from .grammars import python_text

    with python_text.read_safely(sys.modules[type(dataset).__module__]) as refused:
        score = dataset.score_answer(answer, entry)
    return score, bool(refused)


# ---- numbers


def score_bitwise_arithmetic(answer: str, entry: Entry, dataset: Dataset) -> float:
    """Compare with the expected answer. The library would evaluate the problem as Python again."""
    try:
        return float(int(answer, 0) == int(entry["answer"], 0))
    except ValueError:
        return 0.0


def score_complex_number(answer: str, entry: Entry, dataset: Dataset) -> float:
    """Reject long numbers, and nan: the library accepts nan in place of any number."""
    return 0.0 if "n" in answer.casefold() else score_complex_as_library(answer, entry, dataset)[0]


def score_complex_as_library(answer: str, entry: Entry, dataset: Dataset) -> tuple[float, bool]:
    """Reject only long numbers."""
    return dataset.score_answer(answer, entry) if len(answer) <= MAX_NUMBER_CHARACTERS else 0.0, False


def score_coin_flip(answer: str, entry: Entry, dataset: Dataset) -> float:
    # The verifier removes commas, and Python allows underscores in numbers.
    exponent = re.search(r"[eE][+-]?(\d+)", re.sub("[,_]", "", answer))
    if len(answer) > MAX_NUMBER_CHARACTERS or (exponent and int(exponent[1]) > 99):
        return 0.0
    return dataset.score_answer(answer, entry)


def score_number_sorting(answer: str, entry: Entry, dataset: Dataset) -> float:
    """Pass the expected answer as JSON, because the library would evaluate it as Python."""
    return dataset.score_answer(answer, {**entry, "answer": as_json(entry["answer"])})


# ---- lists, boards and JSON


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
    """Parse the answer as a list and convert it with `write`; None if `write` cannot convert the list."""
    value = literal_value(answer)
    try:
        return write(literal_value(f"[{answer}]") if value is None else value)
    except TypeError:
        return None


def _lines(rows: Iterable[Iterable[str]]) -> str:
    return "\n".join(" ".join(row) for row in rows)


def score_codeio(answer: str, entry: Entry, dataset: Dataset) -> float:
    """Compare by edit distance only if both JSON trees are small: the time is the product of their `_tree_work`."""
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
    """Return an upper bound of the number of JSON nodes multiplied by their depth."""
    depth = deepest = 0
    for bracket in re.findall(r"[\[{\]}]", text):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return (1 + sum(map(text.count, ",:[{"))) * max(1, deepest)


# ---- formulas


def score_countdown(answer: str, entry: Entry, dataset: Dataset) -> float:
    if not answer.strip():
        return 0.01
    try:
        value = float(evaluate_exactly(parse_arithmetic(answer)))
    except (ExpressionError, OverflowError):
        return 0.01
    target = entry["metadata"]["target"]
    is_close = abs(value - target) <= 1e-6 + 1e-5 * abs(target)  # the verifier calls numpy's isclose
    return 1.0 if is_close and sorted(_integers(answer)) == sorted(entry["metadata"]["numbers"]) else 0.05


def score_puzzle24(answer: str, entry: Entry, dataset: Dataset) -> float:
    try:
        value = int(evaluate_exactly(parse_arithmetic(answer)))
    except ExpressionError:
        return 0.01
    lowest = dataset.config.min_value
    highest = dataset.config.max_value
    used = _integers(answer)
    return 1.0 if value == 24 and len(used) == 4 and lowest <= min(used) <= max(used) <= highest else 0.01


def parse_arithmetic(answer: str) -> ast.expr:
    """Parse an arithmetic expression, ignoring a full stop after the last number. Raises ExpressionError."""
    return parse_expression(re.sub(r"(?<=\d)\.$", "", answer.strip()), max_parts=200)


def _integers(answer: str) -> list[int]:
    return [int(number) for number in re.findall(r"\b\d+\b", answer)]


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
    """Limit the variables, because the verifier takes any string for a variable and tries all assignments."""
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
