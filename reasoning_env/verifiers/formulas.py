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
    is_close = abs(value - target) <= 1e-6 + 1e-5 * abs(target)  # the verifier calls numpy's isclose
    return 1.0 if is_close and sorted(_integers(answer)) == sorted(entry["metadata"]["numbers"]) else 0.05


def correct_countdown(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Pay the floor for values near the target, numbers hidden in decimals, and powers, which absorb numbers."""
    metadata = entry["metadata"]
    if score < 1.0 or ("**" not in answer and _solves(answer, metadata["numbers"], metadata["target"])):
        return score
    return 0.05


def score_puzzle24(answer: str, entry: Entry, dataset: Dataset) -> float:
    try:
        value = int(evaluate_exactly(parse_arithmetic(answer)))
    except ExpressionError:
        return 0.01
    lowest = dataset.config.min_value
    highest = dataset.config.max_value
    used = _integers(answer)
    return 1.0 if value == 24 and len(used) == 4 and lowest <= min(used) <= max(used) <= highest else 0.01


def correct_puzzle24(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Pay the floor for numbers that were not given, and for values between 24 and 25."""
    if score < 1.0 or ("**" not in answer and _solves(answer, entry["metadata"]["numbers"], 24)):
        return score
    return 0.01


def parse_arithmetic(answer: str) -> ast.expr:
    """Return the tree of an answer; a full stop after the last number is ignored. Raises ExpressionError."""
    return parse_expression(re.sub(r"(?<=\d)\.$", "", answer.strip()), MAX_ARITHMETIC_PARTS)


def _integers(answer: str) -> list[int]:
    return [int(number) for number in re.findall(r"\b\d+\b", answer)]


def _solves(answer: str, numbers: list[int], target: int) -> bool:
    """Tell whether an expression has exactly the value of the target and exactly these whole numbers."""
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
    """Bound the variables: the verifier takes any text between operators for a variable, and tries all assignments."""
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
