"""The tasks that are learnt: short questions with short answers, and a second opinion on what answers are right."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

TEST_SEED = 123
"""The test set is the environment's evaluation set of this seed."""
SYSTEM_PROMPT = "Reply with <answer>the answer</answer>."


@dataclass(frozen=True)
class Task:
    """`params` make the task easy, `phrases` are what its questions repeat, and `solve` answers a question."""

    params: Mapping[str, Any]
    phrases: tuple[str, ...]
    solve: Callable[[str], str]


def _spell_backward(question: str) -> str:
    return question.rpartition(": ")[2][::-1]


def _chain_sum(question: str) -> str:
    found = re.search(r": (-?\d+) ([+-]) (-?\d+) =$", question)
    assert found is not None
    return str(int(found[1]) + int(found[3]) * (1 if found[2] == "+" else -1))


def _letter_counting(question: str) -> str:
    found = re.search(r'letter "(.)" appear in the text: "(.*)"\?$', question)
    assert found is not None
    return str(found[2].lower().count(found[1]))


TASKS: Mapping[str, Task] = {
    "chain_sum": Task(
        {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1, "allow_negation": True},
        ("State the final answer to the following arithmetic problem: ",),
        _chain_sum,
    ),
    "letter_counting": Task(
        {"min_words": 2, "max_words": 3},
        ('How many times does the letter "', '" appear in the text: "', '"?'),
        _letter_counting,
    ),
    "spell_backward": Task(
        {"min_word_len": 3, "max_word_len": 5},
        ("Spell this word backward (example: sun -> nus): ",),
        _spell_backward,
    ),
}


def confirms(task: str, question: str, answer: str) -> bool:
    """Tell whether an answer is right, without the library and its verifiers: numbers by value, words in any case."""
    said, right = answer.strip().lower(), TASKS[task].solve(question).lower()
    if not right.lstrip("-").isdigit():
        return said == right
    with contextlib.suppress(ValueError):
        return float(said) == float(right)
    return False
