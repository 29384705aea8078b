"""The tasks to learn, with short questions and answers, and a second check of answers."""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

TEST_SEED = 20261122
"""Seed of the environment's evaluation set, which is the test set."""
SYSTEM_PROMPT = "Reply with <answer>the answer</answer>."


@dataclass(frozen=True)
class Task:
    """A task: `params` make the task easy, `phrases` occur in all its questions, `solve` answers a question."""

    params: Mapping[str, Any]
    phrases: tuple[str, ...]
    solve: Callable[[str], str]


def _number_sorting(question: str) -> str:
    found = re.match(r"Sort these numbers in (ascending|descending) order: (.*)", question)
    assert found is not None
    return str(sorted(found[2].split(", "), key=float, reverse=found[1] == "descending"))


def _spell_backward(question: str) -> str:
    return question.rpartition(": ")[2][::-1]


def _spiral_matrix(question: str) -> str:
    rows = [line.split() for line in question.rpartition("?\n")[2].splitlines()]
    order: list[str] = []
    while rows:
        order += rows[0]
        rows = [list(row) for row in zip(*rows[1:], strict=True)][::-1]
    return " ".join(order)


TASKS: Mapping[str, Task] = {
    "number_sorting": Task(
        {"min_numbers": 3, "max_numbers": 3, "min_decimals": 0, "max_decimals": 0, "min_value": 0, "max_value": 9},
        (
            "Sort these numbers in ascending order: ",
            "Sort these numbers in descending order: ",
            "\nPlease follow the instruction below:\n"
            "## 1. Let all your answers be a list of numbers. Instead of reporting your answer as "
            "-69, -13, 1, 7, 11, 43, 59, 61, use ['-69', '-13', '1', '7', '11', '43', '59', '61'] instead\n"
            "## 2. Convert all numbers in the square brackets as strings. For example, "
            "['-69', '-13', '1', '7', '11', '43', '59', '61']\n",
            "['",
            "', '",
            "']",
            ".0",
        ),
        _number_sorting,
    ),
    "spell_backward": Task(
        {"min_word_len": 3, "max_word_len": 5},
        ("Spell this word backward (example: sun -> nus): ",),
        _spell_backward,
    ),
    "spiral_matrix": Task(
        {"min_n": 2, "max_n": 3},
        (
            "Given a matrix, your job is to generate a list of elements in spiral order, "
            "starting from the top-left element.\n\n"
            "The spiral order is clockwise, starting from the top-left corner. More precisely:\n"
            "- Start from the top-left corner and move right along the top row.\n"
            "- Move down along the right column.\n- Move left along the bottom row.\n- Move up along the left column.\n"
            "- Repeat the steps for the inner elements of the matrix until every entry is visited.\n\n"
            "Hint: Think of peeling the matrix layer by layer from the outside inward. Each layer forms a rectangular "
            "frame, and you traverse each frame clockwise starting from its top-left corner.\n\n"
            "Your output should be a space-separated list of integers, e.g. 1 2 3 4 5 6\n\n"
            "For the matrix below, what is the list of elements in spiral order?\n",
        ),
        _spiral_matrix,
    ),
}

PARAMS = {name: dict(task.params) for name, task in TASKS.items()}


def confirms(task: str, question: str, answer: str) -> bool:
    """Return True if an answer is right, without the library: compare lists by value, and words without case."""
    given = answer.strip()
    right = TASKS[task].solve(question)
    if task == "number_sorting":
        with contextlib.suppress(ValueError):
            return [float(number) for number in re.findall(r"[^\s'\",\[\]]+", given)] == [
                float(number) for number in ast.literal_eval(right)
            ]
        return False
    return given.lower().split() == right.lower().split()
