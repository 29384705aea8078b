"""Guards and corrections of tasks whose answers are formulas: arithmetic, integrals, polynomials, logic."""

from __future__ import annotations

import ast
import re

from .entries import Dataset, Entry
from .grammars import logic
from .grammars.expressions import ExpressionError, evaluate_exactly, parse_expression

MAX_ARITHMETIC_PARTS = 200
MAX_LOGIC_NAMES = 10


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


def correct_countdown(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Refuse values near the target, numbers hidden in decimals, and powers, which swallow numbers."""
    metadata = entry["metadata"]
    if score < 1.0 or ("**" not in answer and _solves(answer, metadata["numbers"], metadata["target"])):
        return score
    return 0.05


def score_puzzle24(answer: str, entry: Entry, dataset: Dataset) -> float:
    try:
        value = int(evaluate_exactly(parse_arithmetic(answer)))
    except ExpressionError:
        return 0.01
    lowest, highest, used = dataset.config.min_value, dataset.config.max_value, _integers(answer)
    return 1.0 if value == 24 and len(used) == 4 and lowest <= min(used) <= max(used) <= highest else 0.01


def correct_puzzle24(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Refuse other numbers than those given, and values from 24 to 25."""
    if score < 1.0 or ("**" not in answer and _solves(answer, entry["metadata"]["numbers"], 24)):
        return score
    return 0.01


def parse_arithmetic(answer: str) -> ast.expr:
    """Return the tree of an answer, without a full stop after its last number. Raises ExpressionError."""
    return parse_expression(re.sub(r"(?<=\d)\.$", "", answer.strip()), MAX_ARITHMETIC_PARTS)


def _integers(answer: str) -> list[int]:
    return [int(number) for number in re.findall(r"\b\d+\b", answer)]


def _solves(answer: str, numbers: list[int], target: int) -> bool:
    """Tell whether an expression has exactly the target's value and exactly these whole numbers."""
    try:
        tree = parse_arithmetic(answer)
        used = [str(node.value) for node in ast.walk(tree) if isinstance(node, ast.Constant)]
        if not all(map(str.isdigit, used)) or sorted(map(int, used)) != sorted(numbers):
            return False
        return evaluate_exactly(tree) == target
    except ExpressionError:
        return False


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


def score_propositional_logic(answer: str, entry: Entry, dataset: Dataset) -> float:
    """Bound the variables: the verifier tries every assignment of whatever stands between operators."""
    variables = frozenset(entry["metadata"]["variables"])
    if len(answer) > logic.MAX_CHARACTERS or not variables.issuperset(re.findall("[A-Z]", answer)):
        return 0.0
    try:
        bounded = variables.issuperset(logic.variables(logic.parse_formula(answer)))
    except ValueError:
        bounded = False
    if bounded or len(variables) + sum(map(answer.count, logic.PRECEDENCE)) <= MAX_LOGIC_NAMES:
        return dataset.score_answer(answer, entry)
    return 0.05


def correct_propositional_logic(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Refuse joined premises and what a single one implies: an inference must need several of them.

    Where no such inference exists, as in problems that are never served, the library's score stays.
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
