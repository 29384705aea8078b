"""Clarify questions that can be read in several ways: a sentence is added or reworded, so that one answer is right.

`CLARIFICATIONS` has a row for each such task. The clarified question is shown, scored and hashed into the problem's
reference; the metadata says `clarified`. A question in another wording than the library's stays as it is.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta

from .entries import Dataset, Entry
from .right_answers import moments


@dataclass(frozen=True)
class Clarification:
    """Makes an ambiguous question unambiguous.

    - `open` names what the library's question leaves open.
    - `says` has the words of the clarified question; braces stand for a word that depends on the problem.
    - `rewrite` returns the clarified question of an entry. A question that leaves nothing open is returned as it is.
    """

    open: str
    says: str
    rewrite: Callable[[Entry, Dataset], str]


def clarify(task: str, entry: Entry, dataset: Dataset) -> Entry:
    """Return an entry with a clarified question; the entry itself if the question leaves nothing open."""
    clarification = CLARIFICATIONS.get(task)
    if clarification is None:
        return entry
    question = clarification.rewrite(entry, dataset)
    if question == entry["question"]:
        return entry
    return {**entry, "question": question, "metadata": {**entry["metadata"], "clarified": True}}


def _replace(old: str, new: str) -> Callable[[Entry, Dataset], str]:
    """Return a rewriter that puts `new` in the place of `old` where it stands first."""
    return lambda entry, dataset: str(entry["question"]).replace(old, new, 1)


def _name_brother(entry: Entry, dataset: Dataset) -> str:
    """Say whose brother a man is; the library asks for the sisters of his brother, and names him nowhere else."""
    question = str(entry["question"])
    found = re.fullmatch(r"(\w+) has .* does (\w+)'s brother have\?", question)
    if found is None or found[1] == found[2]:
        return question
    return question.replace(f"{found[2]}'s brother", f"{found[2]}, a brother of {found[1]},")


def _clarify_calendar(entry: Entry, dataset: Dataset) -> str:
    question = str(entry["question"])
    metadata = entry["metadata"]
    match metadata["task"]:
        case "weekday_of_date":
            return re.sub(r"(the week for \d\d/\d\d/\d+)\.", r"\1 (month/day/year).", question)
        case "weekday_of_date_from_first_date":
            if not question.startswith(("If the first day", "Given that January 1", "In a year where")):
                return question
            kind = "a leap year" if calendar.isleap(metadata["year"]) else "not a leap year"
            return re.sub(r"[?.] ", rf"\g<0>The year is {kind}. ", question, count=1)
        case "count_business_days":
            start = date.fromisoformat(metadata["start_date"])
            end = date.fromisoformat(metadata["end_date"])
            return question if start.year == end.year else _with_years(question, start, end)
    return question


def _with_years(question: str, start: date, end: date) -> str:
    """Give both dates of a span their years; the library gives the end the year of the start."""
    first = f"{start:%A, %B} {start.day}"
    last = f"{end:%A, %B} {end.day}"
    dated = question.replace(f"{last}, {start.year}", f"{last}, {end.year}")
    return dated.replace(f"{first} to", f"{first}, {start.year} to")


def _clarify_half_turn(entry: Entry, dataset: Dataset) -> str:
    question = str(entry["question"])
    if "bottom" not in entry["metadata"]["rotations"]:
        return question
    return question.replace("\nProvide only", f"\n{HALF_TURN}\nProvide only", 1)


def _fit_hint_to_emoji(entry: Entry, dataset: Dataset) -> str:
    """Let the question's code skip the whole emoji, which may have two code points."""
    length = len(entry["metadata"]["emoji"])
    return str(entry["question"]).replace("encoded_sentence[1:]", f"encoded_sentence[{length}:]", 1)


def _count_arms(entry: Entry, dataset: Dataset) -> str:
    question = str(entry["question"])
    if "starfish" not in entry["metadata"]["animals"]:
        return question
    return question.replace("a list of animals.", f"a list of animals. {ARMS}", 1)


