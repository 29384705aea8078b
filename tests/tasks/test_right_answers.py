"""Correct wrong answers of the library."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import reasoning_gym

from reasoning_env.tasks import find_task
from reasoning_env.tasks.serving import clarify, find_flaw, with_right_answer
from reasoning_env.tasks.stories import write_duration


def corrected(task: str, seed: int, **params: Any) -> dict[str, Any]:
    dataset = reasoning_gym.create_dataset(task, seed=seed, size=1, **params)
    return dict(with_right_answer(find_task(task), dataset[0], dataset))


AIW_PARAMS = {"max_entities": 11, "task_type_weights": [0.5, 0.25, 0.25]}
RIGHT = {
    "angle to three decimals": ("advanced_geometry", 4243, {}, "10.085°", "10.08°"),
    "colleagues of both circles": ("aiw", 28976751, AIW_PARAMS, "14", "7"),
    "in-law": ("family_relationships", 19137327, {}, "son-in-law", "father-in-law"),
    "Chi in place of Pass": ("mahjong_puzzle", 25117321, {}, "Chi", "Pass"),
    "time after a weekday": (
        "time_intervals",
        2460828,
        {"max_date_difference_days": 30, "max_time_difference_seconds": 21600},
        "9 days, 22:56",
        "10 days, 00:00",
    ),
}


@pytest.mark.parametrize(("task", "seed", "params", "right", "wrong"), RIGHT.values(), ids=RIGHT)
def test_wrong_library_answer_is_corrected(
    task: str, seed: int, params: dict[str, Any], right: str, wrong: str
) -> None:
    entry = corrected(task, seed, **params)
    assert entry["answer"] == right
    assert entry["metadata"]["library_answer"] == wrong


@pytest.mark.parametrize("seed", [8656030, 12793239, 2753912, 10835798])
def test_knight_swap_solution_missed_by_the_library_is_found(seed: int) -> None:
    dataset = reasoning_gym.create_dataset("knight_swap", seed=seed, size=1)
    entry = with_right_answer(find_task("knight_swap"), dataset[0], dataset)
    assert entry["metadata"]["library_answer"] == "No"
    assert dataset.score_answer(entry["answer"], entry) == 1.0
    assert dataset.score_answer("No", entry) == 0.0


def test_right_reference_answers_of_the_library_stay_unchanged() -> None:
    dataset = reasoning_gym.create_dataset("gcd", seed=1, size=1)
    entry = dataset[0]
    assert with_right_answer(find_task("gcd"), entry, dataset) is entry
    family = reasoning_gym.create_dataset("family_relationships", seed=3, size=1)
    assert "library_answer" not in corrected("family_relationships", 3)["metadata"]
    assert corrected("family_relationships", 3)["answer"] == family[0]["answer"]


@pytest.mark.parametrize(
    ("duration", "layout", "text"),
    [
        (timedelta(days=2, hours=3, minutes=4, seconds=5), "D days, HH:MM:SS", "2 days, 03:04:05"),
        (timedelta(days=2, hours=3, minutes=4, seconds=5), "D days, HH:MM", "2 days, 03:04"),
        (timedelta(days=2), "D days", "2 days"),
        (timedelta(hours=25), "HH:MM", "25:00"),
        (timedelta(microseconds=837_000), "HH:MM:SS.mmm", "00:00:00.837"),
    ],
)
def test_durations_are_written_in_the_requested_format(duration: timedelta, layout: str, text: str) -> None:
    assert write_duration(duration, layout) == text


def test_string_splitting_problem_that_explains_the_step_limit_is_not_rejected() -> None:
    params = {"min_initial_machines": 375, "max_initial_machines": 500}
    dataset = reasoning_gym.create_dataset("string_splitting", seed=15669150, size=1, **params)
    task = find_task("string_splitting")
    assert find_flaw(task, clarify(task, dataset[0], dataset), seed=0) is None


REJECTED = {
    "division that is cut": ("basic_arithmetic", 1370090, {}),
    "cipher of a letter with an accent": ("caesar_cipher", 1113, {}),
    "interval that ends before it begins": (
        "time_intervals",
        25045430,
        {"max_date_difference_days": 1, "max_time_difference_seconds": 60},
    ),
    "machines beyond the limit": (
        "string_splitting",
        15669150,
        {"min_initial_machines": 375, "max_initial_machines": 500},
    ),
}


@pytest.mark.parametrize(("task", "seed", "params"), REJECTED.values(), ids=REJECTED)
def test_problem_without_right_answer_is_rejected(task: str, seed: int, params: dict[str, Any]) -> None:
    entry = corrected(task, seed, **params)
    flaw = find_flaw(find_task(task), entry, seed=0)
    assert flaw is not None
    assert flaw.cause == "wrong"
