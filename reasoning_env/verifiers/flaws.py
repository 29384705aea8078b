"""Find problems that must not be served: wrong problems, and problems whose right answer takes no reasoning.

`REJECTED` has the rules of each task: the cause, the reason, and a test of an entry. `FAILURES` has the errors with
which the library ends on some seeds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from itertools import accumulate, groupby, zip_longest
from operator import itemgetter

from ..library_facts import facts
from ..problems.seeds import hash_int
from .clarifications import ONE_CONVERSION
from .entries import Entry
from .grammars.expressions import evaluate_exactly, parse_expression
from .grammars.logic import are_contradictory, concludes, follows_from_classes, share_of_guesses
from .moves import single_button_plans
from .right_answers import MAX_TERMS, moments
from .shortcuts import SHOWN_NUMBER, copies, filled_boards, has_one_blank, last_grid, turned_fills
from .unstable_programs import UNSTABLE_PROGRAMS, digest, shown_program

MANY_CELLS = 16
"""Cells of the smallest answer in which equal cells are a flaw."""
MAX_GUESSES = 0.2
"""The largest share of simple formulas that premises may imply, in [0, 1]."""
FACTORS = range(-3, 4)
"""Factors of the numbers in a rule that a reader of a sequence may find."""
MARKS_OF_A_RECTANGLE = 80
"""Marks (#) for each rectangle: the marks of a drawing over this number are right in a third of default problems."""


class Cause(StrEnum):
    """Why a problem is drawn again: the words of metrics and reports."""

    WRONG = "wrong"
    """Its expected answer is wrong, or its question has two meanings."""
    COPIED = "copied"
    """Its answer is a part of the question, or the question's board filled by a simple rule."""
    EASY = "easy"
    """A simple rule solves it."""
    UNWANTED = "unwanted"
    """Its answer is frequent, and its seed picks another answer."""


@dataclass(frozen=True)
class Flaw:
    """Why an entry must not be served. `reason` completes a sentence after "because"."""

    cause: Cause
    reason: str


@dataclass(frozen=True)
class RejectionRule:
    """A rule by which entries of a task are rejected: `applies` tells which entries."""

    cause: Cause
    reason: str
    applies: Callable[[Entry], bool]


@dataclass(frozen=True)
class FailureRule:
    """Errors with which the library ends on some seeds of a task, and why such a seed has no problem."""

    errors: tuple[type[BaseException], ...]
    reason: str


FAILURES: Mapping[str, FailureRule] = {
    "bf": FailureRule((RuntimeError,), "its program does not end"),
    "codeio": FailureRule(
        (TypeError, ValueError, RecursionError, SystemExit),
        "its program exits, or returns an object that JSON cannot hold",
    ),
}
"""Of `codeio`, the library itself catches errors of the program, but none of writing its output as JSON."""


def flaw_of_error(task: str, error: BaseException) -> Flaw | None:
    """Return the flaw of a seed on which the library ended with an error; None for an error that must be raised."""
    rule = FAILURES.get(task)
    return Flaw(Cause.WRONG, rule.reason) if rule is not None and isinstance(error, rule.errors) else None


def find_flaw(task: str, entry: Entry) -> Flaw | None:
    """Return why an entry must not be served, None if it may be served."""
    for rule in REJECTED.get(task, ()):
        if rule.applies(entry):
            return Flaw(rule.cause, rule.reason)
    if entry.get("answer") is None:
        return None
    if not str(entry["answer"]).strip():
        return Flaw(Cause.WRONG, "its right answer is empty")
    return _find_copy(task, str(entry["answer"]), str(entry["question"]))


def _says_a_word_twice(entry: Entry) -> bool:
    words = str(entry["answer"]).split()
    return len(set(words)) < len(words)


def _is_not_convex(entry: Entry) -> bool:
    return float(entry["answer"]) >= 180.0


def _has_two_signs(entry: Entry) -> bool:
    """Find even powers of negative numbers: `-3^2` is 9 or -9."""
    return float(entry["metadata"]["base"]) < 0 and int(entry["metadata"]["exponent"]) % 2 == 0


def _needs_members(entry: Entry) -> bool:
    """Find syllogisms whose answer is wrong, or right only if classes have members."""
    metadata = entry["metadata"]
    premises = metadata["premise1"], metadata["premise2"]
    follows = {follows_from_classes(premises, metadata["conclusion"], may_be_empty=empty) for empty in (False, True)}
    return follows != {entry["answer"] == "Yes"}


def _quantifiers(entry: Entry) -> list[tuple[str, bool]]:
    """Return the quantifiers of the premises and the conclusion, each with whether its statement is negated."""
    statements = [str(entry["metadata"][name]) for name in ("premise1", "premise2", "conclusion")]
    return [(text.split()[0], " are not " in text) for text in statements]


def _has_one_quantifier(entry: Entry) -> bool:
    return len(set(_quantifiers(entry))) == 1


def _has_all_and_some_not(entry: Entry) -> bool:
    return set(_quantifiers(entry)[:2]) == {("All", False), ("Some", True)}


def _ends_without_xor(entry: Entry) -> bool:
    return str(entry["metadata"]["final_gate"]) != "XOR"


def _names_one_number_twice(entry: Entry) -> bool:
    """Find questions whose first two numbers are equal, so that the solver need not choose between them."""
    first, second = SHOWN_NUMBER.findall(str(entry["question"]))[:2]
    return bool(first == second)


def _is_contradictory(entry: Entry) -> bool:
    return are_contradictory(entry["metadata"]["premises"])


def _needs_one_premise(entry: Entry) -> bool:
    return not concludes(entry["metadata"]["example_answer"], entry["metadata"]["premises"])


def _concludes_too_much(entry: Entry) -> bool:
    metadata = entry["metadata"]
    return share_of_guesses(metadata["premises"], metadata["variables"]) > MAX_GUESSES


def _is_solved_cube(entry: Entry) -> bool:
    metadata = entry["metadata"]
    return metadata["cube_size"] == 3 and not metadata["example_correct_answer"]


def _differ_in_letters(entry: Entry) -> bool:
    first, second = entry["metadata"]["words"]
    return len(set(first)) != len(set(second))


def _repeat_no_letter(entry: Entry) -> bool:
    return all(len(set(word)) == len(word) for word in entry["metadata"]["words"])


def _lacks_a_letter(entry: Entry) -> bool:
    return not set(entry["metadata"]["ransom_note"]) <= set(entry["metadata"]["magazine"])


def _need_each_other(entry: Entry) -> bool:
    needed = {(course, other) for course, other in entry["metadata"]["prerequisites"]}
    return any((other, course) in needed for course, other in needed)


def _needs_many(entry: Entry) -> bool:
    """Find small plans with many prerequisites, of which hardly any can be finished."""
    courses = len(entry["metadata"]["courses"])
    prerequisites = len(entry["metadata"]["prerequisites"])
    return courses <= 10 and prerequisites > 1.6 * courses


def _tells_by_conjunctions(entry: Entry) -> bool:
    """Find two people who are alike, and whose number of claims with `and` tells so.

    These are two knights who both say `and`, or both do not, and two knaves who both do. An eighth of the knights who
    do not stays: without these, a problem would take ten draws.
    """
    people = entry["metadata"]["solution"]
    if len(people) != 2 or len(set(people)) == 2:
        return False
    joined = sum(statement[0] in ("and", "<=>") for statement in entry["metadata"]["statements"])  # if and only if
    if joined == 0 and all(people):
        return hash_int("and", entry["question"]) % 8 > 0
    return joined == 2


def _is_coloured_blindly(entry: Entry) -> bool:
    """Find graphs for which a colouring that ignores the edges is right."""
    puzzle = entry["metadata"]["puzzle"]
    blind = colourings(len(puzzle["vertices"]), len(puzzle["color_options"]))
    return any(all(colour(start) != colour(end) for start, end in puzzle["edges"]) for colour in blind)


def colourings(vertices: int, colours: int) -> list[Callable[[int], int]]:
    """Return colourings, from a vertex's number to a colour's number: in turn, and in blocks."""
    return [lambda vertex: vertex % colours, lambda vertex: vertex * colours // vertices]


def _is_grouped_blindly(entry: Entry) -> bool:
    """Find words for which a grouping that ignores most letters is right: the anagrams stand together."""
    groups = entry["metadata"]["solution"]
    right = {frozenset(group) for group in groups}
    blind = groupings(entry["metadata"]["words"], [len(group) for group in groups])
    return any({frozenset(group) for group in grouping} == right for grouping in blind)


def groupings(words: Sequence[str], sizes: Sequence[int]) -> list[list[list[str]]]:
    """Return groupings that keep the order of words and need no reading.

    Neighbours of equal length, or with the same first letter; groups of the given sizes; groups of 2, 3, 4 and 5 words.
    """
    by_length = [list(group) for _, group in groupby(words, len)]
    by_letter = [list(group) for _, group in groupby(words, itemgetter(0))]
    by_sizes = [list(words[end - size : end]) for size, end in zip(sizes, accumulate(sizes), strict=True)]
    found = [by_length, by_letter, by_sizes]
    for size in (2, 3, 4, 5):
        found.append([list(words[at : at + size]) for at in range(0, len(words), size)])
    return found


def _has_other_captures(entry: Entry) -> bool:
    """Find boards where the expected move does not capture, or another move captures too."""
    board = entry["metadata"]["board"]
    answer = str(entry["answer"])
    right = (len(board) - int(answer[1:]), ord(answer[0]) - ord("A"))
    return _last_liberties(board) != {right}


def _last_liberties(board: Sequence[Sequence[str]]) -> set[tuple[int, int]]:
    """Return the empty points that are the only liberty of a group of connected white stones."""
    marks = {(row, column): mark for row, line in enumerate(board) for column, mark in enumerate(line)}
    found: set[tuple[int, int]] = set()
    seen: set[tuple[int, int]] = set()
    for start, mark in marks.items():
        if mark != "O" or start in seen:
            continue
        liberties: set[tuple[int, int]] = set()
        waiting = [start]
        while waiting:
            row, column = waiting.pop()
            if (row, column) in seen:
                continue
            seen.add((row, column))
            for point in ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)):
                if marks.get(point) == ".":
                    liberties.add(point)
                elif marks.get(point) == "O":
                    waiting.append(point)
        if len(liberties) == 1:
            found |= liberties
    return found


