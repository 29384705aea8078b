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
from reasoning_env.verifiers.grammars.logic import concludes

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


def test_premises_from_which_nothing_or_almost_everything_is_concluded_are_flawed() -> None:
    flaws: dict[bool, list[bool]] = {True: [], False: []}
    for entry in _entries("propositional_logic", 600):
        metadata = entry["metadata"]
        flawed = find_flaw("propositional_logic", entry) is not None
        flaws[flawed].append(_can_be_true(metadata) and concludes(metadata["example_answer"], metadata["premises"]))
    assert all(flaws[False]) and len(flaws[False]) >= 10
    assert sum(flaws[True]) <= 60  # those that conclude too much


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


@pytest.mark.parametrize(("test", "flawed"), [("red cube", True), ("blue cube", False)])
def test_experiment_that_is_the_test_itself_is_flawed(test: str, flawed: bool) -> None:
    question = f"Results:\nred cube \u2192 on\nred cube, blue cube \u2192 on\n\nNew test case:\n{test}\n"
    assert (find_flaw("acre", {"question": question, "answer": "on"}) is not None) is flawed


@pytest.mark.parametrize(
    ("edges", "flawed"),
    [([[0, 1], [1, 2]], True), ([[0, 1], [3, 4]], True), ([[0, 3], [1, 2], [2, 4], [4, 5]], False)],
)
def test_graph_that_is_coloured_without_thought_is_flawed(edges: list[list[int]], flawed: bool) -> None:
    puzzle = {"vertices": [*range(6)], "edges": edges, "color_options": [1, 2, 3]}
    entry = {"question": "Colour it.", "answer": None, "metadata": {"puzzle": puzzle}}
    assert (find_flaw("graph_color", entry) is not None) is flawed


@pytest.mark.parametrize(("answer", "flawed"), [("2", True), ("3", False)])
@pytest.mark.parametrize(("task", "grid"), [("rectangle_count", "#" * 150), ("largest_island", "0 1 0\n1 0 0")])
def test_problem_whose_marks_need_only_be_counted_is_flawed(task: str, grid: str, answer: str, flawed: bool) -> None:
    entry = {"question": f"How many of the 1's or rectangles?\n{grid}\nCount them.", "answer": answer}
    assert (find_flaw(task, entry) is not None) is flawed


@pytest.mark.parametrize(("answer", "flawed"), [("-4", True), ("4", False), ("8", False)])
def test_sequence_that_repeats_a_number_is_flawed(answer: str, flawed: bool) -> None:
    entry = {"question": "2, -4, 2, -4, 2, ?", "answer": answer, "metadata": {}}
    assert (find_flaw("number_sequence", entry) is not None) is flawed


@pytest.mark.parametrize(("numbers", "flawed"), [((3, 3), True), ((3, 4), False), ((3, 4, 3, 4), False)])
def test_two_numbers_of_which_either_may_count_are_flawed(numbers: tuple[int, ...], flawed: bool) -> None:
    question = " and ".join(f"she has {number} friends" for number in numbers)
    assert (find_flaw("aiw", {"question": question, "answer": "4"}) is not None) is flawed


@pytest.mark.parametrize(
    ("groups", "flawed"),
    [
        (["eat tea", "tan nat"], True),  # two by two
        (["act cat", "arcs cars scar"], True),  # by length
        (["odd odd", "act cat tac", "bat tab"], False),
    ],
)
def test_words_that_are_grouped_by_where_they_stand_are_flawed(groups: list[str], flawed: bool) -> None:
    solution = sorted(group.split() for group in groups)
    metadata = {"words": " ".join(groups).split(), "solution": solution}
    entry = {"question": "Group them.", "answer": str(solution), "metadata": metadata}
    assert (find_flaw("group_anagrams", entry) is not None) is flawed


@pytest.mark.parametrize(
    ("rows", "flawed"),
    [
        (["* O O", "X X #"], True),
        (["# X O", "O X *"], False),
        (["* O X", "X O O", "X X #"], True),  # a turn in every step
        (["O O # O O", "O X X X O", "O O * O O"], False),
    ],
)
def test_grid_with_a_straight_way_is_flawed(rows: list[str], flawed: bool) -> None:
    entry = {"question": "Go.", "answer": "up", "metadata": {"matrix": [row.split() for row in rows]}}
    assert (find_flaw("shortest_path", entry) is not None) is flawed


@pytest.mark.parametrize(
    ("rows", "flawed"),
    [
        ([". O X", ". X .", ". . ."], False),
        ([". O X", ". X .", ". X O"], True),  # C2 captures as well
        ([". O X", ". O .", ". X ."], True),  # A3 leaves liberties
    ],
)
def test_board_with_another_capture_or_none_is_flawed(rows: list[str], flawed: bool) -> None:
    entry = {"question": "Play.", "answer": "A3", "metadata": {"board": [row.split() for row in rows]}}
    assert (find_flaw("tsumego", entry) is not None) is flawed


COPIED = "Solve:\n1 _ 3\n2 3 1\n3 1 _\nWhat is it?"


@pytest.mark.parametrize(
    ("question", "answer", "flawed"),
    [
        ("Sort the letters of: abc", "abc", True),
        ("Sort the letters of: bac", "abc", False),
        ("Pool with a kernel of 1:\n7 4\n7 5\n", "7.0 4.0\n7.0 5.0", True),
        ("Keep all of: ['1', '2']. In this format.", "['1', '2']", True),
        ("Keep some of: ['1', '2']. In this format.", "['1']", False),
        (COPIED, "1 2 3\n2 3 1\n3 1 2", True),
        (COPIED, "1 2 3\n2 3 1\n3 1 3", False),
        ("What becomes of it?", "\n".join(["0 0 0 0"] * 4), True),
        ("What is left of: abc", "", True),
    ],
)
def test_problem_whose_answer_is_copied_or_filled_in_without_thought_is_flawed(
    question: str, answer: str, flawed: bool
) -> None:
    entry = {"question": question, "answer": answer, "metadata": {}}
    assert (find_flaw("a task without facts", entry) is not None) is flawed


def test_few_problems_of_other_tasks_are_flawed() -> None:
    tasks = sorted(KNOWN_TASKS - SLOW - TASKS_WITH_FLAWS)
    flawed = {task: sum(find_flaw(task, entry) is not None for entry in _entries(task, 3)) for task in tasks}
    often = {"graph_color", "group_anagrams", "mini_sudoku", "shortest_path", "string_insertion"}
    assert {task for task, count in flawed.items() if count == 3} <= often
    assert sum(map(bool, flawed.values())) < 18
