"""Facts about each task of reasoning-gym 0.1.25, measured and kept in one table.

`tools/check_release.py` and `audit` found the levels of difficulty: at the levels that a row replaces, the library
cannot build items, takes seconds to minutes, or makes wrong answers. A task that is not in the table (of a newer
library, or of a user) gets UNMEASURED: slower treatment that is right for any task.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

COMPOSITE = "composite"
"""The task that is composed of other tasks, and cannot be built from its defaults."""


@dataclass(frozen=True)
class FieldLevels:
    """Levels that replace the library's levels of one field of a config, or of a range; the easiest comes first.

    A range has a lower and an upper field. A level of a range is one number for both, or a pair of bounds. Between two
    levels, numbers are interpolated, unless the levels are `drawn`.
    """

    fields: tuple[str, ...]
    levels: Sequence[Any]
    reason: str
    drawn: bool = False
    """Between two levels, the seed draws one of the two: for few values, which rounding would leave unused steps."""


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
    """The facts about one task."""

    few_questions: bool = False
    """It has fewer than about five million questions: among 3,000 random seeds at the defaults, one came twice."""
    pays_for: str | None = None
    """Nonsense that the library's verifier pays for; strict rewards correct it."""
    built_for_each_seed: bool = False
    """The constructor of its dataset consumes the seed."""
    built_from: tuple[str, ...] | None = None
    """The only parameters that its constructor reads, where construction is slow; None where it may read all."""
    scores_without_params: bool = False
    """Its constructor loads much data that its verifier does not read."""
    data_on_class: str = ""
    """The attribute of its class in which its constructor keeps the loaded data."""
    levels: tuple[FieldLevels, ...] = ()
    without_levels: str | None = None
    """Why the levels of the library's curriculum change nothing: the task counts as a task without levels."""
    algebraic: bool = False
    """Its guard needs sympy."""
    options: int = 0
    """The number of answers to choose from; 0 for open answers."""
    even_options: tuple[str, ...] = ()
    """Answers, in lower case, that must be served equally often; the library or a rejection favours one of them.

    Answers of another form, such as those of problems with more people, are served as they come.
    """
    frequent_answer: bool = False
    """One of its open answers is frequent: the seed picks a third of all answers, by hash."""
    gives_away: str | None = None
    """How a question reveals its answer, in whatever way problems are drawn."""
    reads_clock: bool = False
    """It runs code that may read the time, or writes today's date; the clock stands still meanwhile."""
    served_params: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of served problems, where the user sets none: other values make problems that are rejected."""
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
    option_key: str = ""
    """The key of the metadata that holds the chosen option; "" where the answer is the option itself."""
    ends_in_full_stop: bool = False
    """Right answers may end in a full stop of their own."""


TRUE_OR_FALSE = ("true", "false")
FEW_QUANTIFIERS = "with fewer than four quantifiers, a single quantifier tells most answers"
BOTH = "naming both options contains the right one"
CONCLUDES = "fewer or simpler premises imply nothing, more imply almost everything, and 10 variables take 0.2 s"
NOT_CONVEX = "with angles from 10 to 170 degrees, the last of six or more angles is mostly 180 or more"
TOO_LONG = "questions grow beyond 20,000 characters"
EVERY_STEP = "all would move at once, or none"
ONE_KIND = "with one kind of integral at the defaults' numbers, a level has few questions"
FEWER_PEGS = "each peg more saves moves, so that more pegs and more disks cancel out"
SPREAD_FAST = "many rotten oranges spread as fast on a large grid as on a small one"

FACTS: Mapping[str, TaskFacts] = {
    "ab": TaskFacts(word_separator=" ", few_questions=True),
    "acre": TaskFacts(
        reads_as=AnswerForm.OPTION, options=3, even_options=("on", "off", "undetermined"), built_for_each_seed=True
    ),
    "advanced_geometry": TaskFacts(may_be_rounded=True),
    "aiw": TaskFacts(
        few_questions=True,
        levels=(
            FieldLevels(
                ("max_entities",), (6, 8, 10, 12, 14, 16), "one of four numbers in the question is often right"
            ),
        ),
    ),
    "arc_1d": TaskFacts(
        levels=(
            FieldLevels(
                ("min_size", "max_size"),
                (10, 20, 30, 40),
                "in longer rows the library searches for ever for a tenth colour, of nine",
            ),
        )
    ),
    "arc_agi": TaskFacts(single_cell=True, built_from=("use_train", "use_eval", "board_format_opts")),
    "base_conversion": TaskFacts(reads_as=AnswerForm.DIGITS, few_questions=True),
    "basic_arithmetic": TaskFacts(few_questions=True),
    "bf": TaskFacts(
        reads_as=AnswerForm.EXACT,
        few_questions=True,
        levels=(FieldLevels(("difficulty",), (1, 2, 3), "the library has three difficulties", drawn=True),),
    ),
    "binary_alternation": TaskFacts(few_questions=True),
    "binary_matrix": TaskFacts(
        few_questions=True,
        levels=(
            FieldLevels(("p_zero",), (0.25, 0.2, 0.1, 0.05), "with more zeros the nearest zero is in the same row"),
        ),
    ),
    "bitwise_arithmetic": TaskFacts(reads_as=AnswerForm.DIGITS),
    "boxnet": TaskFacts(few_questions=True),
    "caesar_cipher": TaskFacts(
        reads_as=AnswerForm.OPTION,
        few_questions=True,
        levels=(FieldLevels(("min_rotation", "max_rotation"), (5, 15, 25), "the config refuses rotations over 25"),),
    ),
    "calendar_arithmetic": TaskFacts(
        reads_as=AnswerForm.OPTION,
        few_questions=True,
        levels=(
            FieldLevels(
                ("tasks",),
                (
                    ["weekday_of_date"],
                    ["weekday_of_date", "weekday_offset"],
                    ["weekday_of_date", "weekday_offset", "is_leap_year", "count_days", "count_business_days"],
                    [
                        "weekday_of_date",
                        "weekday_offset",
                        "is_leap_year",
                        "count_days",
                        "count_business_days",
                        "weekday_of_date_from_first_date",
                        "recurring_event_day",
                    ],
                ),
                "with three kinds of questions, too many ask for leap years, and few years are leap years",
            ),
        ),
    ),
    "chain_sum": TaskFacts(few_questions=True),
    "circuit_logic": TaskFacts(
        options=2,
        levels=(
            FieldLevels(
                ("min_terms", "max_terms"),
                ((2, 3), (2, 4), (3, 4), (3, 5), (4, 6)),
                "with more terms XOR alone stays undecided",
            ),
            FieldLevels(
                ("min_inputs", "max_inputs"),
                ((2, 3), (2, 4), (3, 4), (3, 5), (4, 6)),
                "an AND of more inputs is never 1",
            ),
        ),
    ),
    "codeio": TaskFacts(
        few_questions=True,
        is_json=True,
        reads_clock=True,
        scores_without_params=True,
        data_on_class="_jsonl_data",
        levels=(FieldLevels(("difficulty",), (6, 7, 8, 9), "its programs have four difficulties", drawn=True),),
        words_are_units=False,
        served_params={"input_prediction_probability": 1.0},  # in spite of its name: questions for the output only
    ),
    "coin_flip": TaskFacts(
        few_questions=True,
        may_be_rounded=True,
        pays_for="0 is a prefix of every probability",
        levels=(
            FieldLevels(
                ("min_trials", "max_trials"), ((4, 8), (6, 12), (10, 15)), "three trials have few probabilities"
            ),
        ),
    ),
    "color_cube_rotation": TaskFacts(reads_as=AnswerForm.OPTION),
    "complex_arithmetic": TaskFacts(
        reads_as=AnswerForm.COMPLEX, few_questions=True, pays_for="nan counts as equal to any number"
    ),
    "composite": TaskFacts(),
    "count_bits": TaskFacts(),
    "count_primes": TaskFacts(scores_without_params=True),
    "countdown": TaskFacts(
        reads_as=AnswerForm.EXPRESSION,
        levels=(
            FieldLevels(("min_numbers", "max_numbers"), (3, 4, 6, 8, 10), "an item of 15 numbers takes seconds"),
            FieldLevels(
                ("min_target", "max_target"),
                ((10, 300), (100, 1000), (100, 2500), (1000, 5000)),
                "few expressions hit a narrow range",
            ),
            FieldLevels(
                ("min_value", "max_value"), ((1, 100),), "without small numbers most items cannot be generated"
            ),
        ),
    ),
    "course_schedule": TaskFacts(
        reads_as=AnswerForm.OPTION, options=2, even_options=TRUE_OR_FALSE, few_questions=True, pays_for=BOTH
    ),
    "cryptarithm": TaskFacts(
        reads_as=AnswerForm.LETTER_VALUES,
        levels=(
            FieldLevels(
                ("min_words", "max_words"),
                ((2, 2), (2, 3), (3, 5), (5, 8), (8, 14)),
                "with five words nearly every digit occurs, so that more words add only numbers to a sum",
            ),
        ),
    ),
    "decimal_arithmetic": TaskFacts(),
    "decimal_chain_sum": TaskFacts(),
    "dice": TaskFacts(few_questions=True),
    "emoji_mystery": TaskFacts(
        few_questions=True,
        scores_without_params=True,
        ends_in_full_stop=True,
        levels=(
            FieldLevels(
                ("min_words_in_sentence", "max_words_in_sentence"),
                ((3, 8), (5, 12), (8, 18), (12, 30), (18, 60)),
                "the text has 14 sentences of 40 to 50 words, and over 160 in each of these ranges",
            ),
        ),
    ),
    "family_relationships": TaskFacts(
        reads_as=AnswerForm.OPTION,
        levels=(
            FieldLevels(
                ("min_family_size", "max_family_size"),
                ((4, 5), (5, 6), (6, 7), (8, 9), (10, 11)),
                "of three people, a count of letters tells the relation in 0.43 of the problems",
            ),
        ),
    ),
    "figlet_font": TaskFacts(
        scores_without_params=True,
        levels=(
            FieldLevels(
                ("min_word_len", "max_word_len"), ((3, 5), (4, 8), (6, 11), (9, 14)), "22 words have 20 letters or more"
            ),
        ),
    ),
    "fraction_simplification": TaskFacts(),
    "futoshiki": TaskFacts(
        levels=(FieldLevels(("min_board_size", "max_board_size"), (4, 5, 6, 7, 8), "a board of 9 takes up to 3 s"),)
    ),
    "game_of_life": TaskFacts(
        pays_for="an empty board has most cells right",
        levels=(
            FieldLevels(("grid_size_x",), (10, 15, 20, 25), "a board of 40 x 40 with enough cells takes 0.5 s"),
            FieldLevels(("grid_size_y",), (10, 15, 20, 25), "a board of 40 x 40 with enough cells takes 0.5 s"),
            FieldLevels(("filled_cells",), (20, 50, 100, 150), "the library's ten cells die out on larger boards"),
            FieldLevels(("simulation_steps",), (1, 1, 2, 2), "more steps leave too little of a board"),
        ),
    ),
    "game_of_life_halting": TaskFacts(
        reads_as=AnswerForm.OPTION,
        options=2,
        few_questions=True,
        pays_for="any text counts as True",
        gives_away="only boards that go on have two live cells side by side",
        levels=(
            FieldLevels(("grid_size_x",), (10, 20, 25, 31), "the question shows larger boards without their middle"),
            FieldLevels(("grid_size_y",), (10, 20, 25, 31), "the question shows larger boards without their middle"),
        ),
    ),
    "gcd": TaskFacts(
        frequent_answer=True,
        few_questions=True,
        levels=(FieldLevels(("min_numbers", "max_numbers"), (2, 2, 2, 3), "more numbers have no common divisor"),),
    ),
    "graph_color": TaskFacts(
        few_questions=True,
        levels=(
            FieldLevels(("num_colors",), (3,), "with more colours most colourings are right"),
            FieldLevels(
                ("min_num_vertices", "max_num_vertices"),
                ((8, 10), (10, 15), (15, 20), (20, 25)),
                "six vertices have so few edges that most colourings are right",
            ),
        ),
    ),
    "group_anagrams": TaskFacts(
        built_from=(),
        levels=(
            FieldLevels(
                ("min_words_per_group", "max_words_per_group"),
                ((2, 5), (3, 7), (5, 10)),
                "the words of a group stand together, so groups of equal size need no reading",
            ),
        ),
    ),
    "gsm_symbolic": TaskFacts(few_questions=True, built_for_each_seed=True),
    "intermediate_integration": TaskFacts(
        reads_as=AnswerForm.EXPRESSION,
        few_questions=True,
        algebraic=True,
        levels=(
            FieldLevels(
                ("problem_type_weights",),
                # Linear, radical, logarithm or inverse trigonometric, trigonometric, polynomial times another,
                # exponential, cyclic, repeated parts.
                (
                    [0.4, 0.3, 0.0, 0.0, 0.0, 0.3, 0.0, 0.0],
                    [0.2, 0.2, 0.2, 0.2, 0.0, 0.2, 0.0, 0.0],
                    [0.0, 0.1, 0.3, 0.1, 0.3, 0.1, 0.1, 0.0],
                    [0.0, 0.0, 0.2, 0.1, 0.4, 0.0, 0.1, 0.2],
                    [0.0, 0.0, 0.1, 0.0, 0.4, 0.0, 0.1, 0.4],
                ),
                "a level of one kind has as few as 18 answers",
            ),
            FieldLevels(("min_linear_degree", "max_linear_degree"), ((2, 2), (2, 3), (2, 4)), ONE_KIND),
            FieldLevels(("max_poly_degree",), (3, 3, 3, 4, 5), ONE_KIND),
            FieldLevels(("outer_constant_max",), (3, 3, 6, 9, 12), ONE_KIND),
        ),
    ),
    "isomorphic_strings": TaskFacts(
        reads_as=AnswerForm.OPTION,
        options=2,
        even_options=TRUE_OR_FALSE,
        few_questions=True,
        pays_for=BOTH,
        levels=(
            FieldLevels(
                ("min_string_length", "max_string_length"),
                ((2, 10), (10, 50), (50, 100), (100, 1000)),
                "isomorphic pairs are shorter by one letter, which tells the answer if all lengths are equal",
            ),
        ),
    ),
    "jugs": TaskFacts(
        few_questions=True,
        levels=(
            FieldLevels(
                ("num_jugs",), (3,), "the library's solutions use the first three jugs only, and 6 take over 10 s"
            ),
        ),
    ),
    "kakurasu": TaskFacts(few_questions=True),
    "knight_swap": TaskFacts(
        reads_as=AnswerForm.OPTION,
        levels=(
            FieldLevels(("min_nodes", "max_nodes"), (10, 11, 12), "the config refuses 4, and 6 to 9 take up to 4 s"),
            FieldLevels(("min_pieces", "max_pieces"), ((1, 1), (2, 2), (2, 2), (3, 3)), "4 pieces take up to 9 s"),
            FieldLevels(
                ("min_steps", "max_steps"), ((1, 8), (6, 14), (12, 24)), "the steps that this number of pieces needs"
            ),
            FieldLevels(("impossible_ratio",), (0.2, 0.0, 0.0), "hardly any larger board is impossible"),
        ),
    ),
    "knights_knaves": TaskFacts(
        reads_as=AnswerForm.CLAIMS,
        option_key="solution",
        options=4,
        even_options=("true true", "true false", "false true", "false false"),
        ends_in_full_stop=True,
        levels=(
            FieldLevels(("n_people",), (2, 3, 4, 5, 6), EVERY_STEP),
            FieldLevels(("depth_constraint",), (2, 2, 3, 3, 3), EVERY_STEP),
            FieldLevels(("width_constraint",), (2, 2, 2, 3, 3), EVERY_STEP),
        ),
    ),
    "largest_island": TaskFacts(
        few_questions=True,
        levels=(
            FieldLevels(
                ("min_island_size", "max_island_size"),
                ((1, 8), (1, 12), (1, 20), (1, 30)),
                "one size is often the largest",
            ),
            FieldLevels(
                ("min_num_islands", "max_num_islands"),
                ((3, 5), (3, 6), (5, 10), (10, 20)),
                "the smaller of two islands is often a single cell",
            ),
        ),
    ),
    "lcm": TaskFacts(few_questions=True),
    "leg_counting": TaskFacts(
        levels=(
            FieldLevels(
                ("min_animals", "max_animals"), ((2, 4), (9, 18), (18, 27), (27, 36)), "a single animal has four legs"
            ),
        )
    ),
    "letter_counting": TaskFacts(frequent_answer=True, few_questions=True, scores_without_params=True),
    "letter_jumble": TaskFacts(
        scores_without_params=True,
        levels=(
            FieldLevels(
                ("min_word_len", "max_word_len"),
                ((3, 5), (3, 8), (5, 12), (7, 64)),
                "words of two letters are only reversed, and the text has too few longer words",
            ),
        ),
    ),
    "list_functions": TaskFacts(built_for_each_seed=True),
    "mahjong_puzzle": TaskFacts(
        reads_as=AnswerForm.OPTION,
        options=3,
        even_options=("peng", "chi", "pass"),
        levels=(FieldLevels(("min_num_rounds", "max_num_rounds"), (10, 50, 100, 400), TOO_LONG),),
    ),
    "manipulate_matrix": TaskFacts(single_cell=True),
    "maze": TaskFacts(),
    "mini_sudoku": TaskFacts(
        few_questions=True,
        levels=(
            FieldLevels(
                ("min_empty", "max_empty"),
                (11, 12),
                "a simple rule fills boards with fewer blanks, and with more there are several solutions",
                drawn=True,
            ),
        ),
    ),
    "modulo_grid": TaskFacts(
        options=2,
        few_questions=True,
        gives_away="three patterns of four are their own mirror images",
        levels=(
            FieldLevels(("max_target",), (1, 2, 3, 7, 9, 21), "the config refuses 0"),
            FieldLevels(
                ("max_divisor",), (10, 10, 12, 15, 17, 49), "in finer patterns a cell beside the blank has the answer"
            ),
        ),
    ),
    "n_queens": TaskFacts(
        few_questions=True,
        built_from=("n",),
        scores_without_params=True,
        levels=(
            FieldLevels(
                ("n",),
                (7, 8, 8, 9, 10),
                "a board of 6 has 4 solutions; to find all solutions for 12 takes 2 s",
            ),
            FieldLevels(("min_remove", "max_remove"), (3, 4, 6, 7, 8), "no more than the queens on the board"),
        ),
    ),
    "needle_haystack": TaskFacts(
        reads_as=AnswerForm.OPTION,
        levels=(FieldLevels(("min_num_statements", "max_num_statements"), (10, 100, 300, 600), TOO_LONG),),
    ),
    "number_filtering": TaskFacts(),
    "number_format": TaskFacts(
        levels=(FieldLevels(("max_delta",), (10.0, 1.0, 0.1, 0.02), "numbers with three decimals differ by no less"),)
    ),
    "number_sequence": TaskFacts(
        few_questions=True,
        levels=(
            FieldLevels(("min_terms", "max_terms"), (4, 5, 6, 7, 8), "repeated squares take for ever with more terms"),
            FieldLevels(("max_complexity",), (1, 2, 3), "repeated squares take for ever with more operations"),
        ),
    ),
    "number_sorting": TaskFacts(
        pays_for="nan is in order with any number",
        levels=(
            FieldLevels(
                ("min_numbers", "max_numbers"),
                (3, 5, 10, 50, 100, 500, 1000),
                "ten numbers are many for the easiest level",
            ),
        ),
    ),
    "palindrome_generation": TaskFacts(few_questions=True),
    "palindrome_partitioning": TaskFacts(),
    "path_star": TaskFacts(word_separator=" "),
    "polynomial_equations": TaskFacts(reads_as=AnswerForm.SOLUTIONS, few_questions=True),
    "polynomial_multiplication": TaskFacts(reads_as=AnswerForm.EXPRESSION, few_questions=True, algebraic=True),
    "pool_matrix": TaskFacts(
        single_cell=True,
        levels=(
            FieldLevels(("min_pool_size", "max_pool_size"), (2, 3, 5, 7, 9), "pooling by 1 changes nothing"),
            FieldLevels(("min_rows", "max_rows"), (4, 10, 25, 50, 100), "for 2 by 2 the largest number is the answer"),
            FieldLevels(("min_cols", "max_cols"), (4, 10, 25, 50, 100), "for 2 by 2 the largest number is the answer"),
        ),
    ),
    "power_function": TaskFacts(may_be_rounded=True),
    "prime_factorization": TaskFacts(reads_as=AnswerForm.FACTORS, few_questions=True),
    "products": TaskFacts(few_questions=True),
    "propositional_logic": TaskFacts(
        few_questions=True,
        pays_for="a premise follows from itself",
        levels=(
            FieldLevels(("min_vars", "max_vars"), ((3, 4), (4, 5), (5, 6), (6, 7)), CONCLUDES),
            FieldLevels(("min_statements", "max_statements"), ((3, 4), (3, 5), (5, 6), (6, 7)), CONCLUDES),
            FieldLevels(("min_complexity", "max_complexity"), ((2, 2), (2, 3), (2, 3), (3, 3)), CONCLUDES),
        ),
    ),
    "puzzle24": TaskFacts(
        reads_as=AnswerForm.EXPRESSION,
        few_questions=True,
        pays_for="the numbers need not be those of the question",
        levels=(
            FieldLevels(
                ("min_value", "max_value"),
                ((1, 6), (1, 8), (1, 10), (2, 10), (4, 10)),
                "numbers to 5 have as few ways to 24 as large numbers, and large numbers alone do not make 24",
            ),
        ),
    ),
    "quantum_lock": TaskFacts(
        word_separator=" \u2192 ",
        few_questions=True,
        levels=(FieldLevels(("difficulty",), (1, 4, 10, 20, 40), "from 5 to 10 the ways have the same length"),),
    ),
    "ransom_note": TaskFacts(
        reads_as=AnswerForm.OPTION,
        options=2,
        even_options=TRUE_OR_FALSE,
        pays_for=BOTH,
    ),
    "rearc": TaskFacts(single_cell=True),
    "rectangle_count": TaskFacts(
        few_questions=True,
        levels=(FieldLevels(("max_rectangles",), (10, 15, 20, 25), "with at most five, one count in four is 2"),),
    ),
    "rotate_matrix": TaskFacts(
        few_questions=True,
        levels=(
            FieldLevels(
                ("min_rotations", "max_rotations"),
                ((1, 3), (1, 7), (5, 11), (5, 15), (9, 19)),
                "one, two and three quarter turns must be equally frequent",
            ),
        ),
    ),
    "rotten_oranges": TaskFacts(
        frequent_answer=True,
        levels=(
            FieldLevels(("min_n", "max_n"), (6, 10, 15, 20, 25), "in larger grids an orange is nearly always cut off"),
            FieldLevels(("p_oranges",), (0.85, 0.85, 0.87, 0.9, 0.92), SPREAD_FAST),
            FieldLevels(("p_rotten",), (0.1, 0.08, 0.05, 0.03, 0.015), SPREAD_FAST),
        ),
    ),
    "rubiks_cube": TaskFacts(
        word_separator=" ",
        few_questions=True,
        levels=(FieldLevels(("cube_size",), (3, 4, 5, 6), "the config refuses 7"),),
    ),
    "rush_hour": TaskFacts(
        word_separator=" ",
        few_questions=True,
        scores_without_params=True,
        pays_for="moves through other cars, and cars that are not there",
        levels=(
            FieldLevels(
                ("min_moves", "max_moves"),
                ((1, 10), (6, 18), (14, 26), (24, 36), (35, 60)),
                "the library has 23 boards of 50 moves or more, and over 2,000 in each of these ranges",
            ),
        ),
    ),
    "self_reference": TaskFacts(
        few_questions=True,
        frequent_answer=True,
        without_levels="its generator takes a difficulty, and makes the same problems at all ten",
    ),
    "sentence_reordering": TaskFacts(
        few_questions=True,
        scores_without_params=True,
        ends_in_full_stop=True,
        levels=(
            FieldLevels(
                ("min_words_in_sentence", "max_words_in_sentence"),
                ((5, 12), (8, 16), (10, 20), (14, 24)),
                "hardly any longer sentence has no repeated word",
            ),
        ),
    ),
    "shortest_path": TaskFacts(
        reads_as=AnswerForm.OPTION,
        word_separator=" ",
        frequent_answer=True,
        levels=(FieldLevels(("p_blocked",), (0.35, 0.25), "in larger grids the way is nearly always blocked"),),
    ),
    "simple_equations": TaskFacts(),
    "simple_geometry": TaskFacts(
        few_questions=True,
        levels=(
            FieldLevels(("min_sides", "max_sides"), ((3, 5), (5, 7), (8, 11), (14, 18)), NOT_CONVEX),
            FieldLevels(("min_angle",), (10, 82, 122, 149), NOT_CONVEX),
            FieldLevels(("max_angle",), (170, 170, 174, 175), NOT_CONVEX),
        ),
    ),
    "simple_integration": TaskFacts(
        reads_as=AnswerForm.EXPRESSION,
        few_questions=True,
        algebraic=True,
        levels=(FieldLevels(("min_terms", "max_terms"), ((2, 2), (2, 3), (3, 4), (4, 5), (5, 7)), EVERY_STEP),),
    ),
    "sokoban": TaskFacts(
        pays_for="a solution with any text around it",
        levels=(
            FieldLevels(
                ("min_w", "max_w"), ((6, 7), (8, 9), (10, 11), (11, 13)), "boards of one size hold too many boxes"
            ),
            FieldLevels(("min_h", "max_h"), ((6, 7), (8, 9), (10, 11), (11, 13)), "larger boards take up to 17 s"),
        ),
    ),
    "spell_backward": TaskFacts(few_questions=True, scores_without_params=True),
    "spiral_matrix": TaskFacts(
        few_questions=True,
        levels=(
            FieldLevels(
                ("min_n", "max_n"), ((3, 6), (10, 25), (25, 50), (50, 100)), "a spiral of two by two is always the same"
            ),
        ),
    ),
    "string_insertion": TaskFacts(few_questions=True),
    "string_manipulation": TaskFacts(),
    "string_splitting": TaskFacts(few_questions=True),
    "string_synthesis": TaskFacts(few_questions=True),
    "sudoku": TaskFacts(
        levels=(
            FieldLevels(
                ("min_empty", "max_empty"), (27, 30, 40, 50, 55), "a simple rule fills 20 blanks, and 60 take up to 1 s"
            ),
        )
    ),
    "survo": TaskFacts(
        levels=(
            FieldLevels(
                ("min_empty", "max_empty"),
                (3, 4, 6, 8),
                "over half of the boards with 11 blanks have several solutions",
            ),
        )
    ),
    "syllogism": TaskFacts(
        reads_as=AnswerForm.OPTION,
        options=2,
        even_options=("yes", "no"),
        gives_away="the conclusion has the first premise's quantifier or not: that tells two answers in three",
        few_questions=True,
        pays_for=BOTH,
        levels=(
            FieldLevels(("allow_no",), (True,), FEW_QUANTIFIERS),
            FieldLevels(("allow_some",), (True,), FEW_QUANTIFIERS),
            FieldLevels(("allow_some_not",), (True,), FEW_QUANTIFIERS),
            FieldLevels(("inversion_probability",), (0.5, 0.3, 0.1), "a question about one premise is easier"),
        ),
    ),
    "time_intervals": TaskFacts(
        reads_as=AnswerForm.DURATION, pays_for="a duration of zero is near most durations", reads_clock=True
    ),
    "tower_of_hanoi": TaskFacts(
        word_separator="\n",
        few_questions=True,
        levels=(
            FieldLevels(("min_disks", "max_disks"), ((3, 6), (5, 8), (7, 10), (9, 13), (12, 16)), FEWER_PEGS),
            FieldLevels(("min_pegs", "max_pegs"), ((4, 6),), "with three there are only 6 questions"),
        ),
    ),
    "tsumego": TaskFacts(gives_away="the answer is where most stones stand together"),
    "word_ladder": TaskFacts(
        word_separator=",",
        few_questions=True,
        levels=(
            FieldLevels(
                ("min_word_length", "max_word_length"),
                ((3, 4), (3, 4), (4, 4), (4, 5), (5, 5)),
                "three lengths of words",
            ),
            FieldLevels(
                ("min_chain_length", "max_chain_length"),
                ((3, 4), (4, 5), (5, 6), (6, 8), (8, 11)),
                "the length of words alone hardly makes ladders longer",
            ),
        ),
    ),
    "word_sequence_reversal": TaskFacts(word_separator=", ", scores_without_params=True),
    "word_sorting": TaskFacts(word_separator=", ", case_counts=True, scores_without_params=True),
    "zebra_puzzles": TaskFacts(
        reads_as=AnswerForm.OPTION,
        options=4,
        levels=(
            FieldLevels(
                ("num_people",),
                (4, 4, 4, 5, 5),
                "with fewer people the answer is guessed; 6 people take 3 s and 7 over 10 s",
            ),
            FieldLevels(("num_characteristics",), (2, 3, 4, 4, 5), "6 characteristics take 3 s and 7 over 10 s"),
        ),
    ),
}

CATEGORIES: Mapping[str, str] = {
    "algebra": "complex_arithmetic intermediate_integration polynomial_equations polynomial_multiplication "
    "simple_equations simple_integration",
    "algorithmic": "ab base_conversion binary_alternation binary_matrix caesar_cipher count_primes cryptarithm "
    "game_of_life game_of_life_halting graph_color group_anagrams isomorphic_strings jugs letter_counting "
    "letter_jumble manipulate_matrix number_filtering number_sorting palindrome_generation "
    "palindrome_partitioning pool_matrix ransom_note rotate_matrix rotten_oranges sentence_reordering "
    "spell_backward spiral_matrix string_insertion string_manipulation string_splitting string_synthesis "
    "word_ladder word_sequence_reversal word_sorting",
    "arc": "arc_1d arc_agi rearc",
    "arithmetic": "basic_arithmetic bitwise_arithmetic calendar_arithmetic chain_sum count_bits decimal_arithmetic "
    "decimal_chain_sum dice fraction_simplification gcd gsm_symbolic lcm leg_counting number_format "
    "power_function prime_factorization products time_intervals",
    "code": "bf codeio",
    "cognition": "color_cube_rotation figlet_font modulo_grid needle_haystack number_sequence rectangle_count "
    "rubiks_cube",
    "games": "boxnet countdown emoji_mystery futoshiki kakurasu knight_swap mahjong_puzzle maze mini_sudoku "
    "n_queens puzzle24 rush_hour sokoban sudoku survo tower_of_hanoi tsumego",
    "geometry": "advanced_geometry simple_geometry",
    "graphs": "course_schedule family_relationships largest_island path_star quantum_lock shortest_path",
    "induction": "acre list_functions",
    "logic": "aiw circuit_logic knights_knaves propositional_logic self_reference syllogism zebra_puzzles",
    "probability": "coin_flip",
}
"""The tasks of each category of the library, for readers of results without the library."""

MANY_QUESTIONS = 10_000
"""A task with at least this many different questions has enough. If 300 draws do not repeat, there are this many with a
confidence of 99 % (`tools/pools.py`)."""
QUESTION_LEVELS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Levels at which the different questions of a task were counted."""
QUESTIONS: Mapping[str, tuple[int | None, ...]] = {
    "acre": (None,),
    "aiw": (8300, 1900, 6600, None, None, None),
    "arc_1d": (None, None, None),
    "arc_agi": (None, None),
    "basic_arithmetic": (None, 1900, None, None, None, None),
    "bf": (4700, 4700, 5300),
    "binary_matrix": (None, 210, None, None, None, None),
    "boxnet": (None, 8300, None),
    "caesar_cipher": (8400, 2500, 1800, 1300, 1300, 990),
    "chain_sum": (None, 200, None, None, None, None),
    "codeio": (None, 3700),
    "coin_flip": (270, 70, 100, 140, 170, 160),
    "count_bits": (None, 970, None, None, None, None),
    "cryptarithm": (None, None, None),
    "figlet_font": (None, None, None),
    "futoshiki": (None, None),
    "game_of_life_halting": (6000, 650, 9100),
    "graph_color": (None, None, None),
    "gsm_symbolic": (None,),
    "intermediate_integration": (4300, None),
    "jugs": (780, 200, 520, 1100, 2100, 3100),
    "kakurasu": (None, None, None),
    "knight_swap": (None, 1100),
    "lcm": (5100, 5100, None, None, None, None),
    "list_functions": (None,),
    "mahjong_puzzle": (None, None, None),
    "mini_sudoku": (5000, 6900, 6400),
    "n_queens": (7700, 2600, 5500, 2900, 7300, 9600),
    "number_sequence": (3100, 1700, 2000, 2100, 2500, 2200),
    "palindrome_partitioning": (None, None, None),
    "polynomial_multiplication": (None, None, None),
    "prime_factorization": (1100, 1100, 2600, 4100, 4200, 4500),
    "products": (None, 100, None, None, None, None),
    "puzzle24": (2400, 500, 1100, 2400, 1700, 570),
    "quantum_lock": (None, 720, 3300, None, None, None),
    "rearc": (None, None, None),
    "rubiks_cube": (None, None, None),
    "rush_hour": (None, 3400, 6100),
    "self_reference": (2000,),
    "sokoban": (None, None),
    "spell_backward": (None, 1500, None, None, None, None),
    "string_splitting": (210, 1500, None, None, None, None),
    "string_synthesis": (220, 1400, None, None, None, None),
    "sudoku": (None, None, None),
    "tower_of_hanoi": (90, 250, 250, 250, 310, 310),
    "tsumego": (None, 3300, None),
    "zebra_puzzles": (None, None, None),
}
"""Different questions of a task at its defaults and at each of QUESTION_LEVELS; None for MANY_QUESTIONS or more.

Measured by `python -m tools.pools`. A task that is not in this table has MANY_QUESTIONS everywhere. Levels behind a
row's last were not measured, since problems take long to make; a task without levels has a row of one.
"""

