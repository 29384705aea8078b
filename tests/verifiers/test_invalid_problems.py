"""Entries that must not be served: found where an independent computation finds them, and nowhere else."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest
import reasoning_gym
import sympy
from reasoning_gym.logic.propositional_logic import Expression

from reasoning_env.library_facts import KNOWN_TASKS
from reasoning_env.verifiers import find_flaw

SLOW = frozenset({"codeio", "composite", "futoshiki", "knight_swap", "sokoban", "zebra_puzzles"})
"""Tasks whose items take long to make, cannot be made from defaults, or run code of their own to be made."""
TASKS_WITH_FLAWS = frozenset({"intermediate_integration", "propositional_logic"})


@cache
def _entries(task: str, count: int) -> list[dict[str, Any]]:
    dataset = reasoning_gym.create_dataset(task, seed=60_000, size=count)
    return [dataset[number] for number in range(count)]


def test_integrals_are_flawed_exactly_where_the_oracle_holds_one() -> None:
    entries = _entries("intermediate_integration", 70)
    unsolved = [sympy.sympify(entry["answer"]).has(sympy.Integral) for entry in entries]
    assert [find_flaw("intermediate_integration", entry) is not None for entry in entries] == unsolved
    assert 2 <= sum(unsolved) <= 40


def test_premises_are_flawed_exactly_where_no_assignment_makes_them_all_true() -> None:
    entries = _entries("propositional_logic", 300)
    contradictory = [not _can_be_true(entry["metadata"]) for entry in entries]
    assert [find_flaw("propositional_logic", entry) is not None for entry in entries] == contradictory
    assert 20 <= sum(contradictory) <= 150


def _can_be_true(metadata: Mapping[str, Any]) -> bool:
    """By the library's own truth tables, line by line."""
    names = metadata["variables"]
    premises = [Expression.from_string(premise) for premise in metadata["premises"]]
    return any(
        all(premise.evaluate(dict(zip(names, values, strict=True))) for premise in premises)
        for values in itertools.product((False, True), repeat=len(names))
    )


@pytest.mark.parametrize(("size", "moves", "flawed"), [(3, "", True), (3, "R U", False), (2, "", False)])
def test_solved_cube_is_flawed(size: int, moves: str, flawed: bool) -> None:
    entry = {"answer": None, "metadata": {"cube_size": size, "example_correct_answer": moves}}
    assert (find_flaw("rubiks_cube", entry) is not None) is flawed


def test_other_tasks_have_no_flawed_entries() -> None:
    tasks = sorted(KNOWN_TASKS - SLOW - TASKS_WITH_FLAWS)
    assert [task for task in tasks for entry in _entries(task, 3) if find_flaw(task, entry) is not None] == []
