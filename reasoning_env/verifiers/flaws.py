"""Find problems not to be served: honest answers to them cannot be told from unreasoned ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, groupby
from operator import itemgetter

from ..library_facts import facts
from .entries import Entry
from .grammars.logic import are_contradictory, concludes, share_of_guesses
from .shortcuts import (
    NUMBER,
    copies,
    filled_boards,
    has_one_blank,
    last_grid,
    pressed_alone,
    straight_ways,
    turned_fills,
)
from .surface import is_looked_up

MANY_CELLS = 16
MAX_GUESSES = 0.2
"""The largest share of simple formulas that premises may conclude."""
MARKS_OF_A_RECTANGLE = 80
"""Of default problems a third have as many rectangles as this says."""


def find_flaw(task: str, entry: Entry) -> str | None:
    """Say why an entry must not be served; None if it may."""
    flaw = FLAWS[task](entry) if task in FLAWS else None
    if flaw is not None or entry.get("answer") is None:
        return flaw
    if not str(entry["answer"]).strip():
        return "its right answer is empty"
    return _find_copy(task, str(entry["answer"]), str(entry["question"]))


def _same_numbers(entry: Entry) -> str | None:
    """Find questions that do not ask which of two numbers counts."""
    first, second = NUMBER.findall(str(entry["question"]))[:2]
    return "its first two numbers are the same" if first == second else None


def _unsolved_integral(entry: Entry) -> str | None:
    return "the library could not solve its own integral" if "Integral(" in str(entry["answer"]) else None


def _hollow_premises(entry: Entry) -> str | None:
    """Find premises from which nothing or almost everything is concluded."""
    metadata = entry["metadata"]
    if are_contradictory(metadata["premises"]):
        return "its premises contradict each other, so that every statement follows"
    if not concludes(metadata["example_answer"], metadata["premises"]):
        return "its example follows from a single premise"
    if share_of_guesses(metadata["premises"], metadata["variables"]) > MAX_GUESSES:
        return "it concludes too much, so that most guesses are right"
    return None


def _looked_up_test(entry: Entry) -> str | None:
    return "its test is one of its experiments" if is_looked_up(str(entry["question"])) else None


def _solved_by_zero(entry: Entry) -> str | None:
    return "its only solution is 0" if entry["metadata"]["real_solutions"] == [0] else None


def _solved_cube(entry: Entry) -> str | None:
    metadata = entry["metadata"]
    solved = metadata["cube_size"] == 3 and not metadata["example_correct_answer"]
    return "its cube is solved already" if solved else None


def _simple_colouring(entry: Entry) -> str | None:
    """Find graphs that are coloured without regard to most of their edges."""
    puzzle = entry["metadata"]["puzzle"]
    edges = puzzle["edges"]
    for name, way in colourings(edges, len(puzzle["vertices"]), len(puzzle["color_options"])).items():
        if all(way(one) != way(other) for one, other in edges):
            return f"colours {name} are right"
    return None


def colourings(edges: Sequence[Sequence[int]], vertices: int, colours: int) -> dict[str, Callable[[int], int]]:
    """Return functions from a vertex to a colour by its number, or by whether edges begin or end there."""
    starts, ends = ({edge[side] for edge in edges} for side in (0, 1))
    others = max(1, colours - 1)
    return {
        "in turn": lambda vertex: vertex % colours,
        "by blocks": lambda vertex: vertex * colours // vertices,
        "by starts": lambda vertex: (vertex in starts) * (1 + vertex % others),
        "by ends": lambda vertex: (vertex in ends) * (1 + vertex % others),
        "by starts and ends": lambda vertex: (vertex in starts) + (vertex in starts and vertex not in ends),
    }


def _simple_grouping(entry: Entry) -> str | None:
    """Find words that are grouped without regard to most of their letters: anagrams stand together."""
    groups = entry["metadata"]["solution"]
    right = {frozenset(group) for group in groups}
    for name, found in groupings(entry["metadata"]["words"], [*map(len, groups)]).items():
        if {frozenset(group) for group in found} == right:
            return f"its words {name} are right"
    return None


def groupings(words: Sequence[str], sizes: Sequence[int]) -> dict[str, list[list[str]]]:
    """Group words as they come: by so many, by given sizes, or by neighbours' length or first letter."""
    by_key = {"by length": groupby(words, len), "by first letter": groupby(words, itemgetter(0))}
    found = {name: [[*group] for _, group in groups] for name, groups in by_key.items()}
    found["by sizes"] = [[*words[end - size : end]] for size, end in zip(sizes, accumulate(sizes), strict=True)]
    for size in (2, 3, 4, 5):
        found[f"by {size}"] = [[*words[start : start + size]] for start in range(0, len(words), size)]
    return found


