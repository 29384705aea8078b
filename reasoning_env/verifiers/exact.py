"""Tell whether an answer is exactly right, from the whole answer.

A verifier of the library may pay in full for a number that is merely near, for the first thing in a text that fits, or
for a right answer beside another. Here the whole answer counts. An answer to a task with one right answer must be the
expected answer, but for blanks and case. Where many answers are right, or where a question asks for rounded numbers,
`CHECKS` has a function for the task.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction

from ..library_facts import FACTS
from .entries import Dataset, Entry
from .grammars import logic
from .literals import reject_duplicate_keys
from .readings import expected_forms, has_negative_nought

Check = Callable[[str, Entry, Dataset, float], bool]
"""Tells whether an answer to an entry of a dataset is exactly right; the number is the verifier's corrected score."""

DECIMAL = re.compile(
    r"[-+]?(?:\d{1,400}(?:\.(?P<places>\d{0,400}))?|\.(?P<bare>\d{1,400}))(?:[eE](?P<power>[-+]?\d{1,3}))?"
)
"""A decimal number with its places after the point and its power of ten: `-2.50`, `.5`, `1.23e+4`."""
EXACT = Fraction(0)
FLOAT_ERROR = Fraction(1, 10**9)
"""Relative error of right values that are calculated with floating-point numbers, far below the digits asked for."""


def is_exactly_right(task: str, answer: str, entry: Entry, dataset: Dataset, score: float) -> bool:
    """Tell whether the whole answer is right. `score` is the corrected score of the task's verifier, in [0, 1].

    A nought has a minus sign only if the expected answer has such a nought. The verifier of a task that is not in the
    table of facts has the last word.
    """
    if task in FACTS and has_negative_nought(answer, task) and not has_negative_nought(str(entry.get("answer")), task):
        return False
    check = CHECKS.get(task)
    if check is not None:
        return check(answer, entry, dataset, score)
    if task not in FACTS or entry.get("answer") is None:
        return score >= 1.0
    return score >= 1.0 and _is_expected(task, answer, entry)


def _is_expected(task: str, answer: str, entry: Entry) -> bool:
    """Tell whether an answer is the expected answer, but for blanks, case, or a form with the same content."""
    right = str(entry["answer"])
    case_counts = FACTS[task].case_counts
    forms = (answer, *expected_forms(answer.strip(), task, entry))
    return any(_same_text(form, right, case_counts=case_counts) for form in forms)


def _same_text(said: str, right: str, *, case_counts: bool) -> bool:
    """Tell whether two texts have the same words; no letter beyond ASCII stands for one of ASCII."""
    if case_counts or said.isascii() != right.isascii():
        return said.split() == right.split()
    return said.casefold().split() == right.casefold().split()


# ---- text beside the right answer

OTHER_CONTENT = re.compile(
    r"\b(?:not|never|no|none|neither|nor|or|either|wrong|false|deny|denies|cannot)\b|n['\u2019]t\b"
    r"|(?<![-=])>|[!?<%/^~\u00b1\u2248\u2260\u2264\u2265]",
    re.IGNORECASE,
)
"""A denial, an alternative or a sign that makes another answer of the right one beside it. An arrow is no such sign."""
NUMBER_TEXT = re.compile(r"[-+]?[\d.,]*\d")


def stands_beside_another(task: str, answer: str, entry: Entry) -> bool:
    """Tell whether an answer has the expected answer in it, and says something else too.

    `231`, `31/2`, `not 31` and `31 or 32` do where 31 is expected; `It is 31` does not. Answers to a task that is not
    in the table of facts never do.
    """
    if task not in FACTS:
        return False
    right = " ".join(str(entry.get("answer")).casefold().split())
    said = " ".join(answer.casefold().split())
    return bool(right) and right in said and says_otherwise(said, right)


def says_otherwise(answer: str, right: str) -> bool:
    """Tell whether the text around the first place of `right` in an answer makes it another answer."""
    before, _, after = answer.partition(right)
    if OTHER_CONTENT.search(f"{before} {after}"):
        return True
    if NUMBER_TEXT.fullmatch(right):
        return any(_value(number) != _value(right) for number in NUMBER_TEXT.findall(answer))
    return re.search(r"\d", before + after) is not None