def _count_capitals(entry: Entry, dataset: Dataset) -> str:
    question = str(entry["question"])
    is_known = question.startswith("How many times ") and question.endswith('"?')
    return f"{question} {CAPITALS}" if is_known else question


def _name_source_of_words(entry: Entry, dataset: Dataset) -> str:
    """Say how the words follow each other in their text; words that do not follow each other are not clarified."""
    question = str(entry["question"])
    config = dataset.config
    if not config.consecutive_words:
        return question
    says = FITTING_WORD
    if config.min_word_len > 1 or config.max_word_len < LONGEST_WORD:
        says += f" Only words of {config.min_word_len} to {config.max_word_len} letters are taken."
    return question.replace("\n\nNow, unscramble", f"\n\n{says}\n\nNow, unscramble", 1)


def _name_directions(entry: Entry, dataset: Dataset) -> str:
    question = re.sub(r"(?m)^- Rotate the matrix \d+ degrees$", r"\g<0> clockwise", str(entry["question"]))
    for named, meant in MIRRORS.items():
        question = re.sub(rf"(?m)^- {named} mirror the matrix$", rf"\g<0>, {meant}", question)
    return question


def _name_one_variable(entry: Entry, dataset: Dataset) -> str:
    variable = entry["metadata"]["variable"]
    return re.sub(r"(?m) dx$", f" d{variable}", str(entry["question"]), count=1)


def _clarify_times(entry: Entry, dataset: Dataset) -> str:
    question = str(entry["question"])
    if not re.search(r"\b(?:[Aa]nswer|result) in ", question):
        return question
    added = [DATES] if re.search(r"\d\d/\d\d/\d", question) else []
    if question.endswith(" in D days, HH:MM."):
        start, end = moments(entry)
        added += [SECONDS] if (end - start) % timedelta(minutes=1) else []
    return " ".join([*added, question])


LONGEST_WORD = 17
"""Letters of the longest word in the text of `letter_jumble`."""

HALF_TURN = "A turn from bottom to top is a half turn that leaves the left and right sides where they are."
ARMS = "Count the arms of a starfish as legs."
CAPITALS = "Count capital and small letters alike."
FITTING_WORD = (
    "The words follow one another in an English text: where letters make several words, take the word of that text."
)
MIRRORS = {"Horizontally": "so that the last row comes first", "Vertically": "so that the last column comes first"}
DATES = "Dates are written month/day/year."
SECONDS = "Leave out the seconds that remain."
GRID_STEPS = "Each step goes up, down, left or right."
EDGES = "Regions at the right and bottom edges may be smaller, and are pooled like the others."
LIGHT = "A button that names a color can be pressed only while the light has that color."
SEVERAL_PREMISES = (
    "The conclusion must need several premises together: it does not count if single premises decide it part by part."
)
ONE_CONVERSION = "Each single conversion counts as one application of a rule."
RULE_1_AGAIN = "After each application of a rule, start again from rule 1."

STORY_WORDS = (
    (re.compile(r"\bin one month\?"), "in one month of 30 days?"),
    (re.compile(r"\bspent (\S+) and got\b"), r"started with \1, got"),
    (
        re.compile(r"There are (\d+) girls (.*) If there are (\d+) times the number of boys"),
        r"There are \1 girls \2 If there are \3 times as many boys as girls",
    ),
    (re.compile(r"\b(exercise for \d+|slew \d+) (the amount|as many)"), r"\1 times \2"),
    (re.compile(r"\b(get to ride the [^.]* \d+|writes it in full \d+)(?=[.,])"), r"\1 times"),
)
"""Words of stories that say nothing, or another thing than is meant, and the words that are meant."""


def _tell_story_clearly(entry: Entry, dataset: Dataset) -> str:
    question = str(entry["question"])
    for words, meant in STORY_WORDS:
        question = words.sub(meant, question)
    return question