def _takes_one_button(entry: Entry) -> bool:
    metadata = entry["metadata"]
    plans = single_button_plans(metadata["buttons"], metadata["target_value"])
    presses = [len(plan.split()) for plan in plans]
    return len(metadata["solution_path"]) in presses


def _is_shortest(entry: Entry) -> bool:
    least, _ = entry["metadata"]["difficulty"]["dist"]
    return str(entry["answer"]) == str(least)


def _repeats_a_number(entry: Entry) -> bool:
    return str(entry["answer"]) in SHOWN_NUMBER.findall(str(entry["question"]))


def _obeys_another_rule(entry: Entry) -> bool:
    """Tell whether the numbers follow from the last two, in a linear rule that goes on to another answer.

    Such as -1, 1, 0, 1, 1, 2, where the sum of two numbers goes on with 3, and the library with 5: it squares first.
    """
    shown = [int(number) for number in SHOWN_NUMBER.findall(str(entry["question"]))]
    terms = list(zip(shown, shown[1:], shown[2:], strict=False))
    rules = [(p, q) for p in FACTORS for q in FACTORS if q and all(p * b + q * a == c for a, b, c in terms)]
    return len(terms) > 1 and any(p * shown[-1] + q * shown[-2] != int(entry["answer"]) for p, q in rules)


