"""Read an answer as the verifier expects it: without what stands around it, in the expected answer's own form.

The reading says what the answer says. Nothing is searched for: what is taken off stands around the whole answer, so
that text beside the answer still counts against it; and another form is read only where its content is the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any

from .entries import Entry
from .grammars.expressions import ExpressionError, parse_list

WRAPPERS = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        r"(?P<fence>`{3,}|~{3,})[^\S\n]*[\w+-]*[^\S\n]*\n(?P<inner>.*)\n[^\S\n]*(?P=fence)",
        r"\\\[(?P<inner>(?:(?!\\[\[\]]).)*)\\\]",
        r"\\\((?P<inner>(?:(?!\\[()]).)*)\\\)",
        r"\$\$(?P<inner>[^$]*)\$\$",
        r"\$(?P<inner>[^$]*)\$",
        r"\\(?:boxed|text|textbf|mathrm|mathbf)(?P<braces>\{)(?P<inner>.*)\}",
        r"(?P<mark>\*\*|__)(?P<inner>(?:(?!(?P=mark)\s|\s(?P=mark)|(?P=mark)(?P=mark)).)+)(?P=mark)",
        r"(?P<ticks>`{1,2})(?P<inner>[^`]+)(?P=ticks)",
    )
)
"""What may stand around an answer: a code fence, mathematics, a box, bold, backticks.

Powers are written with the sign of bold, though with no blank beside it.
"""
MAX_WRAPPERS = 5
"""How many may stand around each other, such as a box in display mathematics in bold."""

OPTIONS = frozenset({
    *("acre", "calendar_arithmetic", "color_cube_rotation", "course_schedule", "family_relationships"),
    *("game_of_life_halting", "isomorphic_strings", "knight_swap", "mahjong_puzzle", "needle_haystack"),
    *("ransom_note", "shortest_path", "syllogism", "zebra_puzzles"),
})  # fmt: skip
"""Tasks whose answers are words to choose from, so that their case says nothing."""
COMMAS: Mapping[str, str] = {
    "cryptarithm": ",",
    "word_ladder": ",",
    "word_sequence_reversal": ", ",
    "word_sorting": ", ",
}
"""What stands between the words of a list, by task."""
EXPRESSIONS = frozenset({
    *("countdown", "intermediate_integration", "polynomial_multiplication", "puzzle24", "simple_integration"),
})  # fmt: skip
SIGNS: Mapping[str, str] = {
    **dict.fromkeys(("\\times", "\\cdot", "\N{MULTIPLICATION SIGN}", "\N{MIDDLE DOT}", "\N{DOT OPERATOR}"), "*"),
    **dict.fromkeys(("\\div", "\N{DIVISION SIGN}"), "/"),
    **dict.fromkeys(("\\left", "\\right"), ""),
    "[": "(",
    "]": ")",
}
"""Signs of mathematics, as expressions in Python have them."""

NUMBER = re.compile(r"[-+]?(?:\d{1,200}(?:\.\d{0,200})?|\.\d{1,200})(?:[eE][-+]?\d{1,2})?", re.ASCII)
NAMED_NUMBER = re.compile(
    r"(?:[A-Za-z]\w{0,20}\s*=\s*)?[$\u20ac\u00a3]?(?P<number>[-+]?[\d.]{1,400}(?:[eE][-+]?\d{1,2})?)"
    r"(?:\s*(?P<unit>[A-Za-z]+(?: [A-Za-z]+){0,2}))?",
    re.ASCII,
)
FRACTION = re.compile(r"\\[dt]?frac\{(-?\d{1,50})\}\{(\d{1,50})\}|(-?\d{1,50})\s*/\s*(\d{1,50})", re.ASCII)
CELL = r"-?\d+(?:\.\d+)?|[Q_\u2705\u274c]"
SHORT_CELL = r"-?\d|[Q_\u2705\u274c]"
BOARD_SIGNS = re.compile(r"[\s<>\u2227\u2228]*")
"""What stands between the cells of an expected board."""
OTHER_SIGNS = re.compile(r"[\s\0<>\u2227\u2228^,;|+=:&\[\](){}'\"\u2500-\u257f-]*")
"""What may stand between the cells of a board that is laid out otherwise."""


def plain_reading(answer: str, *, full_stop: bool) -> str:
    """Return the answer without what wraps it and, with `full_stop`, without one at its end.

    CRLF, trailing blanks and Unicode's minus become plain too. Takes linear time.
    """
    text = "\n".join(line.rstrip() for line in answer.replace("\r\n", "\n").split("\n")).strip()
    text = text.replace("\N{MINUS SIGN}", "-")
    for _ in range(MAX_WRAPPERS):
        inner = _unwrapped(text, full_stop=full_stop)
        if inner == text:
            break
        text = inner
    return text


def _unwrapped(text: str, *, full_stop: bool) -> str:
    for pattern in WRAPPERS:
        match = pattern.fullmatch(text)
        if match is None or not match["inner"].strip():
            continue
        if "braces" in match.groupdict() and not _has_whole_braces(match["inner"]):
            continue
        return match["inner"].strip("\n") if "fence" in match.groupdict() else match["inner"].strip()
    if full_stop and text.endswith(".") and not text.endswith("..") and len(text) > 1:
        return text[:-1].rstrip()
    return text


def _has_whole_braces(text: str) -> bool:
    depth = 0
    for brace in re.findall("[{}]", text):
        depth += 1 if brace == "{" else -1
        if depth < 0:
            return False
    return depth == 0


def expected_form(said: str, task: str, entry: Entry) -> str | None:
    """Return an answer in the form of the expected one; None where it is of another kind or has other content.

    A number of the same value, a list with the same elements, a fraction or an option in another spelling becomes the
    expected answer itself. A board becomes its own cells in the expected layout, right or wrong.
    """
    if task in EXPRESSIONS:
        return _expression(said)
    if task == "prime_factorization":
        return _factors(said)
    if task == "time_intervals":
        return re.sub(r"(days?)\s+(?=\d)", r"\1, ", said.casefold())
    if entry.get("answer") is None or task == "bf":  # whose question asks for the exact output
        return None
    question, right = str(entry["question"]), str(entry["answer"])
    same = (
        (task in OPTIONS and said.strip("\"'").casefold() == right.casefold())
        or _is_same_number(said, right, question)
        or _is_same_fraction(said, right)
        or _is_same_list(said, right)
    )
    if same:
        return right
    return _words(said, task) or _board(said, right)


def _expression(said: str) -> str:
    said = re.sub(r"\\[dt]?frac\{([^{}]*)\}\{([^{}]*)\}", r"((\1)/(\2))", said)
    for sign, python in SIGNS.items():
        said = said.replace(sign, python)
    return said


def _factors(said: str) -> str | None:
    """Return numbers with another sign of multiplication between them in the expected form."""
    numbers = re.split(r"\s*(?:\\times|\\cdot|[*x\u00d7\u00b7\u22c5])\s*", said)
    return (
        " \N{MULTIPLICATION SIGN} ".join(numbers) if all(re.fullmatch("[0-9]+", number) for number in numbers) else None
    )


def _is_same_number(said: str, right: str, question: str) -> bool:
    if not NUMBER.fullmatch(right):
        return False
    match = NAMED_NUMBER.fullmatch(re.sub(r"(?<=\d)(?:,|\{,\}|\\,)(?=\d{3}(?!\d))", "", said))
    if match is None or not NUMBER.fullmatch(match["number"]):
        return False
    return Fraction(match["number"]) == Fraction(right) and _is_asked_for(match["unit"], question)


def _is_asked_for(unit: str | None, question: str) -> bool:
    """Tell whether the words after a number are the question's own, in singular or plural."""
    words = {word.removesuffix("s") for word in re.findall(r"[a-z]+", question.casefold())} - {"not", "no", "or"}
    return all(word.removesuffix("s") in words for word in (unit or "").casefold().split())


