"""Find problems that must not be served, because an honest answer cannot be told from one that takes no reasoning."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..library_facts import facts
from .grammars.logic import are_contradictory, concludes, share_of_guesses
from .guards import Entry
from .lazy import NUMBER, colourings, copies, filled_boards, has_one_blank, last_grid, same_content
from .looks import is_looked_up

MANY_CELLS = 16
MAX_GUESSES = 0.2
"""The largest share of simple formulas that premises may conclude."""
MARKS_OF_A_RECTANGLE = 80
"""Of default problems a third have as many rectangles as this says."""


def find_flaw(task: str, entry: Entry) -> str | None:
    """Say why an entry must not be served; None if it may."""
    if task == "intermediate_integration" and "Integral(" in str(entry["answer"]):
        return "the library could not solve its own integral"
    if task == "propositional_logic":
        metadata = entry["metadata"]
        if are_contradictory(metadata["premises"]):
            return "its premises contradict each other, so that every statement follows"
        if not concludes(metadata["example_answer"], metadata["premises"]):
            return "its example follows from a single premise"
        if share_of_guesses(metadata["premises"], metadata["variables"]) > MAX_GUESSES:
            return "it concludes too much, so that most guesses are right"
    if task == "acre" and is_looked_up(str(entry["question"])):
        return "its test is one of its experiments"
    if (
        task == "rubiks_cube"
        and entry["metadata"]["cube_size"] == 3
        and not entry["metadata"]["example_correct_answer"]
    ):
        return "its cube is solved already"
    if task == "graph_color" and (name := _simple_colouring(entry["metadata"]["puzzle"])):
        return f"colours {name} are right"
    if entry.get("answer") is None:
        return None
    question, answer = str(entry["question"]), str(entry["answer"])
    if not answer.strip():
        return "its right answer is empty"
    if task == "number_sequence" and answer in NUMBER.findall(question):
        return "its answer is one of its numbers"
    if task == "largest_island" and answer == str(" ".join(last_grid(question)).split().count("1")):
        return "the count of land gives the answer"
    if task == "rectangle_count" and answer == str(round(question.count("#") / MARKS_OF_A_RECTANGLE)):
        return "the count of its marks gives the answer"
    return _find_copy(task, answer, question)


def _simple_colouring(puzzle: Mapping[str, Any]) -> str | None:
    """A way to colour a graph without regard to most of its edges, if one is right."""
    edges = puzzle["edges"]
    ways = colourings(edges, len(puzzle["vertices"]), len(puzzle["color_options"]))
    return next((name for name, way in ways.items() if all(way(one) != way(other) for one, other in edges)), None)


def _find_copy(task: str, answer: str, question: str) -> str | None:
    """Say which part of the question, or of its board filled without thought, is the right answer.

    Where there are options, one of them is right, and may well be copied.
    """
    found = {} if facts(task).options else copies(question)
    if not has_one_blank(question):
        found |= filled_boards(question)
    for name, text in found.items():
        if same_content(text, answer):
            return f"{name} is the right answer"
    cells = re.findall(r"\w+", answer)
    return "all cells of its answer are alike" if len(cells) >= MANY_CELLS and len(set(cells)) == 1 else None
