"""Graphs: course schedules, colourings and paths."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..answers import types, values
from ..answers.rules import AnswerRules, Entry
from .declaration import A_TEXT, BOTH_OPTIONS, FieldLevels, Task, added, easy, frequent

FEW_PREREQUISITES = (
    "with one or two prerequisites per course, a cycle adds so many prerequisites that their number reveals the answer"
)
FEW_COURSES = "with five to ten courses and a cycle, often every course has a prerequisite; this reveals the answer"

COURSE_SCHEDULE = Task(
    "course_schedule",
    "graphs",
    has_small_pool=True,
    levels=(
        FieldLevels(("min_num_prerequisites", "max_num_prerequisites"), ((1, 5),), FEW_PREREQUISITES),
        FieldLevels(
            ("min_num_courses", "max_num_courses"), ((10, 15), (10, 21), (18, 38), (31, 63), (50, 100)), FEW_COURSES
        ),
    ),
    # With the library's defaults (5 to 10 courses, 1 or 2 prerequisites, cycles of up to 5 courses), a decision tree
    # that counts words and numbers in the question has a mean score of 0.89.
    served_params={"min_num_courses": 10, "max_num_courses": 15, "max_num_prerequisites": 5, "max_cycle_length": 3},
    options=2,
    verifier_flaw=BOTH_OPTIONS,
    answer=A_TEXT,
)


def _simple_colouring_is_right(entry: Entry) -> bool:
    """Return True if one of the results of `colourings` is a right answer."""
    puzzle = entry["metadata"]["puzzle"]
    blind = colourings(len(puzzle["vertices"]), len(puzzle["color_options"]))
    return any(all(colour(start) != colour(end) for start, end in puzzle["edges"]) for colour in blind)


def colourings(vertices: int, colours: int) -> list[Callable[[int], int]]:
    """Return two colourings that ignore the edges, as functions from vertex numbers to colour numbers.

    One repeats the colours in turn, the other gives each colour a block of vertices.
    """
    return [lambda vertex: vertex % colours, lambda vertex: vertex * colours // vertices]


GRAPH_COLOR = Task(
    "graph_color",
    "algorithmic",
    has_small_pool=True,
    question_counts=(None, None, None),
    levels=(
        FieldLevels(("num_colors",), (3,), "with more than three colours, most colourings are right"),
        FieldLevels(
            ("min_num_vertices", "max_num_vertices"),
            ((8, 10), (10, 15), (15, 20), (20, 25)),
            "a graph of six vertices has so few edges that most colourings are right",
        ),
    ),
    rejected=(
        easy("a simple colouring is right, although it ignores the edges", _simple_colouring_is_right, served=0.6),
    ),
    answer=AnswerRules(values.vertices, several_right_answers=True),
)

PATH_STAR = Task("path_star", "graphs", answer=AnswerRules(types.sequence(r"\d{1,9}")))


def _solved_by_one_button(entry: Entry) -> bool:
    metadata = entry["metadata"]
    plans = single_button_plans(metadata["buttons"], metadata["target_value"])
    presses = [len(plan.split()) for plan in plans]
    return len(metadata["solution_path"]) in presses


def single_button_plans(buttons: Sequence[Mapping[str, Any]], target: int) -> list[str]:
    """Return the answers that reach the target value of a lock by pressing one button repeatedly."""
    # Try only the buttons that add the same number at every colour of the light.
    adding = [button for button in buttons if (button["type"], button["active_state"]) == ("add", "any")]
    fitting = [button for button in adding if target % button["value"] == 0]
    return [" ".join(button["name"] * (target // button["value"])) for button in fitting]


BETWEEN_PRESSES = " \u2192 "


def _spell_presses(presses: str) -> str:
    """Return button presses joined by arrows: `AB` becomes `A → B`."""
    return BETWEEN_PRESSES.join(presses.upper())


QUANTUM_LOCK = Task(
    "quantum_lock",
    "graphs",
    has_small_pool=True,
    question_counts=(None, 720, 3300, None, None, None),
    levels=(FieldLevels(("difficulty",), (1, 4, 10, 20, 40), "difficulties 5 to 10 need equally many button presses"),),
    rejected=(easy("pressing one button repeatedly is a shortest solution", _solved_by_one_button),),
    clarification=added(
        "the question does not say whether a button marked `when red` can be pressed in green light",
        "A button that names a color can be pressed only while the light has that color.",
        after="depend on the state of the light.",
    ),
    answer=AnswerRules(
        types.sequence("[A-Ca-c]+", write=BETWEEN_PRESSES, spell=_spell_presses),
        several_right_answers=True,
        guesses=lambda metadata: single_button_plans(metadata["buttons"], metadata["target_value"]),
    ),
)

SHORTEST_PATH = Task(
    "shortest_path",
    "graphs",
    levels=(FieldLevels(("p_blocked",), (0.35, 0.25), "with 40 % blocked cells, most large grids have no path"),),
    rejected=(frequent("infeasible", served=0.8),),
    answer=AnswerRules(
        types.either("infeasible", types.sequence("(?i:up|down|left|right)", spell=str.lower)),
        several_right_answers=True,
    ),
)
