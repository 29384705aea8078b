"""Word problems: people, families, animals, dates and times."""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from fractions import Fraction

from ..answers import corrections, notations, numbers, types
from ..answers.rules import AnswerRules, Dataset, Entry
from ..answers.shortcuts import SHOWN_NUMBER
from .declaration import A_NUMBER, A_TEXT, Clarification, Corrected, FieldLevels, Task, easy, wrong


def _repeats_number(entry: Entry) -> bool:
    """Return True if the first two numbers of the question are equal, so that confusing them has no effect."""
    first, second = SHOWN_NUMBER.findall(str(entry["question"]))[:2]
    return bool(first == second)


def _name_brother(entry: Entry, dataset: Dataset) -> str:
    """Say in the question whose brother the man is, because the library's question does not say this."""
    question = str(entry["question"])
    found = re.fullmatch(r"(\w+) has .* does (\w+)'s brother have\?", question)
    if found is None or found[1] == found[2]:
        return question
    return question.replace(f"{found[2]}'s brother", f"{found[2]}, a brother of {found[1]},")


def _count_colleagues(entry: Entry, dataset: Dataset) -> Corrected:
    """Add the two numbers of female colleagues in the question, and subtract 1.

    The library ignores the second number.
    """
    counts = re.findall(r"(\d+) female colleagues", str(entry["question"]))
    if len(counts) != 2:
        return str(entry["answer"]), {}
    first, second = map(int, counts)
    return str(first + second - 1), {}  # both numbers include Matilda, but not the first person, who is a woman too


AIW = Task(
    "aiw",
    "logic",
    has_small_pool=True,
    question_counts=(8300, 1900, 6600, None, None, None),
    levels=(
        FieldLevels(
            ("max_entities",),
            (6, 8, 10, 12, 14, 16),
            "with max_entities 4, a number in the question is often the right answer",
        ),
    ),
    rejected=(easy("the first two numbers in the question are equal", _repeats_number),),
    right_answer=_count_colleagues,
    clarification=Clarification(
        "the question does not say how the man is related to the woman", "{James}, a brother of {Mary},", _name_brother
    ),
    answer=A_NUMBER,
)


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
    """Return the question with each date's own year. The library writes the start date's year after the end date."""
    first = f"{start:%A, %B} {start.day}"
    last = f"{end:%A, %B} {end.day}"
    dated = question.replace(f"{last}, {start.year}", f"{last}, {end.year}")
    return dated.replace(f"{first} to", f"{first}, {start.year} to")


CALENDAR_ARITHMETIC = Task(
    "calendar_arithmetic",
    "arithmetic",
    has_small_pool=True,
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
            "with three kinds of questions, too many questions ask about leap years, mostly with the answer No",
        ),
    ),
    clarification=Clarification(
        "the question does not say which of two numbers is the month, whether the year is a leap year, or in which "
        "year a span over New Year ends",
        "The year is {not} a leap year. / (month/day/year) / the year of each date",
        _clarify_calendar,
    ),
    answer=AnswerRules(numbers.number_or_text),
)

UNISEX_NAMES = frozenset({"Nova", "Phoenix", "Rain", "River", "Sage", "Sky", "Winter"})
"""Names that the library gives to men and to women."""

IN_LAWS = ("father-in-law", "mother-in-law")

SIBLINGS_CHILDREN = ("nephew", "niece")


def _has_unknown_sex(entry: Entry) -> bool:
    """Return True if neither the first person's name nor a marriage reveals whether the person is a man or a woman."""
    person = str(entry["metadata"]["person1"])
    if person not in UNISEX_NAMES:
        return False
    couples = re.findall(r"(\w+) is married to (\w+)\.", str(entry["question"]))
    partners = {partner for couple in couples for partner in couple if person in couple} - {person}
    return partners <= UNISEX_NAMES


def _name_relation(entry: Entry, dataset: Dataset) -> Corrected:
    """Name the relation of the first person to the second.

    The library's answer is the opposite relation for parents-in-law, and has the wrong sex for nephews and nieces.
    """
    metadata = entry["metadata"]
    relation = str(entry["answer"])
    is_man = metadata["person1"] in dataset.config.male_names
    if relation in IN_LAWS:
        relation = "son-in-law" if is_man else "daughter-in-law"
    elif relation in SIBLINGS_CHILDREN:
        relation = "nephew" if is_man else "niece"
    return relation, {"relationship": relation}


MAN_OR_WOMAN = "Choose a word that tells a man from a woman, such as mother or father, and not parent."


def _ask_for_sex(entry: Entry, dataset: Dataset) -> str:
    question = str(entry["question"])
    return f"{question} {MAN_OR_WOMAN}" if " is married to " in question else question