def _value(number: str) -> float:
    try:
        return float(number.replace(",", ""))
    except ValueError:  # for example 1.2.3
        return math.nan


# ---- numbers


def is_rounded(said: str, right: Fraction, *, places: int, error: Fraction = EXACT) -> bool:
    """Tell whether a number is the right value, rounded to `places` decimals or to more.

    All digits of the number count: 2.674 is no rounding of 2.67. A rounded number may leave out noughts at its end.
    `error` is the relative error of the right value.
    """
    number = _number(said)
    match = DECIMAL.fullmatch(said.strip())
    if number is None or match is None:
        return False
    said_places = len(match["places"] or match["bare"] or "") - int(match["power"] or 0)
    half_unit = Fraction(1, 2) / Fraction(10) ** max(places, said_places)
    return abs(number - right) <= max(half_unit, abs(right) * error)


def has_right_digits(said: str, right: Fraction, *, digits: int) -> bool:
    """Tell whether a number is the right value, rounded to at least so many significant digits."""
    if right == 0:
        return _number(said) == 0
    return is_rounded(said, right, places=digits - 1 - math.floor(math.log10(abs(right))))


def _number(text: str) -> Fraction | None:
    """Return the value of a decimal number, None for other text."""
    text = text.strip()
    return Fraction(text) if DECIMAL.fullmatch(text) else None


def _exact_probability(answer: str, entry: Entry, dataset: Dataset, score: float) -> bool:
    """A fraction has the right value; a decimal number has at least three right significant digits."""
    terms = entry["metadata"]["rational"]
    right = Fraction(terms["numerator"], terms["denominator"])
    fraction = re.fullmatch(r"\s*(\d{1,100})\s*/\s*(\d{1,100})\s*", answer.replace(",", ""))
    if fraction is not None:
        return int(fraction[2]) > 0 and Fraction(int(fraction[1]), int(fraction[2])) == right
    return has_right_digits(answer, right, digits=3)


def _exact_power(answer: str, entry: Entry, dataset: Dataset, score: float) -> bool:
    """The question asks for three significant digits."""
    return has_right_digits(answer, Fraction(str(entry["answer"])), digits=3)


def _exact_complex(answer: str, entry: Entry, dataset: Dataset, score: float) -> bool:
    """The parts have exactly the right values; the verifier compares floating-point numbers."""
    parts = {abs(Fraction(part)) for part in entry["metadata"]["result"]}
    said = re.findall(r"\d{1,100}(?:\.\d{0,100})?(?:[eE][-+]?\d{1,2})?", answer)
    return score >= 1.0 and all(Fraction(number) in parts for number in said)


def _exact_candidate(answer: str, entry: Entry, dataset: Dataset, score: float) -> bool:
    """The number is the candidate, as the question shows it or as the library holds it, to three decimals or more.

    A candidate that comes several times may be shown with more digits in one place: 791,044.979, 7.910449790000001e+05.
    """
    metadata = entry["metadata"]
    solution = metadata["solution"]
    shown = zip(metadata["candidates"], metadata["formatted_candidates"], strict=True)
    right = {text.replace(",", "") for candidate, text in shown if candidate == solution} | {str(solution)}
    whole, dot, decimals = answer.partition(".")
    said = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", whole) + dot + decimals
    return any(is_rounded(said, Fraction(text), places=3) for text in right)


def _exact_numbers(answer: str, entry: Entry, dataset: Dataset, score: float) -> bool:
    """All numbers of a sorted list have the values of the question's numbers."""
    if score < 1.0:
        return False
    said = json.loads(answer.replace("'", '"'))
    return [_number(str(number)) for number in said] == [
        Fraction(right) for right in entry["metadata"]["sorted_numbers"]
    ]


ANGLE = re.compile(r"\s*([^\s\u00b0]+)\s*(?:\u00b0|\\circ|\^\\circ|degrees?)?\s*")
PLANE_POINT = re.compile(r"\s*(?P<bracket>\()?(?P<x>[^(),]+),(?P<y>[^(),]+)(?(bracket)\))\s*")
ANGLE_PLACES = 2
"""Decimals of an expected angle: the question asks for three, the library expects two."""
PLACES = 3
"""Decimals that the questions of `advanced_geometry` ask for."""