def _straight_way(entry: Entry) -> str | None:
    grid = entry["metadata"]["matrix"]
    is_open = any(all(grid[row][column] != "X" for row, column in way) for way in straight_ways(grid, "*", "#"))
    return "a straight way is open" if is_open else None


def _other_captures(entry: Entry) -> str | None:
    """Find boards with other moves that capture than the only one that is taken for right."""
    board, answer = entry["metadata"]["board"], str(entry["answer"])
    right = (len(board) - int(answer[1:]), ord(answer[0]) - ord("A"))
    return None if _last_liberties(board) == {right} else "another move captures stones, or its own does not"


def _last_liberties(board: Sequence[Sequence[str]]) -> set[tuple[int, int]]:
    """The points that alone keep connected white stones alive."""
    marks = {(row, column): mark for row, line in enumerate(board) for column, mark in enumerate(line)}
    found, grouped = set(), set()
    for start in (point for point, mark in marks.items() if mark == "O"):
        group, liberties = [] if start in grouped else [start], set()
        for row, column in group:  # it grows meanwhile
            near = [(row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)]
            liberties |= {point for point in near if marks.get(point) == "."}
            group += [point for point in near if marks.get(point) == "O" and point not in group]
        grouped |= {*group}
        if len(liberties) == 1:
            found |= liberties
    return found


def _one_button(entry: Entry) -> str | None:
    metadata = entry["metadata"]
    presses = [len(way.split()) for way in pressed_alone(metadata["buttons"], metadata["target_value"])]
    return "one button alone is the best way" if len(metadata["solution_path"]) in presses else None


def _number_again(entry: Entry) -> str | None:
    known = NUMBER.findall(str(entry["question"]))
    return "its answer is one of its numbers" if str(entry["answer"]) in known else None


def _counted_land(entry: Entry) -> str | None:
    land = " ".join(last_grid(str(entry["question"]))).split().count("1")
    return "the count of land gives the answer" if str(entry["answer"]) == str(land) else None


def _counted_marks(entry: Entry) -> str | None:
    guess = round(str(entry["question"]).count("#") / MARKS_OF_A_RECTANGLE)
    return "the count of its marks gives the answer" if str(entry["answer"]) == str(guess) else None


FLAWS: Mapping[str, Callable[[Entry], str | None]] = {
    "acre": _looked_up_test,
    "aiw": _same_numbers,
    "graph_color": _simple_colouring,
    "group_anagrams": _simple_grouping,
    "intermediate_integration": _unsolved_integral,
    "largest_island": _counted_land,
    "number_sequence": _number_again,
    "polynomial_equations": _solved_by_zero,
    "propositional_logic": _hollow_premises,
    "quantum_lock": _one_button,
    "rectangle_count": _counted_marks,
    "rubiks_cube": _solved_cube,
    "shortest_path": _straight_way,
    "tsumego": _other_captures,
}


def _find_copy(task: str, answer: str, question: str) -> str | None:
    """Say which part of the question, or of its board filled without thought, is the right answer.

    Where there are options, one of them is right, and may well be copied.
    """
    sources = [] if facts(task).options else [copies]
    if not has_one_blank(question):
        sources += [filled_boards, turned_fills]
    for source in sources:  # each takes its time, and most boards that are flawed are so by the first fills
        for name, text in source(question).items():
            if same_content(text, answer):
                return f"{name} is the right answer"
    cells = re.findall(r"\w+", answer)
    return "all cells of its answer are alike" if len(cells) >= MANY_CELLS and len(set(cells)) == 1 else None


def same_content(one: str, other: str) -> bool:
    """Tell whether two texts hold the same cells, with any separators and in any number format."""
    return _cells(one) == _cells(other)


def _cells(text: str) -> list[object]:
    return [float(cell) if NUMBER.fullmatch(cell) else cell for cell in re.split(r"[\s,;|\[\](){}'\"]+", text) if cell]
