"""Clarify ambiguous questions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import reasoning_gym

from reasoning_env.tasks import TASKS as DECLARED
from reasoning_env.tasks import find_task
from reasoning_env.tasks.serving import clarify

CLARIFICATIONS = {name: task.clarification for name, task in DECLARED.items() if task.clarification is not None}
DOCS = Path(__file__).resolve().parents[2] / "docs" / "answers.md"


def clarified(task: str, seed: int, **params: Any) -> str:
    dataset = reasoning_gym.create_dataset(task, seed=seed, size=1, **params)
    return str(clarify(find_task(task), dataset[0], dataset)["question"])


SHOWN = {
    "aiw": (0, {"task_type_weights": [1, 0, 0]}, ", a brother of "),
    "boxnet": (1, {}, "color-coded targets in any number of steps."),
    "leap year or not": (4, {"tasks": ["weekday_of_date_from_first_date"]}, " The year is not a leap year. "),
    "leap year": (4, {"tasks": ["weekday_of_date_from_first_date"], "year": 2024}, " The year is a leap year. "),
    "month first": (4, {"tasks": ["weekday_of_date"]}, "/2022 (month/day/year). "),
    "coin_flip": (1, {}, " fair coin flips? Give the exact value, or round it to at least three significant digits."),
    "color_cube_rotation": (2, {"min_rotations": 20, "max_rotations": 20}, "is a half turn that leaves the left and"),
    "emoji_mystery": (170, {}, "encoded_sentence[2:]"),
    "family_relationships": (1, {}, "Choose a word that tells a man from a woman"),
    "gsm_symbolic": (32, {}, "If there are 2 times as many boys as girls in the park"),
    "percentage points": (195, {}, "By how many percentage points is it more likely that he rolls"),
    "intermediate_integration": (7, {}, "asin(3*x) dx\nHere asin is the inverse of the sine.\n"),
    "knight_swap": (1, {}, "If yes, list the fewest moves that do it."),
    "leg_counting": (1, {"min_animals": 37, "max_animals": 37}, "a list of animals. Count the arms of a starfish"),
    "claws": (0, {}, "a list of animals. Count the claws of crabs and lobsters as legs.\n"),
    "letter_counting": (1, {}, '"? Count capital and small letters alike.'),
    "rectangle_count": (1, {}, "with different numbers of rectangles, give the fewest."),
    "letter_jumble": (1, {}, "take the word of that text.\n\nNow, unscramble"),
    "some lengths of words": (1, {"min_word_len": 3, "max_word_len": 5}, " Only words of 3 to 5 letters are taken.\n"),
    "manipulate_matrix": (1, {"min_transforms": 60, "max_transforms": 60}, " mirror the matrix, so that the last row "),
    "columns": (
        1,
        {"min_transforms": 60, "max_transforms": 60},
        "- Vertically mirror the matrix, so that the last ",
    ),
    "rotation": (1, {"min_transforms": 60, "max_transforms": 60}, " degrees clockwise\n"),
    "maze": (1, {}, "reach the goal? Each step goes up, down, left or right.\n"),
    "pool_matrix": (1, {}, "Regions at the right and bottom edges may be smaller, and are pooled like the others.\n"),
    "propositional_logic": (1, {}, "from the premise. The conclusion must need several premises together: it does not"),
    "puzzle24": (1, {}, "Use each of the numbers exactly once."),
    "quantum_lock": (1, {}, "A button that names a color can be pressed only while the light has that color.\n"),
    "simple_integration": (0, {}, " dX\n"),
    "string_splitting": (1, {}, "from rule 1. Each single conversion counts as one application of a rule.\n"),
    "string_synthesis": (1, {}, "is repeated. After each application of a rule, start again from rule 1.\n"),
    "time_intervals": (12, {}, "Dates are written month/day/year. "),
    "seconds": (34, {}, "Leave out the seconds that remain. "),
    "tower_of_hanoi": (1, {}, "Provide the shortest sequence of moves. Disk 1 is the smallest.\n"),
}
"""For each task: seed, parameters, and words that the clarified question contains."""
TASKS = {
    **dict.fromkeys(("leap year or not", "leap year", "month first"), "calendar_arithmetic"),
    **dict.fromkeys(("columns", "rotation"), "manipulate_matrix"),
    "claws": "leg_counting",
    "percentage points": "gsm_symbolic",
    "some lengths of words": "letter_jumble",
    "seconds": "time_intervals",
}


@pytest.mark.parametrize("case", SHOWN)
def test_clarified_question_has_the_documented_wording(case: str) -> None:
    seed, params, words = SHOWN[case]
    assert words in clarified(TASKS.get(case, case), seed, **params)


def test_every_clarification_has_a_test_case() -> None:
    assert {TASKS.get(case, case) for case in SHOWN} == set(CLARIFICATIONS)


def test_clarified_date_span_across_new_year_has_both_years() -> None:
    question = clarified("calendar_arithmetic", 27431624)
    assert "Wednesday, November 9, 2022 to Monday, January 16, 2023" in question


def test_question_about_a_date_span_names_both_years_if_they_differ() -> None:
    params = {"tasks": ["count_business_days"], "offset_upper_bound": 365}
    questions = [clarified("calendar_arithmetic", seed, **params) for seed in range(40)]
    spans = [re.findall(r"\w+day, \w+ \d+(?:, (\d+))?", question) for question in questions]
    assert ["2022", "2023"] in spans
    assert ["", "2023"] not in spans


def test_clarified_problem_is_marked_in_metadata() -> None:
    dataset = reasoning_gym.create_dataset("maze", seed=1, size=1)
    entry = clarify(find_task("maze"), dataset[0], dataset)
    assert entry["metadata"]["clarified"] is True
    assert entry["answer"] == dataset[0]["answer"]


def test_unambiguous_question_gets_no_clarification() -> None:
    dataset = reasoning_gym.create_dataset("color_cube_rotation", seed=4, size=1, max_rotations=1)
    entry = dataset[0]
    assert entry["metadata"]["rotations"] != ["bottom"]
    assert clarify(find_task("color_cube_rotation"), entry, dataset) is entry


def test_time_interval_in_whole_minutes_gets_no_clarification() -> None:
    dataset = reasoning_gym.create_dataset("time_intervals", seed=1, size=1)
    entry = {
        "question": "How much time elapsed from 2024-01-01 10:00:30 to 2024-01-03 11:05:30? Answer in D days, HH:MM.",
        "answer": "2 days, 01:05",
        "metadata": {"start_time": "2024-01-01 10:00:30", "end_time": "2024-01-03 11:05:30"},
    }
    assert clarify(find_task("time_intervals"), entry, dataset) is entry


def test_letter_jumble_question_without_consecutive_words_gets_no_clarification() -> None:
    dataset = reasoning_gym.create_dataset("letter_jumble", seed=1, size=1, consecutive_words=False)
    entry = dataset[0]
    assert clarify(find_task("letter_jumble"), entry, dataset) is entry


def test_question_with_an_unknown_wording_gets_no_clarification() -> None:
    dataset = reasoning_gym.create_dataset("maze", seed=1, size=1)
    entry = {**dataset[0], "question": "Combien de pas ?"}
    assert clarify(find_task("maze"), entry, dataset) is entry


def test_docs_list_every_clarification() -> None:
    table = DOCS.read_text().split("## Clarified questions")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| `")]
    assert rows == [[f"`{task}`", f"`{row.wording}`"] for task, row in CLARIFICATIONS.items()]


@pytest.mark.parametrize(
    ("task", "question", "metadata"),
    [
        ("letter_counting", 'Wie oft kommt "a" in diesem Text vor: "Ananas"?', {}),
        ("time_intervals", "Wie lange ist es vom 01/02/2024 bis zum 03/04/2024?", {}),
        ("calendar_arithmetic", "Welcher Wochentag ist der 01/02/2024.", {"task": "weekday_of_date"}),
        (
            "calendar_arithmetic",
            "In einem Jahr ist der 1. Januar ein Montag. Und der 2. Mai? Nenne den Tag.",
            {"task": "weekday_of_date_from_first_date", "year": 2023},
        ),
    ],
)
def test_translated_question_gets_no_clarification(task: str, question: str, metadata: dict[str, Any]) -> None:
    entry = {"question": question, "answer": "1", "metadata": metadata}
    assert clarify(find_task(task), entry, None) is entry