def _exact_geometry(answer: str, entry: Entry, dataset: Dataset, score: float) -> bool:
    """All numbers of the answer are right to the decimals that the question asks for."""
    metadata = entry["metadata"]
    right = str(entry["answer"])
    match metadata["task_type"]:
        case "angle_measure":
            angle = ANGLE.fullmatch(answer)
            exact = Fraction(metadata["angle_ABC_degrees"])
            return angle is not None and _is_measured(angle[1], right.rstrip("\u00b0"), exact, ANGLE_PLACES)
        case "orthocenter":
            point = PLANE_POINT.fullmatch(answer)
            expected = PLANE_POINT.fullmatch(right)
            if point is None or expected is None:
                return False
            terms = zip(point.group("x", "y"), expected.group("x", "y"), map(Fraction, metadata["ortho"]), strict=True)
            return all(_is_measured(said, shown, exact, PLACES) for said, shown, exact in terms)
        case _:
            return _is_measured(answer, right, Fraction(metadata["incircle_radius_approx"]), PLACES)


def _is_measured(said: str, shown: str, exact: Fraction, places: int) -> bool:
    """Tell whether a number is the expected one, or the exact value rounded to so many places or more."""
    number = _number(said)
    return number is not None and (
        number == _number(shown) or is_rounded(said, exact, places=places, error=FLOAT_ERROR)
    )


ROOT_PLACES = 4
"""Decimals that the questions of `polynomial_equations` ask for."""
TERM = re.compile(r"(?P<sign>[-+]?)(?P<factor>\d*)\*?(?P<name>[A-Za-z]?)(?:\*\*(?P<power>\d+))?")
"""A term of a polynomial without blanks: `-69*m**2`, `m`, `140`."""


def _exact_roots(answer: str, entry: Entry, dataset: Dataset, score: float) -> bool:
    """As many numbers as there are roots, each of them a root that is rounded or cut to four decimals.

    The question asks to round, and to round down where the fifth decimal is 5 or more.
    """
    roots = [Fraction(str(root)) for root in entry["metadata"]["real_solutions"]]
    said = answer.split(",")
    if len(said) != len(roots):
        return False
    numbers = [(number, part) for part in said if (number := _number(part)) is not None]
    if len(numbers) != len(roots):
        return False
    terms = _terms(str(entry["metadata"]["polynomial_expr"]))
    pairs = zip(sorted(numbers), sorted(roots), strict=True)
    return all(number == root or _is_root(text, root, terms) for (number, text), root in pairs)


def _terms(polynomial: str) -> dict[int, Fraction]:
    """Return the coefficients of a polynomial by power."""
    terms: dict[int, Fraction] = {}
    for match in TERM.finditer(polynomial.replace(" ", "")):
        if match["factor"] or match["name"]:
            power = int(match["power"] or 1) if match["name"] else 0
            terms[power] = terms.get(power, Fraction(0)) + Fraction(match["sign"] + (match["factor"] or "1"))
    return terms


def _is_root(said: str, expected: Fraction, terms: Mapping[int, Fraction]) -> bool:
    """Tell whether a number is an expected root, rounded or cut. Newton's steps make the expected root exact."""
    root = float(expected)
    for _ in range(3):
        value = sum(float(factor) * root**power for power, factor in terms.items())
        slope = sum(power * float(factor) * root ** (power - 1) for power, factor in terms.items() if power)
        if slope == 0.0:
            return False
        root -= value / slope
    exact = Fraction(root)
    unit = Fraction(1, 10**ROOT_PLACES)
    if abs(exact - expected) > unit:
        return False
    cut = math.trunc(exact / unit) * unit
    return _number(said) == cut or is_rounded(said, exact, places=ROOT_PLACES, error=FLOAT_ERROR)


def _exact_pool(answer: str, entry: Entry, dataset: Dataset, score: float) -> bool:
    """All cells, in rows as long as the expected ones, are right to two decimals."""
    right = entry["metadata"]["solution"]
    said = [line.split() for line in answer.strip().splitlines() if line.strip()]
    if [len(row) for row in said] != [len(row) for row in right]:
        return False
    return all(
        is_rounded(cell, Fraction(str(exact)), places=2)
        for row, exact_row in zip(said, right, strict=True)
        for cell, exact in zip(row, exact_row, strict=True)
    )


