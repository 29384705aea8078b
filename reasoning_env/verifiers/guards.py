"""Score answers to the tasks whose own verifiers cannot be given model text as it is.

Each guard takes the place of `score_answer` for one task and gives the library's own score to every answer that its
question could honestly be given. Where the verifier evaluates text, the guard reads it with a small grammar instead;
where the verifier would work for as long as the text tells it to, the guard bounds the text without changing its value.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from .grammars import logic
from .grammars.expressions import ExpressionError, evaluate_exactly, parse_expression, parse_list

Entry = Mapping[str, Any]


class Dataset(Protocol):
    """The part of a library's dataset that guards use."""

    config: Any

    def score_answer(self, answer: str, entry: Entry) -> float: ...


Guard = Callable[[str, Entry, Dataset], float]

MAX_ARITHMETIC_PARTS = 200
MAX_RUSH_STEPS = 6
"""The width of a Rush Hour board: no car can move further."""
MAX_CUBE_MOVES = 2000
CUBE_PERIOD = 4
"""Turning a side of a cube four times leaves it as it was."""
MAX_BOXNET_STEPS = 1000
MAX_BOXNET_TEXT = 100
MAX_NUMBER_CHARACTERS = 100
MAX_EXPONENT = 99
MAX_COUNT_DIGITS = 9
MAX_LOGIC_NAMES = 10
MAX_TREE_WORK = 100_000
MIN_ANSWER, MAX_ANSWER_RATIO = 300, 20
"""Characters of an answer that are always read, and multiple of the oracle's beyond which it is not similar."""
MAX_EDIT_COST = 10_000_000
"""Characters of the answer times those of the oracle, which is what the edit distance between them costs."""
PARSED_JSON_SCORE = 0.01
"""The least that codeio's verifier gives for valid JSON."""


def score_countdown(answer: str, entry: Entry, dataset: Dataset) -> float:
    if not answer.strip():
        return 0.01
    try:
        value = float(evaluate_exactly(parse_arithmetic(answer)))
    except (ExpressionError, OverflowError):
        return 0.01
    target = entry["metadata"]["target"]
    is_close = abs(value - target) <= 1e-6 + 1e-5 * abs(target)  # as numpy's isclose, which the verifier asks
    return 1.0 if is_close and sorted(_integers(answer)) == sorted(entry["metadata"]["numbers"]) else 0.05


def score_puzzle24(answer: str, entry: Entry, dataset: Dataset) -> float:
    try:
        value = int(evaluate_exactly(parse_arithmetic(answer)))
    except ExpressionError:
        return 0.01
    lowest, highest, used = dataset.config.min_value, dataset.config.max_value, _integers(answer)
    return 1.0 if value == 24 and len(used) == 4 and lowest <= min(used) <= max(used) <= highest else 0.01


def parse_arithmetic(answer: str) -> ast.expr:
    """Return the tree of an answer, without a full stop after its last number. Raises ExpressionError."""
    return parse_expression(re.sub(r"(?<=\d)\.$", "", answer.strip()), MAX_ARITHMETIC_PARTS)


def _integers(answer: str) -> list[int]:
    return [int(number) for number in re.findall(r"\b\d+\b", answer)]


def score_integration(answer: str, entry: Entry, dataset: Dataset) -> float:
    from .grammars import algebra

    metadata = entry["metadata"]
    try:
        return float(algebra.is_antiderivative(answer, metadata["integrand"], metadata["variable"]))
    except ExpressionError:
        return 0.0


def score_polynomial_multiplication(answer: str, entry: Entry, dataset: Dataset) -> float:
    from .grammars import algebra

    try:
        return float(algebra.is_same_polynomial(answer, entry["answer"]))
    except ExpressionError:
        return 0.0


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
    """Return the answer, read as a list, in the oracle's form; None where it has another shape."""
    try:
        return write(parse_list(answer))
    except (TypeError, ValueError):
        return None


def _lines(rows: Any) -> str:
    return "\n".join(" ".join(row) for row in rows)


def score_bitwise_arithmetic(answer: str, entry: Entry, dataset: Dataset) -> float:
    """Compare with the oracle's answer, where the library evaluates the problem's text anew."""
    try:
        return float(int(answer, 0) == int(entry["answer"], 0))
    except ValueError:
        return 0.0


def score_number_sorting(answer: str, entry: Entry, dataset: Dataset) -> float:
    """Hand in the oracle's answer as JSON, because the library evaluates it as Python."""
    oracle = json.dumps(parse_list(entry["answer"]))
    return dataset.score_answer(answer, {**entry, "answer": oracle})


def score_rush_hour(answer: str, entry: Entry, dataset: Dataset) -> float:
    def bounded(move: re.Match[str]) -> str:
        return move[1] + str(MAX_RUSH_STEPS if len(move[2]) > MAX_COUNT_DIGITS else min(int(move[2]), MAX_RUSH_STEPS))

    return dataset.score_answer(re.sub(r"([A-Z][+-])(\d+)", bounded, answer), entry)


