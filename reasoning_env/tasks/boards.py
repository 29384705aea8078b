"""Grids and matrices: patterns, mazes, islands, rotations and reflections."""

from __future__ import annotations

import re

from ..answers import boards, corrections, guards, numbers, values
from ..answers.rules import AnswerRules, Dataset, Entry
from ..answers.shortcuts import last_grid
from .declaration import (
    A_BOARD,
    A_NUMBER,
    A_TEXT,
    Clarification,
    FieldLevels,
    Replacement,
    Task,
    added,
    copied,
    easy,
    frequent,
    wrong,
)

ARC_1D = Task(
    "arc_1d",
    "arc",
    question_counts=(None, None, None),
    levels=(
        FieldLevels(
            ("min_size", "max_size"),
            (10, 20, 30, 40),
            "for rows of more than 40 cells, the generator can run out of colours, and then searches without end",
        ),
    ),
    answer=A_BOARD,
)

ARC_AGI = Task(
    "arc_agi",
    "arc",
    question_counts=(None, None),
    constructor_params=("use_train", "use_eval", "board_format_opts"),
    answer=A_BOARD,
)

BINARY_MATRIX = Task(
    "binary_matrix",
    "algorithmic",
    has_small_pool=True,
    question_counts=(None, 210, None, None, None, None),
    levels=(FieldLevels(("p_zero",), (0.25, 0.2, 0.1, 0.05), "with many zeros, most distances are 0 or 1"),),
    answer=AnswerRules(boards.board, guard=guards.score_equal, library_score=guards.score_without_running),
)

HALF_TURN = "A turn from bottom to top is a half turn that leaves the left and right sides where they are."


def _clarify_half_turn(entry: Entry, dataset: Dataset) -> str:
    question = str(entry["question"])
    if "bottom" not in entry["metadata"]["rotations"]:
        return question
    return question.replace("\nProvide only", f"\n{HALF_TURN}\nProvide only", 1)


COLOR_CUBE_ROTATION = Task(
    "color_cube_rotation",
    "cognition",
    clarification=Clarification(
        "the question does not say about which axis to turn the cube by 180 degrees", HALF_TURN, _clarify_half_turn
    ),
    answer=A_TEXT,
)

GAME_OF_LIFE = Task(
    "game_of_life",
    "algorithmic",
    levels=(
        FieldLevels(("grid_size_x",), (10, 15, 20, 25), "a well-filled 40 x 40 board takes 0.5 s to generate"),
        FieldLevels(("grid_size_y",), (10, 15, 20, 25), "a well-filled 40 x 40 board takes 0.5 s to generate"),
        FieldLevels(("filled_cells",), (20, 50, 100, 150), "on boards over 10 x 10, ten live cells soon die out"),
        FieldLevels(("simulation_steps",), (1, 1, 2, 2), "after more than two steps, few live cells are left"),
    ),
    faster=Replacement("algorithmic.game_of_life", "0cd5e37e542f2e95", "small.install_game_of_life"),
    verifier_flaw="an empty board earns a high score, because most cells of right answers are empty",
    answer=AnswerRules(values.value),
)

GAME_OF_LIFE_HALTING = Task(
    "game_of_life_halting",
    "algorithmic",
    has_small_pool=True,
    question_counts=(6000, 650, 9100),
    levels=(
        FieldLevels(("grid_size_x",), (10, 20, 25, 31), "questions omit the middle of a board of over 1,000 cells"),
        FieldLevels(("grid_size_y",), (10, 20, 25, 31), "questions omit the middle of a board of over 1,000 cells"),
    ),
    options=2,
    answer_leak="two live cells side by side occur only on boards that do not halt",
    verifier_flaw="the library's verifier converts every text to True, even the answer False",
    answer=A_TEXT,
)


def _answer_is_land_count(entry: Entry) -> bool:
    land = " ".join(last_grid(str(entry["question"]))).split().count("1")
    return str(entry["answer"]) == str(land)


LARGEST_ISLAND = Task(
    "largest_island",
    "graphs",
    has_small_pool=True,
    levels=(
        FieldLevels(
            ("min_island_size", "max_island_size"),
            ((1, 8), (1, 12), (1, 20), (1, 30)),
            "the library's lowest level has islands of only one size, so one answer is too frequent",
        ),
        FieldLevels(
            ("min_num_islands", "max_num_islands"),
            ((3, 5), (3, 6), (5, 10), (10, 20)),
            "with two islands, the smaller island is often a single cell",
        ),
    ),
    rejected=(easy("counting all land cells gives the right answer", _answer_is_land_count, served=0.3),),
    answer=A_NUMBER,
)

MIRRORS = {"Horizontally": "so that the last row comes first", "Vertically": "so that the last column comes first"}


def _name_directions(entry: Entry, dataset: Dataset) -> str:
    question = re.sub(r"(?m)^- Rotate the matrix \d+ degrees$", r"\g<0> clockwise", str(entry["question"]))
    for named, meant in MIRRORS.items():
        question = re.sub(rf"(?m)^- {named} mirror the matrix$", rf"\g<0>, {meant}", question)
    return question


