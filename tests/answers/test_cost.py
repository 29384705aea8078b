"""Parsing an answer takes linear time, for every answer type and for hostile strings."""

from __future__ import annotations

from functools import cache
from time import process_time

import pytest

from reasoning_env.answers.scoring import Scorer
from reasoning_env.tasks import COMPOSITE, TASKS
from reasoning_env.workers.library import Library

from .frozen_answers import FrozenProblem


@cache
def _readers() -> list[tuple[str, Scorer]]:
    """Return one task with the scorer of one problem for each answer type."""
    library = Library(None)
    tasks = {row.answer.type: task for task, row in sorted(TASKS.items()) if task != COMPOSITE}
    return [(task, FrozenProblem(library, task, None, 0).scorer) for task in tasks.values()]


def _read(reader: Scorer, said: str) -> None:
    for _ in reader.candidates(said):
        pass


MOST_S = 1.0
"""Limit of CPU time for a string of 10,000 characters. Linear work takes 0.02 s; quadratic work takes seconds."""
PIECES = [
    "1 ",
    "[[1],",
    "\\frac{1}",
    "'",
    " ",
    "\n",
    "a,",
    "=1",
    "x = 1 or ",
    "1,111",
    "**a",
    "answer_",
    "2^",
    "x(",
]
MORE_PIECES = [
    "\\\\",
    "1",
    "[",
    "1,",
    "a = ",
    "{",
    "1\n",
    "| ",
    ";",
    "1*",
    "\\ ",
    "A: 1,",
    "-",
    "->",
    "1/",
    "days ",
    ". ",
    "\\begin{array}{",
    "*",
    "(1)",
    "\\text{",
    "\\boxed{1}",
    "\\frac{",
    "sin(",
    "lcm of 1, ",
    "1, ",
    "Answer: ",
    "> 1\n",
    "✅",
    "Ann is a saint, ",
    "=",
    "`",
    "$",
    "a and ",
]


@pytest.mark.parametrize("piece", [*PIECES, *(pytest.param(piece, marks=pytest.mark.slow) for piece in MORE_PIECES)])
def test_scoring_a_long_answer_takes_linear_time(piece: str) -> None:
    """Formatting is removed first, so the repeated piece is also parsed alone."""
    said = f"answer = {piece * (10_000 // len(piece))}."
    for task, reader in _readers():
        begun = process_time()
        _read(reader, said)
        assert process_time() - begun < MOST_S, task


def test_answer_that_is_a_deeply_nested_list_does_not_crash_parsing() -> None:
    deep = "[" * 900 + "]" * 900
    for _, reader in _readers():
        _read(reader, deep)