def _counts_land(entry: Entry) -> bool:
    land = " ".join(last_grid(str(entry["question"]))).split().count("1")
    return str(entry["answer"]) == str(land)


def _counts_marks(entry: Entry) -> bool:
    guess = round(str(entry["question"]).count("#") / MARKS_OF_A_RECTANGLE)
    return str(entry["answer"]) == str(guess)


def _loses_digits(entry: Entry) -> bool:
    """Find products and dividends of which floating-point numbers lost a digit: those of 16 digits and more."""
    metadata = entry["metadata"]
    a, b = map(Fraction, metadata["num1"])
    c, d = map(Fraction, metadata["num2"])
    real, imaginary = map(Fraction, metadata["result"])
    match metadata["operation"]:
        case "*":
            return (a * c - b * d, a * d + b * c) != (real, imaginary)
        case "/":
            return (c * real - d * imaginary, c * imaginary + d * real) != (a, b)
        case _:
            return False


def _is_cut_division(entry: Entry) -> bool:
    """Find expressions whose exact value is not the library's answer, since the library truncates each division."""
    expression = str(entry["metadata"]["expression"])
    value = evaluate_exactly(parse_expression(expression, MAX_TERMS))
    return str(value) != str(entry["answer"])


def _has_accents(entry: Entry) -> bool:
    """Find letters outside A to Z that are enciphered as letters of A to Z, as the library does with all letters.

    A fork in another language may have an alphabet of its own, whose letters stand in the cipher text.
    """
    return _has_foreign_letter(str(entry["answer"])) and not _has_foreign_letter(entry["metadata"]["cipher_text"])


def _has_foreign_letter(text: str) -> bool:
    return any(letter.isalpha() and not letter.isascii() for letter in text)


def _names_several(entry: Entry) -> bool:
    """Find haystacks in which another person does the same. Haystacks in another language are not read."""
    text, who, asked = str(entry["question"]).rpartition("Who ")
    activity = asked.split("?")[0]
    return bool(who) and text.count(f" {activity}.") != 1


