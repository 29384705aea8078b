"""The forms in which answers to each task of reasoning-gym are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class AnswerForm(StrEnum):
    """Other forms in which an answer is accepted, because it says the same."""

    VALUE = "value"
    """A number, fraction, list, sequence or board in another notation, whichever the expected answer is."""
    OPTION = "option"
    """A word to choose from or a text, in any case; or a value."""
    EXPRESSION = "expression"
    """An expression with other signs of mathematics."""
    FACTORS = "factors"
    """Factors with another sign of multiplication between them."""
    DURATION = "duration"
    """A duration in any case, and without a comma after the days."""
    DIGITS = "digits"
    """Digits in a base, with the base named or not."""
    COMPLEX = "complex"
    """A complex number with a sign of multiplication before `i`."""
    SOLUTIONS = "solutions"
    """Numbers in brackets or not, with the name of the variable before them or not."""
    LETTER_VALUES = "letter values"
    """Letters with their digits, with another sign between the two, or as a dictionary."""
    CLAIMS = "claims"
    """Claims on lines, or with semicolons or full stops between them."""
    EXACT = "exact"
    """No other form: the question asks for the exact output of a program."""


@dataclass(frozen=True)
class TaskFacts:
    """How the answers to one task are read."""

    reads_as: AnswerForm = AnswerForm.VALUE
    """Other forms in which its answers are accepted."""
    is_json: bool = False
    """Whether an answer is a value of JSON, whose quotes and brackets are content: `17` is not `"17"` or `[17]`."""
    case_counts: bool = False
    """Whether a question asks for words as they are written: elsewhere `twenty` is taken for `Twenty`."""
    single_cell: bool = False
    """Whether the expected matrix may have a single cell, which then may be written as `[[5]]`."""
    may_be_rounded: bool = False
    """Whether a right answer may be rounded: then a sign such as `\u2248` before the number denies nothing."""
    words_are_units: bool = True
    """Whether the question's words may be units of a number, as in `188 legs`; the words of a program are none."""
    word_separator: str = ""
    """Text between the elements of its expected answer; "" where the answer is no sequence of words or moves."""
    ends_in_full_stop: bool = False
    """Right answers may end in a full stop of their own."""