DAYS = re.compile(r"\s*(?P<days>\d{1,9})(?:\s+days?)?\s*", re.IGNORECASE)
CLOCK = re.compile(
    r"\s*(?:(?P<days>\d{1,9})\s+days?,\s*)?(?P<hours>\d{1,9}):(?P<minutes>\d\d)(?::(?P<seconds>\d\d(?:\.\d{1,9})?))?\s*",
    re.IGNORECASE,
)


def _exact_duration(answer: str, entry: Entry, dataset: Dataset, score: float) -> bool:
    """The answer is a duration and nothing else, as long as the expected one."""
    right = _duration(str(entry["answer"]))
    return right is not None and _duration(answer) == right


def _duration(text: str) -> Fraction | None:
    """Return the seconds of a duration, None for other text."""
    match = DAYS.fullmatch(text)
    if match is not None:
        return Fraction(86_400 * int(match["days"]))
    match = CLOCK.fullmatch(text)
    if match is None:
        return None
    hours = 24 * int(match["days"] or 0) + int(match["hours"])
    return 60 * (60 * Fraction(hours) + int(match["minutes"])) + Fraction(match["seconds"] or 0)


# ---- lists and JSON


def _parse_json(text: str) -> object:
    """Return the value of a whole JSON text, with decimal numbers as they are written; None for other text."""
    try:
        value: object = json.loads(text, object_pairs_hook=reject_duplicate_keys, parse_float=Decimal)
    except (ValueError, RecursionError, ArithmeticError):  # the last for an exponent that Decimal cannot hold
        return None
    return value


def _exact_json(answer: str, entry: Entry, dataset: Dataset, score: float) -> bool:
    """The whole answer is JSON with the expected value; true is no 1."""
    right = _parse_json(str(entry["answer"]))
    said = _parse_json(answer)
    return answer.strip() == str(entry["answer"]).strip() or (
        right is not None and said is not None and said == right and _kinds(said) == _kinds(right)
    )


def _kinds(value: object) -> list[bool]:
    """Return, for each plain value of a JSON value in order, whether it is a truth value."""
    waiting = [value]
    kinds = []
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting += [item[key] for key in sorted(item)]
        elif isinstance(item, list):
            waiting += item
        else:
            kinds.append(isinstance(item, bool))
    return kinds


def _whole_json(pattern: str) -> Check:
    """Check JSON whose values the verifier tries: its texts match `pattern`, and no key comes twice."""
    text = re.compile(pattern)

    def check(answer: str, entry: Entry, dataset: Dataset, score: float) -> bool:
        if score < 1.0:
            return False
        value = _parse_json(answer)
        return value is not None and all(text.fullmatch(item) for item in _texts(value))

    return check


AGENT = re.compile(r"Agent\[\d+(?:\.\d+)?,\s*\d+(?:\.\d+)?\]")
BOX_MOVE = re.compile(
    r"move\((?:box|target)_\w+,\s(?:target_\w+|square(?:_\d+(?:\.\d+)?){2}|square\[\d+(?:\.\d+)?,\s*\d+(?:\.\d+)?\])\)"
)


def _exact_plan(answer: str, entry: Entry, dataset: Dataset, score: float) -> bool:
    """The plan is JSON in which each agent has one move in a step."""
    steps = _parse_json(answer)
    if score < 1.0 or not isinstance(steps, list):
        return False
    moves = [move for step in steps if isinstance(step, dict) for move in step.items()]
    return all(AGENT.fullmatch(agent) and BOX_MOVE.fullmatch(str(move)) for agent, move in moves)


def _exact_partitions(answer: str, entry: Entry, dataset: Dataset, score: float) -> bool:
    """The list has each partition once."""
    said = _parse_json(answer)
    return score >= 1.0 and isinstance(said, list) and len(said) == len(entry["metadata"]["solution"])


def _texts(value: object) -> list[str]:
    """Return the texts in a JSON value, but no keys."""
    waiting = [value]
    found = []
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item
        elif isinstance(item, str):
            found.append(item)
    return found


