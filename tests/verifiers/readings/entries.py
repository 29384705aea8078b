"""Entries of problems for the tests of readings."""

from __future__ import annotations

from typing import Any

from reasoning_env.verifiers.readings import readings

LEGS = "How many legs do 3 cows and 2 hens have in total?"


def entry(answer: str | None, question: str = LEGS) -> dict[str, Any]:
    return {"question": question, "answer": answer, "metadata": {}}


def is_read(said: str, task: str, right: str, question: str = LEGS) -> bool:
    """Tell whether an answer has the right answer among its readings."""
    return right in readings(said, task, entry(right, question))