FAMILY_RELATIONSHIPS = Task(
    "family_relationships",
    "graphs",
    levels=(
        FieldLevels(
            ("min_family_size", "max_family_size"),
            ((4, 5), (5, 6), (6, 7), (8, 9), (10, 11)),
            "with three people, counts of words and letters in the question reveal the relation in 43 % of problems",
        ),
    ),
    rejected=(wrong("the question does not say whether the first person is a man or a woman", _has_unknown_sex),),
    right_answer=_name_relation,
    clarification=Clarification(
        "the question does not say whether words for both sexes, such as parent, are right", MAN_OR_WOMAN, _ask_for_sex
    ),
    answer=A_TEXT,
)

STORY_NUMBER = re.compile(r"\d+(?:\.\d+)?")

CUT_STORIES: Mapping[str, Callable[[Sequence[Fraction]], Fraction]] = {
    "leave early": lambda n: n[0] * (n[1] + (100 - n[1]) * n[2] / 100) / 100,
    "a pen pal": lambda n: (n[0] - n[1]) * n[2] * n[3] * n[4] / 60,
    "can decorate": lambda n: n[0] * n[1] / n[2],
    "all mentioned colors": lambda n: n[0] * (400 + 2 * n[1]) / 100,
    "vending machines": lambda n: (n[2] * (100 - n[4]) - n[3] * n[0]) / n[1],
    "walking trail": lambda n: n[3] + n[2] * n[3] / n[1] / 2,
    "tubes of paint": lambda n: n[0] / 2 + 3 * n[1],
    "left after paying": lambda n: n[0] - n[1] * n[2],
}
"""Stories of `gsm_symbolic` whose answer the library truncates to a whole number: a phrase of each story, and a
function that computes the exact answer from the story's numbers."""

STORY_WORDS = (
    (re.compile(r"\bin one month\?"), "in one month of 30 days?"),
    (
        re.compile(r"\bHow much more likely is it \(expressed as a percentage\) that\b"),
        "By how many percentage points is it more likely that",
    ),
    (re.compile(r"\bspent (\S+) and got\b"), r"started with \1, got"),
    (
        re.compile(r"There are (\d+) girls (.*) If there are (\d+) times the number of boys"),
        r"There are \1 girls \2 If there are \3 times as many boys as girls",
    ),
    (re.compile(r"\b(exercise for \d+|slew \d+) (the amount|as many)"), r"\1 times \2"),
    (re.compile(r"\b(get to ride the [^.]* \d+|writes it in full \d+)(?=[.,])"), r"\1 times"),
)
"""Patterns of wrong or missing words in stories, each with the correct words."""


def _is_cut_story(entry: Entry) -> bool:
    question = str(entry["question"])
    exact = next((answer for words, answer in CUT_STORIES.items() if words in question), None)
    if exact is None:
        return False
    numbers = [Fraction(number) for number in STORY_NUMBER.findall(question)]
    return exact(numbers) != Fraction(str(entry["answer"]))


def _rounds_half_a_dollar(entry: Entry) -> bool:
    question = str(entry["question"])
    return "to the nearest dollar" in question and re.search(r"\d\.50? per", question) is not None


def _clarify_story(entry: Entry, dataset: Dataset) -> str:
    question = str(entry["question"])
    for words, meant in STORY_WORDS:
        question = words.sub(meant, question)
    return question


GSM_SYMBOLIC = Task(
    "gsm_symbolic",
    "arithmetic",
    has_small_pool=True,
    question_counts=(None,),
    constructor_uses_seed=True,
    rejected=(
        wrong("the library truncates the exact answer to a whole number", _is_cut_story),
        wrong("the question does not say whether to round half a dollar up", _rounds_half_a_dollar),
    ),
    clarification=Clarification(
        "the question does not say how long a month is, whether a sum is owned or spent, which group of children is "
        "larger, what a number counts, or how to compare probabilities",
        "in one month of 30 days / started with {$9} / {3} times as many boys as girls / {3} times / "
        "By how many percentage points is it more likely",
        _clarify_story,
    ),
    answer=A_NUMBER,
)

ARMS = "Count the arms of a starfish as legs."
CLAWS = "Count the claws of crabs and lobsters as legs."


def _define_legs(entry: Entry, dataset: Dataset) -> str:
    animals = entry["metadata"]["animals"]
    said = "a list of animals."
    if "starfish" in animals:
        said += f" {ARMS}"
    if "crab" in animals or "lobster" in animals:
        said += f" {CLAWS}"
    return str(entry["question"]).replace("a list of animals.", said, 1)