FACTS: Mapping[str, TaskFacts] = {
    "ab": TaskFacts(word_separator=" "),
    "acre": TaskFacts(reads_as=AnswerForm.OPTION),
    "advanced_geometry": TaskFacts(may_be_rounded=True),
    "aiw": TaskFacts(),
    "arc_1d": TaskFacts(),
    "arc_agi": TaskFacts(single_cell=True),
    "base_conversion": TaskFacts(reads_as=AnswerForm.DIGITS),
    "basic_arithmetic": TaskFacts(),
    "bf": TaskFacts(reads_as=AnswerForm.EXACT),
    "binary_alternation": TaskFacts(),
    "binary_matrix": TaskFacts(),
    "bitwise_arithmetic": TaskFacts(reads_as=AnswerForm.DIGITS),
    "boxnet": TaskFacts(),
    "caesar_cipher": TaskFacts(reads_as=AnswerForm.OPTION),
    "calendar_arithmetic": TaskFacts(reads_as=AnswerForm.OPTION),
    "chain_sum": TaskFacts(),
    "circuit_logic": TaskFacts(),
    "codeio": TaskFacts(is_json=True, words_are_units=False),
    "coin_flip": TaskFacts(may_be_rounded=True),
    "color_cube_rotation": TaskFacts(reads_as=AnswerForm.OPTION),
    "complex_arithmetic": TaskFacts(reads_as=AnswerForm.COMPLEX),
    "composite": TaskFacts(),
    "count_bits": TaskFacts(),
    "count_primes": TaskFacts(),
    "countdown": TaskFacts(reads_as=AnswerForm.EXPRESSION),
    "course_schedule": TaskFacts(reads_as=AnswerForm.OPTION),
    "cryptarithm": TaskFacts(reads_as=AnswerForm.LETTER_VALUES),
    "decimal_arithmetic": TaskFacts(),
    "decimal_chain_sum": TaskFacts(),
    "dice": TaskFacts(),
    "emoji_mystery": TaskFacts(ends_in_full_stop=True),
    "family_relationships": TaskFacts(reads_as=AnswerForm.OPTION),
    "figlet_font": TaskFacts(),
    "fraction_simplification": TaskFacts(),
    "futoshiki": TaskFacts(),
    "game_of_life": TaskFacts(),
    "game_of_life_halting": TaskFacts(reads_as=AnswerForm.OPTION),
    "gcd": TaskFacts(),
    "graph_color": TaskFacts(),
    "group_anagrams": TaskFacts(),
    "gsm_symbolic": TaskFacts(),
    "intermediate_integration": TaskFacts(reads_as=AnswerForm.EXPRESSION),
    "isomorphic_strings": TaskFacts(reads_as=AnswerForm.OPTION),
    "jugs": TaskFacts(),
    "kakurasu": TaskFacts(),
    "knight_swap": TaskFacts(reads_as=AnswerForm.OPTION),
    "knights_knaves": TaskFacts(reads_as=AnswerForm.CLAIMS, ends_in_full_stop=True),
    "largest_island": TaskFacts(),
    "lcm": TaskFacts(),
    "leg_counting": TaskFacts(),
    "letter_counting": TaskFacts(),
    "letter_jumble": TaskFacts(),
    "list_functions": TaskFacts(),
    "mahjong_puzzle": TaskFacts(reads_as=AnswerForm.OPTION),
    "manipulate_matrix": TaskFacts(single_cell=True),
    "maze": TaskFacts(),
    "mini_sudoku": TaskFacts(),
    "modulo_grid": TaskFacts(),
    "n_queens": TaskFacts(),
    "needle_haystack": TaskFacts(reads_as=AnswerForm.OPTION),
    "number_filtering": TaskFacts(),
    "number_format": TaskFacts(),
    "number_sequence": TaskFacts(),
    "number_sorting": TaskFacts(),
    "palindrome_generation": TaskFacts(),
    "palindrome_partitioning": TaskFacts(),
    "path_star": TaskFacts(word_separator=" "),
    "polynomial_equations": TaskFacts(reads_as=AnswerForm.SOLUTIONS),
    "polynomial_multiplication": TaskFacts(reads_as=AnswerForm.EXPRESSION),
    "pool_matrix": TaskFacts(single_cell=True),
    "power_function": TaskFacts(may_be_rounded=True),
    "prime_factorization": TaskFacts(reads_as=AnswerForm.FACTORS),
    "products": TaskFacts(),
    "propositional_logic": TaskFacts(),
    "puzzle24": TaskFacts(reads_as=AnswerForm.EXPRESSION),
    "quantum_lock": TaskFacts(word_separator=" \u2192 "),
    "ransom_note": TaskFacts(reads_as=AnswerForm.OPTION),
    "rearc": TaskFacts(single_cell=True),
    "rectangle_count": TaskFacts(),
    "rotate_matrix": TaskFacts(),
    "rotten_oranges": TaskFacts(),
    "rubiks_cube": TaskFacts(word_separator=" "),
    "rush_hour": TaskFacts(word_separator=" "),
    "self_reference": TaskFacts(),
    "sentence_reordering": TaskFacts(ends_in_full_stop=True),
    "shortest_path": TaskFacts(reads_as=AnswerForm.OPTION, word_separator=" "),
    "simple_equations": TaskFacts(),
    "simple_geometry": TaskFacts(),
    "simple_integration": TaskFacts(reads_as=AnswerForm.EXPRESSION),
    "sokoban": TaskFacts(),
    "spell_backward": TaskFacts(),
    "spiral_matrix": TaskFacts(),
    "string_insertion": TaskFacts(),
    "string_manipulation": TaskFacts(),
    "string_splitting": TaskFacts(),
    "string_synthesis": TaskFacts(),
    "sudoku": TaskFacts(),
    "survo": TaskFacts(),
    "syllogism": TaskFacts(reads_as=AnswerForm.OPTION),
    "time_intervals": TaskFacts(reads_as=AnswerForm.DURATION),
    "tower_of_hanoi": TaskFacts(word_separator="\n"),
    "tsumego": TaskFacts(),
    "word_ladder": TaskFacts(word_separator=","),
    "word_sequence_reversal": TaskFacts(word_separator=", "),
    "word_sorting": TaskFacts(word_separator=", ", case_counts=True),
    "zebra_puzzles": TaskFacts(reads_as=AnswerForm.OPTION),
}

READ_AS_VALUES = TaskFacts()
"""How answers to a task that is not in the table are read: as values."""
