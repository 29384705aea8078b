"""Right answers after a name: what the question asks for is one, and what it tells or asks otherwise is none."""

from __future__ import annotations

from functools import cache

import pytest

from reasoning_env.workers.library import Library

from .frozen_answers import frozen_problem


@cache
def library() -> Library:
    return Library(None)


NAMED = [
    ("acre", "Light: ANSWER"),
    ("acre", "The detector light is ANSWER"),
    ("acre", '{"status": "ANSWER"}'),
    ("advanced_geometry", "Measure of angle ABC: ANSWER"),
    ("aiw", '{"female_friends": ANSWER}'),
    ("arc_1d", "**Test output grid:**\nANSWER"),
    ("base_conversion", "Converted number: ANSWER"),
    ("binary_alternation", "min_swaps = ANSWER"),
    ("binary_matrix", "Distance matrix:\nANSWER"),
    ("boxnet", "Plan:\n```json\nANSWER\n```"),
    ("caesar_cipher", "Decrypted message: ANSWER"),
    ("circuit_logic", "The final output is ANSWER."),
    ("coin_flip", "Probability \N{ALMOST EQUAL TO} ANSWER"),
    ("color_cube_rotation", "The color is ANSWER."),
    ("complex_arithmetic", "Sum: ANSWER"),
    ("countdown", "Expression = ANSWER"),
    ("dice", "The odds are ANSWER"),
    ("emoji_mystery", "Secret sentence: ANSWER"),
    ("family_relationships", "Relationship: ANSWER"),
    ("figlet_font", "The word is ANSWER"),
    ("fraction_simplification", "Simplified fraction: ANSWER"),
    ("game_of_life", '{"board": ANSWER}'),
    ("gcd", "Greatest Common Divisor (GCD): ANSWER"),
    ("graph_color", "Coloring: ANSWER"),
    ("group_anagrams", "Groups: ANSWER"),
    ("largest_island", "The maximum area is: ANSWER"),
    ("lcm", "The LCM is ANSWER"),
    ("manipulate_matrix", "The resulting matrix is:\nANSWER"),
    ("maze", "Minimum number of steps: ANSWER"),
    ("number_sequence", "The next number is ANSWER"),
    ("prime_factorization", "Prime factorization: ANSWER"),
    ("quantum_lock", "Button sequence: ANSWER"),
    ("rotate_matrix", "Rotated matrix:\nANSWER"),
    ("self_reference", "The number of possible solutions is: ANSWER"),
    ("simple_equations", "Value of VARIABLE: ANSWER"),
    ("simple_integration", "Antiderivative = ANSWER"),
    ("spiral_matrix", "Elements in spiral order: ANSWER"),
    ("string_manipulation", "Final transformed string: ANSWER"),
    ("time_intervals", "Duration: ANSWER"),
    ("tower_of_hanoi", "The shortest sequence of moves is:\nANSWER"),
    ("word_sorting", "Sorted words: ANSWER"),
    ("zebra_puzzles", "Name of the person: ANSWER"),
]
OTHERWISE = [
    ("acre", "Object: ANSWER"),
    ("acre", "not the light: ANSWER"),
    ("aiw", "Male friends: ANSWER"),
    ("circuit_logic", "A = ANSWER"),
    ("circuit_logic", "OUT != ANSWER"),
    ("coin_flip", "Probability of 9 heads: ANSWER"),
    ("course_schedule", "False: ANSWER"),
    ("gcd", "LCM: ANSWER"),
    ("largest_island", "Island: ANSWER"),
    ("lcm", "GCD: ANSWER"),
    ("rotten_oranges", "Rotten oranges: ANSWER"),
    ("syllogism", "No: ANSWER"),
    ("tsumego", "White: ANSWER"),
]


def _score(task: str, form: str) -> float:
    problem = frozen_problem(library(), task, None, 3)
    assert problem.right is not None
    variable = problem.made.question.partition("value of ")[2][:1]
    return problem.scorer.score(form.replace("VARIABLE", variable).replace("ANSWER", problem.right))


@pytest.mark.parametrize(("task", "form"), NAMED)
def test_name_of_the_answer(task: str, form: str) -> None:
    assert _score(task, form) == 1.0


@pytest.mark.parametrize(("task", "form"), OTHERWISE)
def test_name_of_something_else(task: str, form: str) -> None:
    assert _score(task, form) < 1.0