def score_rubiks_cube(answer: str, entry: Entry, dataset: Dataset) -> float:
    def bounded(word: str) -> str:
        match = re.fullmatch(r"(\D*)(\d+)", word)
        if match is None:
            return word
        if len(match[2]) > MAX_COUNT_DIGITS or not match[1]:
            return ""  # no such move, or none at all
        count = int(match[2])
        return match[1] + str(count % CUBE_PERIOD or min(count, CUBE_PERIOD))

    words = answer.split()
    if len(words) > MAX_CUBE_MOVES:
        return 0.01
    return dataset.score_answer(" ".join(map(bounded, words)), entry)


def score_propositional_logic(answer: str, entry: Entry, dataset: Dataset) -> float:
    """Bound the variables: the verifier tries every assignment of whatever stands between operators."""
    known = frozenset(entry["metadata"]["variables"])
    if len(answer) > logic.MAX_CHARACTERS or not known.issuperset(re.findall("[A-Z]", answer)):
        return 0.0
    try:
        bounded = known.issuperset(logic.variables(logic.parse_formula(answer)))
    except ValueError:
        bounded = False
    if bounded or len(known) + sum(map(answer.count, logic.PRECEDENCE)) <= MAX_LOGIC_NAMES:
        return dataset.score_answer(answer, entry)
    return 0.05


def score_codeio(answer: str, entry: Entry, dataset: Dataset) -> float:
    """Bound the edit distance between trees of JSON, which costs nodes times nodes times depth."""
    oracle = entry["answer"].strip()
    first, last = answer.find("{"), answer.rfind("}")
    said = answer[first : last + 1] if first >= 0 else ""
    work = _tree_work(said) * _tree_work(oracle)
    bounded = work <= MAX_TREE_WORK and len(said) * len(oracle) <= MAX_EDIT_COST
    if answer.strip() == oracle or (bounded and len(said) <= max(MIN_ANSWER, MAX_ANSWER_RATIO * len(oracle))):
        return dataset.score_answer(answer, entry)
    if not said:
        return 0.0
    try:
        if json.loads(said) != json.loads(oracle):
            return PARSED_JSON_SCORE
    except (ValueError, RecursionError):
        return len(oracle) / len(answer) if oracle in answer else 0.0
    around = len(answer) - len(said)
    return max(len(oracle) / (len(oracle) + 0.5 * around), 0.2)  # as the verifier pays where text stands around it


def _tree_work(text: str) -> int:
    """Return an upper bound of the nodes of a JSON text times its depth."""
    depth = deepest = 0
    for bracket in re.findall(r"[\[{\]}]", text):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return (1 + sum(map(text.count, ",:[{"))) * max(1, deepest)


def score_boxnet(answer: str, entry: Entry, dataset: Dataset) -> float:
    try:
        steps = json.loads(answer)
    except (ValueError, RecursionError):
        return 0.0
    if steps in ({}, ""):  # no plan is one without moves, for the verifier
        return dataset.score_answer(answer, entry)
    if not isinstance(steps, list) or not all(_is_boxnet_step(step) for step in steps):
        return 0.0
    return dataset.score_answer(json.dumps(steps[:MAX_BOXNET_STEPS]), entry)


def _is_boxnet_step(step: Any) -> bool:
    return isinstance(step, dict) and all(
        isinstance(move, str) and len(agent) + len(move) <= MAX_BOXNET_TEXT for agent, move in step.items()
    )


def score_coin_flip(answer: str, entry: Entry, dataset: Dataset) -> float:
    # The verifier drops commas, and Python's numbers may have underscores.
    exponent = re.search(r"[eE][+-]?(\d+)", re.sub("[,_]", "", answer))
    if len(answer) > MAX_NUMBER_CHARACTERS or (exponent and int(exponent[1]) > MAX_EXPONENT):
        return 0.0
    return dataset.score_answer(answer, entry)


def score_short_number(answer: str, entry: Entry, dataset: Dataset) -> float:
    return dataset.score_answer(answer, entry) if len(answer) <= MAX_NUMBER_CHARACTERS else 0.0


GUARDS: Mapping[str, Guard] = {
    "binary_matrix": score_binary_matrix,
    "bitwise_arithmetic": score_bitwise_arithmetic,
    "boxnet": score_boxnet,
    "codeio": score_codeio,
    "coin_flip": score_coin_flip,
    "complex_arithmetic": score_short_number,
    "countdown": score_countdown,
    "intermediate_integration": score_integration,
    "n_queens": score_n_queens,
    "number_sorting": score_number_sorting,
    "polynomial_multiplication": score_polynomial_multiplication,
    "propositional_logic": score_propositional_logic,
    "puzzle24": score_puzzle24,
    "rubiks_cube": score_rubiks_cube,
    "rush_hour": score_rush_hour,
    "simple_integration": score_integration,
    "spiral_matrix": score_spiral_matrix,
    "string_insertion": score_string_insertion,
}