def _ends_before_start(entry: Entry) -> bool:
    start, end = moments(entry)
    return end < start


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
"""Stories of `gsm_symbolic` whose answer the library cuts to a whole number: words of the story, and the exact answer
from the numbers in its text."""


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


UNISEX_NAMES = frozenset({"Nova", "Phoenix", "Rain", "River", "Sage", "Sky", "Winter"})
"""Names of the library's men and women that do not tell which of the two a person is."""


def _has_no_sex(entry: Entry) -> bool:
    """Find people whose relation depends on their sex, which neither their name nor their marriage tells."""
    person = str(entry["metadata"]["person1"])
    if person not in UNISEX_NAMES:
        return False
    couples = re.findall(r"(\w+) is married to (\w+)\.", str(entry["question"]))
    partners = {partner for couple in couples for partner in couple if person in couple} - {person}
    return partners <= UNISEX_NAMES


def _runs_too_long(entry: Entry) -> bool:
    """Find machines that are taken apart in more conversions than the rules may be applied.

    The question is clear where conversions are counted as applications.
    """
    question = str(entry["question"])
    limit = re.search(r"at most (\d+) times", question)
    if limit is None or ONE_CONVERSION in question:
        return False
    return len(entry["metadata"]["states"]) > int(limit[1])


WITHOUT_DEFINITE_OUTPUT = re.compile(
    r"\brandom\b|\brandint\b|\bshuffle\b|default_rng|\bdatetime\b.*\b(?:now|today)\(|\bdate\.today\(|\btime\.time\("
    r"|\blist\(set\(|\bin set\(|\burandom\b|\bsecrets\b|\buuid|tempfile|getcwd|os\.path|reasoning-env-"
)
"""Code whose output depends on chance, on the clock, on the order of a set, or on the machine's folders; and the name
of a worker's folder (`workers/fork_server.py`), which is another one in each process."""
MANY_DIGITS = 15
"""Significant digits of a number that is written to its last bit. The last bits depend on the release of Python and of
numpy, and on the processor's instructions: sums of floats have another last digit from Python 3.12 on."""


def _asks_for_any_input(entry: Entry) -> bool:
    return "predict a feasible input" in str(entry["question"])


def _has_no_definite_output(entry: Entry) -> bool:
    question = str(entry["question"])
    return WITHOUT_DEFINITE_OUTPUT.search(question) is not None or "np.float64(" in question


def _has_not_run(entry: Entry) -> bool:
    """Find programs that raised an error: the library then shows an empty input and an empty output."""
    metadata = entry["metadata"]
    return [metadata.get(name) for name in ("input_data", "output_data")] == [{}, {}]


def _has_last_bits(entry: Entry) -> bool:
    """Find outputs with a number that is written to its last bit."""
    numbers = re.findall(r"\d+\.\d+", str(entry["answer"]))
    return any(len(number.replace(".", "").lstrip("0")) >= MANY_DIGITS for number in numbers)


def is_unstable_program(entry: Entry) -> bool:
    """Find programs that were seen to depend on more than their input."""
    return digest(shown_program(str(entry["question"]))) in UNSTABLE_PROGRAMS


def _wrong(reason: str, applies: Callable[[Entry], bool]) -> RejectionRule:
    return RejectionRule(Cause.WRONG, reason, applies)


def _easy(reason: str, applies: Callable[[Entry], bool]) -> RejectionRule:
    return RejectionRule(Cause.EASY, reason, applies)