MANIPULATE_MATRIX = Task(
    "manipulate_matrix",
    "algorithmic",
    clarification=Clarification(
        "the question does not say what a horizontal or vertical mirror does, or in which direction to rotate",
        f"{MIRRORS['Horizontally']} / {MIRRORS['Vertically']} / clockwise",
        _name_directions,
    ),
    answer=A_BOARD,
)

MAZE = Task(
    "maze",
    "games",
    clarification=added(
        "the question does not say whether steps may be diagonal",
        "Each step goes up, down, left or right.",
        after="number of steps to reach the goal?",
    ),
    answer=A_NUMBER,
)

MODULO_GRID = Task(
    "modulo_grid",
    "cognition",
    has_small_pool=True,
    levels=(
        FieldLevels(("max_target",), (1, 2, 3, 7, 9, 21), "the library's config rejects the target 0"),
        FieldLevels(
            ("max_divisor",),
            (10, 10, 12, 15, 17, 49),
            "with divisors below 10, a cell to fill in often equals the cell next to it",
        ),
    ),
    options=2,
    answer_leak="three in four grids are symmetric, so a cell to fill in equals its mirror image",
    answer=A_BOARD,
)

POOL_MATRIX = Task(
    "pool_matrix",
    "algorithmic",
    levels=(
        FieldLevels(
            ("min_pool_size", "max_pool_size"), (2, 3, 5, 7, 9), "with a pool size of 1, the answer is the given matrix"
        ),
        FieldLevels(("min_rows", "max_rows"), (4, 10, 25, 50, 100), "a 2 by 2 matrix is pooled to one number"),
        FieldLevels(("min_cols", "max_cols"), (4, 10, 25, 50, 100), "a 2 by 2 matrix is pooled to one number"),
    ),
    rejected=(copied(served=0.7),),
    clarification=added(
        "the question does not say whether incomplete regions at the edges count",
        "Regions at the right and bottom edges may be smaller, and are pooled like the others.",
        after="overlap between the pooling regions.",
    ),
    answer=AnswerRules(boards.pooled, max_partial=0.1),
)


def _has_unknowable_colour(entry: Entry) -> bool:
    """Return True if the answer has a colour that a solver cannot infer from the question.

    Colours in the examples' outputs can be inferred. If at least one output shares a colour with its input, colours
    in the test grid can be inferred too.
    """
    grids = re.findall(r"(?:^[\d ]+$\n?)+", str(entry["question"]), re.MULTILINE)
    *examples, test = [set(re.findall(r"\d", grid)) for grid in grids]
    inputs, outputs = examples[::2], examples[1::2]
    keeps_colours = any(before & after for before, after in zip(inputs, outputs, strict=True))
    known = set[str]().union(*outputs, test if keeps_colours else ())
    return not set(re.findall(r"\d", str(entry["answer"]))) <= known


REARC = Task(
    "rearc",
    "arc",
    question_counts=(None, None, None),
    rejected=(
        wrong("the answer has a colour that the question does not explain", _has_unknowable_colour),
        copied(served=0.25),  # at level 0, a grid of the last example is the answer to 62 % of the puzzles
    ),
    answer=A_BOARD,
)

RECTANGLE_COUNT = Task(
    "rectangle_count",
    "cognition",
    has_small_pool=True,
    levels=(FieldLevels(("max_rectangles",), (10, 15, 20, 25), "with up to 5 rectangles, too many answers are 2"),),
    clarification=added(
        "the question does not say which number of rectangles is right, if several numbers explain the marks",
        "If the same marks could be drawn with different numbers of rectangles, give the fewest.",
        after="total count of rectangles.",
    ),
    answer=AnswerRules(numbers.number, correction=corrections.correct_rectangle_count),
)

ROTATE_MATRIX = Task(
    "rotate_matrix",
    "algorithmic",
    has_small_pool=True,
    levels=(
        FieldLevels(
            ("min_rotations", "max_rotations"),
            ((1, 3), (1, 7), (5, 11), (5, 15), (9, 19)),
            "at the library's levels, rotations by 90, 180 and 270 degrees are not equally frequent",
        ),
    ),
    answer=A_BOARD,
)

SPREAD_FAST = "with the default shares of oranges, large grids rot as fast as small grids"

ROTTEN_ORANGES = Task(
    "rotten_oranges",
    "algorithmic",
    levels=(
        FieldLevels(
            ("min_n", "max_n"), (6, 10, 15, 20, 25), "on larger grids, at least one orange nearly always stays fresh"
        ),
        FieldLevels(("p_oranges",), (0.85, 0.85, 0.87, 0.9, 0.92), SPREAD_FAST),
        FieldLevels(("p_rotten",), (0.1, 0.08, 0.05, 0.03, 0.015), SPREAD_FAST),
    ),
    rejected=(frequent("-1", served=0.8),),
    answer=A_NUMBER,
)

SPIRAL_MATRIX = Task(
    "spiral_matrix",
    "algorithmic",
    has_small_pool=True,
    levels=(
        FieldLevels(
            ("min_n", "max_n"),
            ((3, 6), (10, 25), (25, 50), (50, 100)),
            "in a 2 by 2 matrix, only the last two numbers swap places",
        ),
    ),
    answer=AnswerRules(boards.board, guard=guards.score_equal, library_score=guards.score_without_running),
)