LEG_COUNTING = Task(
    "leg_counting",
    "arithmetic",
    levels=(
        FieldLevels(
            ("min_animals", "max_animals"),
            ((2, 4), (9, 18), (18, 27), (27, 36)),
            "if the list has only one animal, the answer is usually 4",
        ),
    ),
    clarification=Clarification(
        "the question does not say whether a starfish has legs, or whether claws are legs",
        f"{ARMS} / {CLAWS}",
        _define_legs,
    ),
    answer=A_NUMBER,
)


def _names_several(entry: Entry) -> bool:
    """Return True if nobody or several people do what the question asks about. Only English questions are checked."""
    text, who, asked = str(entry["question"]).rpartition("Who ")
    activity = asked.split("?")[0]
    return bool(who) and text.count(f" {activity}.") != 1


NEEDLE_HAYSTACK = Task(
    "needle_haystack",
    "cognition",
    levels=(
        FieldLevels(
            ("min_num_statements", "max_num_statements"),
            (10, 100, 300, 600),
            "a question with 700 statements has over 20,000 characters",
        ),
    ),
    rejected=(wrong("several people, or nobody, do what the question asks about", _names_several),),
    answer=AnswerRules(types.text(blanks_count=False)),
)

DATES = "Dates are written month/day/year."

SECONDS = "Leave out the seconds that remain."

DAY = timedelta(days=1)


def _ends_before_start(entry: Entry) -> bool:
    start, end = moments(entry)
    return end < start


def _clarify_times(entry: Entry, dataset: Dataset) -> str:
    question = str(entry["question"])
    if not re.search(r"\b(?:[Aa]nswer|result) in ", question):
        return question
    added = [DATES] if re.search(r"\d\d/\d\d/\d", question) else []
    if question.endswith(" in D days, HH:MM."):
        start, end = moments(entry)
        added += [SECONDS] if (end - start) % timedelta(minutes=1) else []
    return " ".join([*added, question])


def _measure_time(entry: Entry, dataset: Dataset) -> Corrected:
    """Return the exact duration between the question's two times.

    The library ignores a time after a weekday, as in `(Monday) 14:30:45 +0000`, and truncates milliseconds.
    """
    if not set(re.findall(r"[^\W\d_]+", str(entry["answer"]))) <= {"day", "days"}:
        return str(entry["answer"]), {}  # a language other than English
    start, end = moments(entry)
    layout = str(entry["metadata"]["expected_format"])
    return write_duration(end - start, layout), {"start_time": str(start), "end_time": str(end)}


def moments(entry: Entry) -> tuple[datetime, datetime]:
    """Return the start and the end of the interval that a question describes."""
    shown = re.findall(r"(\d{4}-\d\d-\d\d) \([A-Z][a-z]+\) (\d\d:\d\d:\d\d [+-]\d{4})", str(entry["question"]))
    if len(shown) == 2:
        start, end = (datetime.strptime(f"{date} {time}", "%Y-%m-%d %H:%M:%S %z") for date, time in shown)
        return start, end
    metadata = entry["metadata"]
    return datetime.fromisoformat(metadata["start_time"]), datetime.fromisoformat(metadata["end_time"])


def write_duration(duration: timedelta, layout: str) -> str:
    """Write a duration, which must not be negative, in the format that a question names, such as `D days, HH:MM`."""
    days, rest = divmod(duration, DAY)
    if layout == "D days":
        return f"{days} days"
    milliseconds = round(rest / timedelta(milliseconds=1))
    if "D days" not in layout:
        milliseconds += days * 86_400_000
    hours, milliseconds = divmod(milliseconds, 3_600_000)
    minutes, milliseconds = divmod(milliseconds, 60_000)
    seconds, milliseconds = divmod(milliseconds, 1000)
    clock = f"{hours:02}:{minutes:02}"
    if "SS" in layout:
        clock += f":{seconds:02}"
    if "mmm" in layout:
        clock += f".{milliseconds:03}"
    return f"{days} days, {clock}" if "D days" in layout else clock


TIME_INTERVALS = Task(
    "time_intervals",
    "arithmetic",
    reads_clock=True,
    rejected=(wrong("the interval ends before it begins", _ends_before_start),),
    right_answer=_measure_time,
    clarification=Clarification(
        "the question does not say which of two numbers is the month, or whether to drop or round seconds",
        f"{DATES} / {SECONDS}",
        _clarify_times,
    ),
    verifier_flaw="a duration of zero earns a high score for most questions",
    answer=AnswerRules(notations.duration, correction=corrections.correct_time_intervals),
)