REJECTED: Mapping[str, Sequence[RejectionRule]] = {
    "aiw": (_easy("its first two numbers are the same", _names_one_number_twice),),
    "basic_arithmetic": (_wrong("one of its divisions has a remainder, which the library drops", _is_cut_division),),
    "caesar_cipher": (_wrong("a letter with an accent is enciphered like another letter", _has_accents),),
    "circuit_logic": (_easy("its final gate gives the same for nearly all inputs", _ends_without_xor),),
    "codeio": (
        _wrong("it asks for any feasible input, and one alone would be right", _asks_for_any_input),
        _wrong("its program raised an error", _has_not_run),
        _wrong("its output depends on chance, the clock or the machine", _has_no_definite_output),
        _wrong("its output has numbers whose last bits depend on the machine", _has_last_bits),
        _wrong("its program gave another output elsewhere, or for the input that is shown", is_unstable_program),
    ),
    "complex_arithmetic": (_wrong("its numbers are too long for the library's arithmetic", _loses_digits),),
    "course_schedule": (
        _easy("two of its courses need each other", _need_each_other),
        _easy("its few courses have so many prerequisites that hardly any such plan can be finished", _needs_many),
    ),
    "family_relationships": (_wrong("nothing tells whether its first person is a man or a woman", _has_no_sex),),
    "graph_color": (_easy("colours in turn or by blocks are right", _is_coloured_blindly),),
    "group_anagrams": (_easy("its words are grouped by counting or by their first letters", _is_grouped_blindly),),
    "gsm_symbolic": (
        _wrong("its answer is no whole number, and the library cuts it", _is_cut_story),
        _wrong("it rounds half a dollar", _rounds_half_a_dollar),
    ),
    "intermediate_integration": (
        _wrong("the library could not solve its own integral", lambda entry: "Integral(" in str(entry["answer"])),
    ),
    "isomorphic_strings": (
        _easy("its strings have different numbers of letters", _differ_in_letters),
        _easy("no letter comes twice, so that there is nothing to check", _repeat_no_letter),
    ),
    "knights_knaves": (
        _easy("the number of claims that say `and` tells whether both lie or neither does", _tells_by_conjunctions),
    ),
    "largest_island": (_easy("the count of land gives the answer", _counts_land),),
    "maze": (_easy("its way is as short as its parameters allow, as most are", _is_shortest),),
    "needle_haystack": (_wrong("several people do what it asks about, or nobody", _names_several),),
    "number_sequence": (
        _wrong("its numbers also fit a simple rule that continues differently", _obeys_another_rule),
        _easy("its answer is one of its numbers", _repeats_a_number),
    ),
    "polynomial_equations": (
        _easy("its only solution is 0", lambda entry: entry["metadata"]["real_solutions"] == [0]),
    ),
    "power_function": (_wrong("the sign of a negative base's even power is ambiguous", _has_two_signs),),
    "propositional_logic": (
        _wrong("its premises contradict each other, so that every statement follows", _is_contradictory),
        _easy("its example follows from a single premise", _needs_one_premise),
        _easy("it concludes too much, so that most guesses are right", _concludes_too_much),
    ),
    "quantum_lock": (_easy("one button alone is the best way", _takes_one_button),),
    "ransom_note": (_easy("its magazine lacks a letter altogether", _lacks_a_letter),),
    "rectangle_count": (_easy("the count of its marks gives the answer", _counts_marks),),
    "rubiks_cube": (_easy("its cube is solved already", _is_solved_cube),),
    "sentence_reordering": (
        _wrong("a word comes twice, and the expected order puts the two side by side", _says_a_word_twice),
    ),
    "simple_geometry": (_wrong("its convex polygon has an angle of 180 degrees or more", _is_not_convex),),
    "string_splitting": (_wrong("its rules are applied too often for its limit", _runs_too_long),),
    "syllogism": (
        _easy("all its statements have the same quantifier, which tells the answer", _has_one_quantifier),
        _easy("from All and Some not, in this order or the other, nothing follows", _has_all_and_some_not),
        _wrong("its answer is wrong, or depends on whether a class has members", _needs_members),
    ),
    "time_intervals": (_wrong("its interval ends before it begins", _ends_before_start),),
    "tsumego": (_wrong("another move captures stones, or its own does not", _has_other_captures),),
}


def _find_copy(task: str, answer: str, question: str) -> Flaw | None:
    """Return the flaw that the right answer is a part of the question, or its board filled by a simple rule.

    An option may stand in the question, and so may an answer of a task whose frequent answers are served equally often.
    """
    row = facts(task)
    makers = {} if row.options or row.frequent_answer else {"a part of the question": copies}
    if not has_one_blank(question):
        makers |= {"its board filled row by row": filled_boards, "its board filled from another corner": turned_fills}
    # One source after the other: each takes time, and the first fills find most flawed boards.
    for name, make_copies in makers.items():
        if any(same_content(text, answer) for text in make_copies(question).values()):
            return Flaw(Cause.COPIED, f"{name} is the right answer")
    cells = re.findall(r"\w+", answer)
    if len(cells) >= MANY_CELLS and len(set(cells)) == 1:
        return Flaw(Cause.COPIED, "all cells of its answer are alike")
    return None


def same_content(text: str, answer: str) -> bool:
    """Tell whether two texts have the same cells, with any separators and number formats."""
    return all(cell == expected for cell, expected in zip_longest(_cells(text), _cells(answer)))


def _cells(text: str) -> Iterator[object]:
    for match in re.finditer(r"[^\s,;|\[\](){}'\"]+", text):
        yield float(match[0]) if SHOWN_NUMBER.fullmatch(match[0]) else match[0]