CLARIFICATIONS: Mapping[str, Clarification] = {
    "aiw": Clarification(
        "who the man is whose brother's sisters are counted", "{James}, a brother of {Mary},", _name_brother
    ),
    "boxnet": Clarification(
        "whether a plan of more steps than needed is right",
        "in any number of steps",
        _replace("in the most efficient manner", "in any number of steps"),
    ),
    "calendar_arithmetic": Clarification(
        "whether the year is a leap year; which of two numbers is the month; in which year a span over New Year ends",
        "The year is {not} a leap year. / (month/day/year) / the year of each date",
        _clarify_calendar,
    ),
    "color_cube_rotation": Clarification("the axis of a half turn", HALF_TURN, _clarify_half_turn),
    "emoji_mystery": Clarification(
        "whether a second code point of the emoji is a part of the sentence",
        "encoded_sentence[{2}:]",
        _fit_hint_to_emoji,
    ),
    "gsm_symbolic": Clarification(
        "how long a month is; whether a sum is had or spent; of what there are more; what a number counts",
        "in one month of 30 days / started with {$9} / {3} times as many boys as girls / {3} times",
        _tell_story_clearly,
    ),
    "knight_swap": Clarification(
        "whether more moves than needed are right",
        "list the fewest moves that do it",
        _replace("If yes, list the moves.", "If yes, list the fewest moves that do it."),
    ),
    "leg_counting": Clarification("whether a starfish has legs", ARMS, _count_arms),
    "letter_counting": Clarification("whether capital letters count", CAPITALS, _count_capitals),
    "letter_jumble": Clarification(
        "which of several words with the same letters is right",
        f"{FITTING_WORD} Only words of {{3}} to {{5}} letters are taken.",
        _name_source_of_words,
    ),
    "manipulate_matrix": Clarification(
        "what a horizontal or vertical mirror does; the direction of rotations",
        f"{MIRRORS['Horizontally']} / {MIRRORS['Vertically']} / clockwise",
        _name_directions,
    ),
    "maze": Clarification(
        "whether steps may be diagonal",
        GRID_STEPS,
        _replace("number of steps to reach the goal?", f"number of steps to reach the goal? {GRID_STEPS}"),
    ),
    "pool_matrix": Clarification(
        "whether incomplete regions at the edges count",
        EDGES,
        _replace("overlap between the pooling regions.", f"overlap between the pooling regions. {EDGES}"),
    ),
    "propositional_logic": Clarification(
        "whether a premise, or premises that are joined, are a conclusion",
        SEVERAL_PREMISES,
        _replace("conclusion from the premise.", f"conclusion from the premise. {SEVERAL_PREMISES}"),
    ),
    "quantum_lock": Clarification(
        "whether a press in light of another color is possible",
        LIGHT,
        _replace("depend on the state of the light.", f"depend on the state of the light. {LIGHT}"),
    ),
    "simple_integration": Clarification(
        "the variable, where the integrand is in X and the differential dx", "d{X}", _name_one_variable
    ),
    "string_splitting": Clarification(
        "whether conversions or exhausted rules are counted",
        ONE_CONVERSION,
        _replace("restart the process from rule 1.", f"restart the process from rule 1. {ONE_CONVERSION}"),
    ),
    "string_synthesis": Clarification(
        "which rule follows an applied rule",
        RULE_1_AGAIN,
        _replace(
            "(counts of each block type) is repeated.", f"(counts of each block type) is repeated. {RULE_1_AGAIN}"
        ),
    ),
    "time_intervals": Clarification(
        "which of two numbers is the month; whether seconds are left out or rounded to a minute",
        f"{DATES} / {SECONDS}",
        _clarify_times,
    ),
    "tower_of_hanoi": Clarification(
        "whether more moves than needed are right; which disk is disk 1",
        "Provide the shortest sequence of moves. Disk 1 is the smallest.",
        _replace("Provide the sequence of moves.", "Provide the shortest sequence of moves. Disk 1 is the smallest."),
    ),
}