UNMEASURED = TaskFacts(few_questions=True, built_for_each_seed=True)
"""Facts that are safe for any task."""


def facts(task: str) -> TaskFacts:
    """Return the facts of a task, UNMEASURED for a task that is not in the table."""
    return FACTS.get(task, UNMEASURED)


def questions(task: str, level: float | None) -> float:
    """Return about how many different questions a task has at a level, None for its defaults.

    Infinity for MANY_QUESTIONS or more, and where nothing was measured. Between two levels of QUESTION_LEVELS, the
    nearer one counts.
    """
    row = QUESTIONS.get(task, (None,))
    place = 0 if level is None or len(row) == 1 else 1 + round(level * (len(QUESTION_LEVELS) - 1))
    return (row[place] if place < len(row) else None) or math.inf


def category(task: str) -> str:
    """Return the category of a task: the library's, of CATEGORY/NAME the first part, and `other` for any other task."""
    of_source, slash, _ = task.partition("/")
    return of_source if slash else next((name for name, tasks in CATEGORIES.items() if task in tasks.split()), "other")


def without_reasoning(task: str) -> str:
    """Return why training leaves a task out, even with strict rewards, unless `tasks` names it; "" for other tasks."""
    return facts(task).gives_away or ""


def gameable_tasks(*, strict: bool) -> dict[str, str]:
    """Return the tasks that pay policies without reasoning, with reasons; `strict` rewards correct most of them."""
    reasons = {task: row.gives_away or ("" if strict else row.pays_for) for task, row in FACTS.items()}
    return {task: reason for task, reason in reasons.items() if reason}
