"""What difficulty turns where the library's own curriculum cannot be used as it is.

Each entry was found with `python -m benchmarks.difficulty` and reasoning-gym 0.1.25: at the levels that it replaces,
items cannot be built, take seconds to minutes, or come with a wrong answer. What is not named keeps its curriculum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Correction:
    """Levels of a field or of a range (its lower and upper field), easiest first, and why they replace the library's.

    A level of a range may be a pair of bounds instead of one number.
    """

    fields: tuple[str, ...]
    levels: Sequence[Any]
    reason: str


TOO_LONG = "questions grow beyond 20,000 characters"

CORRECTIONS: Mapping[str, tuple[Correction, ...]] = {
    "caesar_cipher": (
        Correction(("min_rotation", "max_rotation"), (5, 15, 25), "the config refuses rotations over 25"),
    ),
    "circuit_logic": (
        Correction(("min_terms", "max_terms"), (3, 5, 8, 10, 12), TOO_LONG),
        Correction(("min_inputs", "max_inputs"), (2, 3, 4, 5, 6), TOO_LONG),
    ),
    "countdown": (
        Correction(("min_numbers", "max_numbers"), (3, 4, 6, 8, 10), "an item of 15 numbers takes seconds"),
        Correction(
            ("min_target", "max_target"),
            ((10, 300), (100, 1000), (100, 2500), (1000, 5000)),
            "few expressions hit a narrow range",
        ),
        Correction(("min_value", "max_value"), ((1, 100),), "without small numbers most items cannot be generated"),
    ),
    "futoshiki": (Correction(("min_board_size", "max_board_size"), (4, 5, 6, 7, 8), "a board of 9 takes up to 3 s"),),
    "game_of_life": (
        Correction(("grid_size_x",), (10, 20, 30, 40), f"{TOO_LONG}, and 100 x 100 takes 0.5 s"),
        Correction(("grid_size_y",), (10, 20, 30, 40), f"{TOO_LONG}, and 100 x 100 takes 0.5 s"),
    ),
    "jugs": (
        Correction(("num_jugs",), (3,), "the library's solutions use the first three jugs only, and 6 take over 10 s"),
    ),
    "knight_swap": (
        Correction(("min_nodes", "max_nodes"), (10, 11, 12), "the config refuses 4, and 6 to 9 take up to 4 s"),
        Correction(("min_pieces", "max_pieces"), ((1, 1), (2, 2), (2, 2), (3, 3)), "4 pieces take up to 9 s"),
        Correction(("min_steps", "max_steps"), ((1, 8), (6, 14), (12, 24)), "what so many pieces need"),
        Correction(("impossible_ratio",), (0.2, 0.0, 0.0), "hardly any of the larger boards is impossible"),
    ),
    "letter_jumble": (
        Correction(
            ("min_word_len", "max_word_len"), ((1, 5), (3, 8), (5, 12), (7, 64)), "the text has too few longer words"
        ),
    ),
    "mahjong_puzzle": (Correction(("min_num_rounds", "max_num_rounds"), (10, 50, 100, 400), TOO_LONG),),
    "modulo_grid": (Correction(("max_target",), (1, 2, 3, 7, 9, 21), "the config refuses 0"),),
    "n_queens": (
        Correction(("n",), (4, 6, 8, 9, 10), "all solutions for 12 take 2 s to find, anew for each set of parameters"),
        Correction(("min_remove", "max_remove"), (2, 4, 6, 7, 8), "no more than the queens on the board"),
    ),
    "needle_haystack": (Correction(("min_num_statements", "max_num_statements"), (10, 100, 300, 600), TOO_LONG),),
    "number_sequence": (
        Correction(("min_terms", "max_terms"), (4, 5, 6, 7, 8), "repeated squares in more terms take for ever"),
        Correction(("max_complexity",), (1, 2, 3), "repeated squares in more operations take for ever"),
    ),
    "puzzle24": (
        Correction(("min_value", "max_value"), ((1, 5), (1, 10), (4, 10)), "nothing makes 24 of large numbers alone"),
    ),
    "rubiks_cube": (Correction(("cube_size",), (3, 4, 5, 6), "the config refuses 7"),),
    "sokoban": (
        Correction(("min_w", "max_w"), ((6, 7), (8, 9), (10, 11), (11, 13)), "boards of one size hold too many boxes"),
        Correction(("min_h", "max_h"), ((6, 7), (8, 9), (10, 11), (11, 13)), "larger ones take up to 17 s"),
    ),
    "sudoku": (Correction(("min_empty", "max_empty"), (20, 30, 40, 50, 55), "60 empty cells take up to 1 s"),),
    "survo": (
        Correction(("min_empty", "max_empty"), (3, 4, 6, 8), "over half of the boards with 11 have several solutions"),
    ),
    "zebra_puzzles": (
        Correction(("num_people",), (2, 3, 4, 5), "6 people take 3 s and 7 over 10 s"),
        Correction(("num_characteristics",), (2, 3, 4, 5), "6 characteristics take 3 s and 7 over 10 s"),
    ),
}