def _exact_colours(answer: str, entry: Entry, dataset: Dataset, score: float) -> bool:
    """Each vertex has one colour, and nothing else has; true is no colour 1."""
    said = _parse_json(answer)
    if score < 1.0 or not isinstance(said, dict) or any(_kinds(said)):
        return False
    return sorted(said) == sorted(map(str, entry["metadata"]["puzzle"]["vertices"]))


def _exact_letters(answer: str, entry: Entry, dataset: Dataset, score: float) -> bool:
    """Each letter of the puzzle has one digit; the verifier takes the last of several."""
    letters = re.findall(r"([A-Z])\s*=\s*\d", answer)
    is_whole = re.fullmatch(r"\s*[A-Z]\s*=\s*\d\s*(?:,\s*[A-Z]\s*=\s*\d\s*)*", answer)
    return score >= 1.0 and is_whole is not None and len(set(letters)) == len(letters)


# ---- boards


def _exact_marks(answer: str, entry: Entry, dataset: Dataset, score: float) -> bool:
    """The verifier tries the cells; here the answer has nothing but 0 and 1, in rows as long as the expected ones."""
    rows = [line.split() for line in answer.strip().splitlines()]
    expected = [line.split() for line in str(entry["answer"]).strip().splitlines()]
    return (
        score >= 1.0
        and [len(row) for row in rows] == [len(row) for row in expected]
        and all(cell in ("0", "1") for row in rows for cell in row)
    )


def _exact_sums(answer: str, entry: Entry, dataset: Dataset, score: float) -> bool:
    """Any matrix with the given cells and sums, whose blanks hold the given numbers: several may fit."""
    metadata = entry["metadata"]
    puzzle = metadata["puzzle"]
    said = [line.split() for line in answer.strip().splitlines()]
    if [len(row) for row in said] != [len(row) for row in puzzle]:
        return False
    if not all(re.fullmatch(r"-?\d{1,9}", cell, re.ASCII) for row in said for cell in row):
        return False
    matrix = [[int(cell) for cell in row] for row in said]
    pairs = [pair for row, given in zip(matrix, puzzle, strict=True) for pair in zip(row, given, strict=True)]
    return (
        all(cell == given for cell, given in pairs if given)
        and sorted(cell for cell, given in pairs if not given) == sorted(metadata["candidate_numbers"])
        and all(sum(line[:-1]) == line[-1] for line in (*matrix, *zip(*matrix, strict=True)))
    )


def _exact_colour_grid(answer: str, entry: Entry, dataset: Dataset, score: float) -> bool:
    """The verifier reads the whole grid, but passes over lines that name a shape."""
    return score >= 1.0 and "Shape" not in answer


# ---- text


def _verified(answer: str, entry: Entry, dataset: Dataset, score: float) -> bool:
    """The verifier or its guard reads the whole answer by its own rules, and pays in full for right answers alone."""
    return score >= 1.0


def _exact_hexadecimal(answer: str, entry: Entry, dataset: Dataset, score: float) -> bool:
    """The question asks for a hexadecimal number; the verifier takes every base that Python's prefixes tell."""
    return score >= 1.0 and re.fullmatch(r"\s*[-+]?0[xX][0-9a-fA-F_]+\s*", answer, re.ASCII) is not None


def _exact_formula(answer: str, entry: Entry, dataset: Dataset, score: float) -> bool:
    """All variables of the formula are the question's; the verifier takes any text for a variable."""
    if score < 1.0:
        return False
    try:
        return logic.variables(logic.parse_formula(answer)) <= set(entry["metadata"]["variables"])
    except ValueError:
        return False


CONSTANT = re.compile(r"[A-Za-z](?:_?\d{1,3})?|const|constant|pi", re.IGNORECASE)
EXPRESSION_NAME = re.compile(r"[A-Za-z_]\w*")
"""A name in an expression: of a variable, or of a function, which has a parenthesis behind it."""
PARENTHESIS = re.compile(r"\s*\(")


def _exact_integral(answer: str, entry: Entry, dataset: Dataset, score: float) -> bool:
    """Constants have names of constants, such as C or C1: `never - x` is no integral, and X is no constant beside x."""
    if score < 1.0:
        return False
    variable = str(entry["metadata"]["variable"])
    found = EXPRESSION_NAME.finditer(answer)
    names = {name[0] for name in found if not PARENTHESIS.match(answer, name.end())} - {variable}
    return all(CONSTANT.fullmatch(name) and name.casefold() != variable.casefold() for name in names)


