"""Algebra and geometry: equations, polynomials, integrals, complex numbers, triangles and polygons."""

from __future__ import annotations

import re
from fractions import Fraction

from ..answers import expressions, guards, notations, numbers
from ..answers.rules import AnswerRules, Dataset, Entry
from .declaration import Clarification, Corrected, FieldLevels, Replacement, Task, easy, wrong


def _round_angle(entry: Entry, dataset: Dataset) -> Corrected:
    """Round an angle to three decimals, as the question asks; the library rounds angles to two."""
    metadata = entry["metadata"]
    if metadata["task_type"] != "angle_measure":
        return str(entry["answer"]), {}
    return f"{metadata['angle_ABC_degrees']:.3f}°", {}


ADVANCED_GEOMETRY = Task(
    "advanced_geometry", "geometry", right_answer=_round_angle, answer=AnswerRules(notations.measure)
)


def _loses_digits(entry: Entry) -> bool:
    """Return True if the library's result is inexact. Floats cannot represent all numbers of 16 digits or more."""
    metadata = entry["metadata"]
    a, b = map(Fraction, metadata["num1"])
    c, d = map(Fraction, metadata["num2"])
    real, imaginary = map(Fraction, metadata["result"])
    match metadata["operation"]:
        case "*":
            return (a * c - b * d, a * d + b * c) != (real, imaginary)
        case "/":
            return (c * real - d * imaginary, c * imaginary + d * real) != (a, b)
        case _:
            return False


COMPLEX_ARITHMETIC = Task(
    "complex_arithmetic",
    "algebra",
    has_small_pool=True,
    rejected=(wrong("the result has more digits than a float has", _loses_digits),),
    verifier_flaw="the library's verifier accepts nan in place of any number",
    answer=AnswerRules(
        notations.complex_number, guard=guards.score_complex_number, library_score=guards.score_complex_as_library
    ),
)

ONE_KIND = "each of the library's levels has only one kind of integral, and therefore few different questions"

INVERSES = {"asin": "sine", "atan": "tangent"}


def _name_inverse(entry: Entry, dataset: Dataset) -> str:
    """Say in the question that `asin` is the inverse of the sine, because `asin` can be read as `a` times a sine."""
    question = str(entry["question"])
    found = re.search(rf"\b({'|'.join(INVERSES)})\(", question.partition("\n")[0])
    if found is None:
        return question
    return question.replace("\nWhen ", f"\nHere {found[1]} is the inverse of the {INVERSES[found[1]]}.\nWhen ", 1)


INTERMEDIATE_INTEGRATION = Task(
    "intermediate_integration",
    "algebra",
    has_small_pool=True,
    question_counts=(4300, None),
    faster=Replacement("algebra.intermediate_integration", "74838f0224b504e3", "integration.install"),
    levels=(
        FieldLevels(
            ("problem_type_weights",),
            # Each column is the weight of a kind of integral: linear, radical, logarithm or inverse trigonometric,
            # trigonometric, polynomial times another function, exponential, cyclic, repeated integration by parts.
            (
                [0.4, 0.3, 0.0, 0.0, 0.0, 0.3, 0.0, 0.0],
                [0.2, 0.2, 0.2, 0.2, 0.0, 0.2, 0.0, 0.0],
                [0.0, 0.1, 0.3, 0.1, 0.3, 0.1, 0.1, 0.0],
                [0.0, 0.0, 0.2, 0.1, 0.4, 0.0, 0.1, 0.2],
                [0.0, 0.0, 0.1, 0.0, 0.4, 0.0, 0.1, 0.4],
            ),
            "each of the library's levels has only one kind of integral, and some kinds have only 18 different answers",
        ),
        FieldLevels(("min_linear_degree", "max_linear_degree"), ((2, 2), (2, 3), (2, 4)), ONE_KIND),
        FieldLevels(("max_poly_degree",), (3, 3, 3, 4, 5), ONE_KIND),
        FieldLevels(("outer_constant_max",), (3, 3, 6, 9, 12), ONE_KIND),
    ),
    rejected=(
        wrong("the library's answer contains an unsolved integral", lambda entry: "Integral(" in str(entry["answer"])),
    ),
    clarification=Clarification(
        "the question does not say what asin means", "Here {asin} is the inverse of the {sine}.", _name_inverse
    ),
    answer=AnswerRules(
        expressions.integral,
        several_right_answers=True,
        guard=guards.score_integration,
        library_score=guards.score_without_running,
        is_formula=True,
    ),
)

POLYNOMIAL_EQUATIONS = Task(
    "polynomial_equations",
    "algebra",
    has_small_pool=True,
    rejected=(easy("the only real solution is 0", lambda entry: entry["metadata"]["real_solutions"] == [0]),),
    answer=AnswerRules(notations.roots),
)

POLYNOMIAL_MULTIPLICATION = Task(
    "polynomial_multiplication",
    "algebra",
    has_small_pool=True,
    question_counts=(None, None, None),
    answer=AnswerRules(
        expressions.expression,
        several_right_answers=True,
        guard=guards.score_polynomial_multiplication,
        library_score=guards.score_without_running,
        is_formula=True,
    ),
)

SIMPLE_EQUATIONS = Task(
    "simple_equations",
    "algebra",
    answer=AnswerRules(numbers.number, result_names=("{variable}", "value of {variable}")),
)

NOT_CONVEX = (
    "with six or more sides and random angles of 10 to 170 degrees, the last angle is mostly 180 degrees or more"
)


def _is_not_convex(entry: Entry) -> bool:
    return float(entry["answer"]) >= 180.0


SIMPLE_GEOMETRY = Task(
    "simple_geometry",
    "geometry",
    has_small_pool=True,
    levels=(
        FieldLevels(("min_sides", "max_sides"), ((3, 5), (5, 7), (8, 11), (14, 18)), NOT_CONVEX),
        FieldLevels(("min_angle",), (10, 82, 122, 149), NOT_CONVEX),
        FieldLevels(("max_angle",), (170, 170, 174, 175), NOT_CONVEX),
    ),
    rejected=(wrong("the polygon is not convex: an angle has 180 degrees or more", _is_not_convex),),
    answer=AnswerRules(numbers.degrees),
)


def _name_one_variable(entry: Entry, dataset: Dataset) -> str:
    variable = entry["metadata"]["variable"]
    return re.sub(r"(?m) dx$", f" d{variable}", str(entry["question"]), count=1)


SIMPLE_INTEGRATION = Task(
    "simple_integration",
    "algebra",
    has_small_pool=True,
    levels=(
        FieldLevels(
            ("min_terms", "max_terms"),
            ((2, 2), (2, 3), (3, 4), (4, 5), (5, 7)),
            "one more term makes an integral much harder",
        ),
    ),
    clarification=Clarification(
        "the question has two variables: X in the integrand and x in the differential", "d{X}", _name_one_variable
    ),
    answer=AnswerRules(
        expressions.integral,
        several_right_answers=True,
        guard=guards.score_integration,
        library_score=guards.score_without_running,
        is_formula=True,
    ),
)