def _is_same_fraction(said: str, right: str) -> bool:
    """Tell whether two fractions have the same numerator and denominator: reduced ones are asked for."""
    matches = [FRACTION.fullmatch(text.strip("$")) for text in (said, right)]
    return None not in matches and len({tuple(filter(None, match.groups())) for match in matches if match}) == 1


def _is_same_list(said: str, right: str) -> bool:
    if not right.startswith("["):
        return False
    elements = _elements(said)
    return elements is not None and elements == _elements(right)


def _elements(text: str) -> Any:
    """Return a list with the values of its numbers, quoted or not; None for what is no list."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        try:
            value = parse_list(text)
        except ExpressionError:
            return None
    try:
        return _values(value) if isinstance(value, (list, tuple)) else None
    except RecursionError:
        return None


def _values(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_values(element) for element in value]
    if isinstance(value, bool) or value is None:
        return repr(value)
    if isinstance(value, int):
        return value
    return Fraction(str(value)) if NUMBER.fullmatch(str(value)) else value


def _words(said: str, task: str) -> str | None:
    """Return a list of words with the expected commas between them."""
    if task not in COMMAS:
        return None
    if not said.startswith("["):
        return re.sub(r"\s*,\s*", COMMAS[task], said)
    try:
        words = json.loads(said)
    except (ValueError, RecursionError):
        return None
    return COMMAS[task].join(words) if all(isinstance(word, str) for word in words) else None


def _board(said: str, right: str) -> str | None:
    """Return the cells of a board in the expected layout; None where its rows are not as long as the expected ones."""
    expected = _layout(right)
    if expected is None:
        return None
    lengths, cell = expected
    rows = _rows(said, cell)
    if rows is None or [*map(len, rows)] != lengths:
        return None
    in_order = iter([cell_said for row in rows for cell_said in row])
    return re.sub(CELL, lambda match: next(in_order), right)


@lru_cache(maxsize=1)
def _layout(right: str) -> tuple[list[int], str] | None:
    """Return the lengths of an expected board's rows and the pattern of its cells; None for what is no board.

    The answers of a group are scored one after the other.
    """
    cells = [re.findall(CELL, line) for line in right.split("\n")]
    rows = [row for row in cells if row]
    if sum(map(len, rows)) < 2 or not BOARD_SIGNS.fullmatch(re.sub(CELL, "", right)):
        return None
    short = all(len(cell) == 1 for row in rows for cell in row)
    return [*map(len, rows)], SHORT_CELL if short else CELL


def _rows(said: str, cell: str) -> list[list[str]] | None:
    """Return the rows of a board in any layout: lines, lists in a list, a LaTeX matrix."""
    said = re.sub(r"\\(?:begin|end)\{[a-z]{1,10}\}", "\n", said).replace("\\\\", "\n")
    inner = re.findall(r"\[([^\[\]]*)\]", said)
    lines = inner if re.match(r"\[\s*\[", said) else said.split("\n")
    rows = []
    for line in lines:
        # A v is a sign where no cell and no letter stands beside it.
        signs = re.sub(r"(?<![\w\0])v(?![\w\0])", " ", re.sub(cell, "\0", line))
        if not OTHER_SIGNS.fullmatch(signs):
            return None
        runs = re.findall(r"\d+", line)
        if cell == SHORT_CELL and len(runs) > 1 and any(len(run) > 1 for run in runs):
            return None
        cells = re.findall(cell, line)
        if cells:
            rows.append(cells)
    return rows