def _exact_but_blanks(answer: str, entry: Entry, dataset: Dataset, score: float) -> bool:
    """The letters are the expected ones, however far apart."""
    return score >= 1.0 and "".join(answer.casefold().split()) == "".join(str(entry["answer"]).casefold().split())


def _made_of(part: str, between: str = r"\s+") -> Check:
    """Check an answer that the verifier tries: it is made of parts with text that matches `between` between them."""
    pattern = re.compile(rf"\s*(?:{part})(?:(?:{between})(?:{part}))*\s*")

    def check(answer: str, entry: Entry, dataset: Dataset, score: float) -> bool:
        return score >= 1.0 and pattern.fullmatch(answer) is not None

    return check


def _exact_roles(answer: str, entry: Entry, dataset: Dataset, score: float) -> bool:
    """One claim about each person and nothing else, such as `Lily is a saint, and Logan is a sinner.`"""
    if score < 1.0:
        return False
    metadata = entry["metadata"]
    terms = metadata["knight_knave_terms"]
    roles = "|".join(re.escape(str(terms[term])) for term in ("knight", "knave"))
    claim = re.compile(
        rf"(?:and\s+)?([^\s.,;()]+)(?:\s*(?P<bracket>\()|\s)\s*(?:is\s+)?(?:an?\s+)?(?:{roles})(?!\w)(?(bracket)\s*\))[\s.,;]*",
        re.IGNORECASE,
    )
    names = []
    place = 0
    while place < len(answer):
        match = claim.match(answer, place)
        if match is None:
            return False
        names.append(match[1].casefold())
        place = match.end()
    return sorted(names) == sorted(str(name).casefold() for name in metadata["names"])


CHECKS: Mapping[str, Check] = {
    "advanced_geometry": _exact_geometry,
    "arc_agi": _exact_colour_grid,
    "bitwise_arithmetic": _exact_hexadecimal,
    "boxnet": _exact_plan,
    "codeio": _exact_json,
    "coin_flip": _exact_probability,
    "complex_arithmetic": _exact_complex,
    "countdown": _verified,
    "cryptarithm": _exact_letters,
    "figlet_font": _exact_but_blanks,
    "game_of_life": _exact_json,
    "graph_color": _exact_colours,
    "group_anagrams": _verified,
    "intermediate_integration": _exact_integral,
    "jugs": _whole_json(r"\s*(?:fill\s+\w|empty\s+\w|pour\s+\w->\w)\s*"),
    "kakurasu": _exact_marks,
    "knight_swap": _verified,
    "knights_knaves": _exact_roles,
    "n_queens": _verified,
    "needle_haystack": _exact_but_blanks,
    "number_format": _exact_candidate,
    "number_sorting": _exact_numbers,
    "palindrome_generation": _verified,
    "palindrome_partitioning": _exact_partitions,
    "polynomial_equations": _exact_roots,
    "polynomial_multiplication": _verified,
    "pool_matrix": _exact_pool,
    "power_function": _exact_power,
    "prime_factorization": _made_of(r"\d+", "\\s*\N{MULTIPLICATION SIGN}\\s*"),
    "propositional_logic": _exact_formula,
    "puzzle24": _verified,
    "quantum_lock": _made_of("[A-Ca-c]", r"\s*(?:->|[,;\u2192>-])?\s*(?:then)?\s*"),
    "rearc": _exact_colour_grid,
    "rubiks_cube": _made_of(r"\d*(?:[LRDUBF]w?|[XYZMES])'?\d*"),
    "rush_hour": _verified,
    "shortest_path": _verified,
    "simple_integration": _exact_integral,
    "sokoban": _verified,
    "survo": _exact_sums,
    "time_intervals": _exact_duration,
    "tower_of_hanoi": _made_of(r"Move disk \d+ from Peg \d+ to Peg \d+[.,;]?", r"\s*\n\s*"),
    "word_ladder": _verified,
}
"""Tasks in which other answers than the expected text are right. The first line of each check says which."""
