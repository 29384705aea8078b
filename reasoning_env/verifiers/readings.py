"""Read an answer as the verifier expects: without wrappers, and in the form of the expected answer.

A reading has the content of the answer. Nothing is searched for: only a wrapper around the whole answer is taken off,
and text beside the answer still counts against the answer. An answer gets the form of the expected answer only if both
have the same content.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from ..library_facts import AnswerForm, facts
from .entries import Entry
from .grammars.expressions import ExpressionError, parse_list


@dataclass(frozen=True)
class Wrapper:
    """Text around an answer.

    `pattern` matches the whole text, and the group `inner` is the answer. `example` is a text that matches, and
    `reading` the answer in the example. With `has_braces`, all braces of the answer must be closed. With `keeps_blanks`
    only newlines are stripped from the answer, since blanks may belong to the first line.
    """

    pattern: re.Pattern[str]
    example: str
    reading: str
    has_braces: bool = False
    keeps_blanks: bool = False

    def match(self, text: str) -> str | None:
        """Return the answer in a text; None for a text without this wrapper."""
        match = self.pattern.fullmatch(text)
        if match is None or not match["inner"].strip():
            return None
        if self.has_braces and not _has_whole_braces(match["inner"]):
            return None
        return match["inner"].strip("\n") if self.keeps_blanks else match["inner"].strip()


WRAPPERS: Mapping[str, Wrapper] = {
    "code fence": Wrapper(
        re.compile(r"(?s)(?P<fence>`{3,}|~{3,})[^\S\n]*[\w+-]*[^\S\n]*\n(?P<inner>.*)\n[^\S\n]*(?P=fence)"),
        "```python\n  1 2\n3 4\n```",
        "  1 2\n3 4",
        keeps_blanks=True,
    ),
    "display mathematics": Wrapper(re.compile(r"(?s)\\\[(?P<inner>(?:(?!\\[\[\]]).)*)\\\]"), r"\[ 16 \]", "16"),
    "inline mathematics": Wrapper(re.compile(r"(?s)\\\((?P<inner>(?:(?!\\[()]).)*)\\\)"), r"\( 16 \)", "16"),
    "two dollars": Wrapper(re.compile(r"\$\$(?P<inner>[^$]*)\$\$"), "$$16$$", "16"),
    "dollar": Wrapper(re.compile(r"\$(?P<inner>[^$]*)\$"), "$16$", "16"),
    "LaTeX command": Wrapper(
        re.compile(r"(?s)\\(?:boxed|text|textbf|mathrm|mathbf)\{(?P<inner>.*)\}"),
        r"\boxed{{1, 2}}",
        "{1, 2}",
        has_braces=True,
    ),
    # A power is written with the sign of bold, but with no blank beside the sign: 2**3 stays.
    "bold": Wrapper(
        re.compile(r"(?s)(?P<mark>\*\*|__)(?P<inner>(?:(?!(?P=mark)\s|\s(?P=mark)|(?P=mark)(?P=mark)).)+)(?P=mark)"),
        "**16**",
        "16",
    ),
    "backticks": Wrapper(re.compile(r"(?P<ticks>`{1,2})(?P<inner>[^`]+)(?P=ticks)"), "``16``", "16"),
}
"""Wrappers of answers, by name. The first that matches is taken off."""
MAX_WRAPPERS = 5
"""Number of wrappers that are taken off; a box in display mathematics in bold has three."""

SIGNS: Mapping[str, str] = {
    **dict.fromkeys(("\\times", "\\cdot", "\N{MULTIPLICATION SIGN}", "\N{MIDDLE DOT}", "\N{DOT OPERATOR}"), "*"),
    **dict.fromkeys(("\\div", "\N{DIVISION SIGN}"), "/"),
    **dict.fromkeys(("\\left", "\\right"), ""),
    "[": "(",
    "]": ")",
}
"""Signs of mathematics and their counterparts in Python's expressions: `[3 \\div 2]` becomes `(3 / 2)`."""

NUMBER = re.compile(r"[-+]?(?:\d{1,200}(?:\.\d{0,200})?|\.\d{1,200})(?:[eE][-+]?\d{1,2})?", re.ASCII)
"""A decimal number: `16`, `-1.50`, `.5`, `1.6e1`."""
THOUSANDS = re.compile(r"(?<=\d)(?:,|\{,\}|\\,)(?=\d{3}(?!\d))")
"""The separator in `1,234`, `1{,}234` and `1\\,234`, all of which become `1234`; there is none in `1,2345`."""
NAMED_NUMBER = re.compile(
    r"(?:[A-Za-z]\w{0,20}\s*=\s*)?[$\u20ac\u00a3]?(?P<number>[-+]?[\d.]{1,400}(?:[eE][-+]?\d{1,2})?)"
    r"(?:\s*(?P<unit>[A-Za-z]+(?: [A-Za-z]+){0,2}))?",
    re.ASCII,
)
"""A number with its variable, currency or unit: `x = 16`, `$16`, `16 legs`."""
FRACTION = re.compile(r"\\[dt]?frac\{(-?\d{1,50})\}\{(\d{1,50})\}|(-?\d{1,50})\s*/\s*(\d{1,50})", re.ASCII)
r"""A fraction of whole numbers: `\frac{3}{4}`, `3 / 4`."""
LATEX_FRACTION = re.compile(r"\\[dt]?frac\{([^{}]*)\}\{([^{}]*)\}")
r"""A fraction of expressions: `\frac{8}{3 - 1}` becomes `((8)/(3 - 1))`."""
TIMES = re.compile(r"\s*(?:\\times|\\cdot|[*x\u00d7\u00b7\u22c5])\s*")
r"""The sign between factors: `2 x 3`, `2*3` and `2 \times 3` have the factors `2` and `3`."""
DAYS_BEFORE_CLOCK = re.compile(r"(days?)\s+(?=\d)")
"""Days without a comma: `3 days 04:05` becomes `3 days, 04:05`."""
COMMA = re.compile(r"\s*,\s*")
"""The comma of a list of words with any blanks: `cold ,cord` becomes `cold, cord`."""

CELL = r"-?\d+(?:\.\d+)?|[Q_\u2705\u274c]"
"""A cell of a board: the three in `12 _ 0.5`."""
SHORT_CELL = r"-?\d|[Q_\u2705\u274c]"
"""A cell of a board whose cells have one character: the three in `12_`."""
BOARD_SIGNS = re.compile(r"[\s<>\u2227\u2228]*")
"""Text between the cells of an expected board: ` < ` in `1 < 2`."""
OTHER_SIGNS = re.compile(r"[\s\0<>\u2227\u2228^,;|+=:&\[\](){}'\"\u2500-\u257f-]*")
"""Text between the cells of a board in another layout: `[[`, `, `, `], [` and `]]` in `[[1, 2], [3, 4]]`."""
LONE_V = re.compile(r"(?<![\w\0])v(?![\w\0])")
"""A v beside no cell and no letter, which is a sign between rows: both in `v   v`, none in `1v2`."""
MATRIX_LIMIT = re.compile(r"\\(?:begin|end)\{[a-z]{1,10}\}")
r"""The beginning or end of a matrix in LaTeX: `\begin{bmatrix}`."""


# ---- without wrappers


def plain_reading(answer: str, *, strip_full_stop: bool) -> str:
    """Return the answer without its wrappers and, with `strip_full_stop`, without a full stop at its end.

    CRLF becomes a newline, Unicode's minus a hyphen, and trailing blanks go. Takes linear time.
    """
    text = "\n".join(line.rstrip() for line in answer.replace("\r\n", "\n").split("\n")).strip()
    text = text.replace("\N{MINUS SIGN}", "-")
    for _ in range(MAX_WRAPPERS):
        inner = _unwrap(text, strip_full_stop=strip_full_stop)
        if inner == text:
            break
        text = inner
    return text


def _unwrap(text: str, *, strip_full_stop: bool) -> str:
    for wrapper in WRAPPERS.values():
        inner = wrapper.match(text)
        if inner is not None:
            return inner
    if strip_full_stop and text.endswith(".") and not text.endswith("..") and len(text) > 1:
        return text[:-1].rstrip()
    return text


def _has_whole_braces(text: str) -> bool:
    """Tell whether each brace is closed: those of `{a}{b}` are, those of `a}{b` are not."""
    depth = 0
    for brace in re.findall("[{}]", text):
        depth += 1 if brace == "{" else -1
        if depth < 0:
            return False
    return depth == 0


# ---- in the form of the expected answer


def expected_form(said: str, task: str, entry: Entry) -> str | None:
    """Return an answer in the form of the expected answer; None for an answer of another kind or content.

    A number of the same value, a list with the same elements, and a fraction or an option in another spelling become
    the expected answer. The cells of a board, right or wrong, are put into the expected layout.
    """
    row = facts(task)
    match row.reads_as:
        case AnswerForm.EXPRESSION:
            return _expression(said)
        case AnswerForm.FACTORS:
            return _factors(said)
        case AnswerForm.DURATION:
            return DAYS_BEFORE_CLOCK.sub(r"\1, ", said.casefold())
        case AnswerForm.EXACT:
            return None
    if entry.get("answer") is None:
        return None
    question = str(entry["question"])
    right = str(entry["answer"])
    if row.reads_as is AnswerForm.OPTION and said.strip("\"'").casefold() == right.casefold():
        return right
    if _is_same_number(said, right, question) or _is_same_fraction(said, right) or _is_same_list(said, right):
        return right
    words = _words(said, row.word_separator) if row.word_separator else None
    return words or _board(said, right)


def _expression(said: str) -> str:
    said = LATEX_FRACTION.sub(r"((\1)/(\2))", said)
    for sign, python in SIGNS.items():
        said = said.replace(sign, python)
    return said


def _factors(said: str) -> str | None:
    """Return whole numbers with the expected sign between the factors; None for other factors."""
    factors = TIMES.split(said)
    if not all(re.fullmatch("[0-9]+", factor) for factor in factors):
        return None
    return " \N{MULTIPLICATION SIGN} ".join(factors)


def _is_same_number(said: str, right: str, question: str) -> bool:
    if not NUMBER.fullmatch(right):
        return False
    match = NAMED_NUMBER.fullmatch(THOUSANDS.sub("", said))
    if match is None or not NUMBER.fullmatch(match["number"]):
        return False
    return Fraction(match["number"]) == Fraction(right) and _is_asked_for(match["unit"], question)


def _is_asked_for(unit: str | None, question: str) -> bool:
    """Tell whether the words after a number are the question's own, in singular or plural."""
    words = {word.removesuffix("s") for word in re.findall(r"[a-z]+", question.casefold())} - {"not", "no", "or"}
    return all(word.removesuffix("s") in words for word in (unit or "").casefold().split())


def _is_same_fraction(said: str, right: str) -> bool:
    """Tell whether two fractions have the same numerator and denominator: questions ask for reduced fractions."""
    parts = _fraction(said)
    return parts is not None and parts == _fraction(right)


def _fraction(text: str) -> list[str] | None:
    """Return numerator and denominator as written; None for text that is no fraction."""
    match = FRACTION.fullmatch(text.strip("$"))
    return None if match is None else [part for part in match.groups() if part]


def _is_same_list(said: str, right: str) -> bool:
    if not right.startswith("["):
        return False
    elements = _elements(said)
    return elements is not None and elements == _elements(right)


def _elements(text: str) -> list[object] | None:
    """Return the elements of a list, with the values of numbers, quoted or not; None for text that is no list."""
    value: object
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        try:
            value = parse_list(text)
        except ExpressionError:
            return None
    if not isinstance(value, (list, tuple)):
        return None
    try:
        return [_value(element) for element in value]
    except RecursionError:
        return None


def _value(element: object) -> object:
    if isinstance(element, (list, tuple)):
        return [_value(inner) for inner in element]
    if isinstance(element, bool) or element is None:
        return repr(element)
    if isinstance(element, int):
        return element
    text = str(element)
    return Fraction(text) if NUMBER.fullmatch(text) else element


def _words(said: str, separator: str) -> str | None:
    """Return a list of words with the expected separator between the words; None for a list of other elements."""
    if not said.startswith("["):
        return COMMA.sub(separator, said)
    try:
        words = json.loads(said)
    except (ValueError, RecursionError):
        return None
    return separator.join(words) if all(isinstance(word, str) for word in words) else None


def _board(said: str, right: str) -> str | None:
    """Return the cells of a board in the expected layout; None for rows of other lengths than expected."""
    expected = _layout(right)
    if expected is None:
        return None
    rows = _rows(said, expected.cell)
    if rows is None or [len(row) for row in rows] != expected.lengths:
        return None
    in_order = iter([cell for row in rows for cell in row])
    return re.sub(CELL, lambda match: next(in_order), right)


@dataclass(frozen=True)
class _Layout:
    """The form of an expected board: the number of cells in each row, and the pattern of a cell."""

    lengths: list[int]
    cell: str


@lru_cache(maxsize=1)
def _layout(right: str) -> _Layout | None:
    """Return the layout of an expected board; None for an answer that is no board.

    The cache holds one board, because the answers of a group are scored one after the other.
    """
    cells = [re.findall(CELL, line) for line in right.split("\n")]
    rows = [row for row in cells if row]
    if sum(len(row) for row in rows) < 2 or not BOARD_SIGNS.fullmatch(re.sub(CELL, "", right)):
        return None
    is_short = all(len(cell) == 1 for row in rows for cell in row)
    return _Layout([len(row) for row in rows], SHORT_CELL if is_short else CELL)


def _rows(said: str, cell: str) -> list[list[str]] | None:
    """Return the rows of a board in any layout: lines, lists in a list, a LaTeX matrix. None for other text."""
    said = MATRIX_LIMIT.sub("\n", said).replace("\\\\", "\n")
    inner = re.findall(r"\[([^\[\]]*)\]", said)
    lines = inner if re.match(r"\[\s*\[", said) else said.split("\n")
    rows = []
    for line in lines:
        signs = LONE_V.sub(" ", re.sub(cell, "\0", line))
        if not OTHER_SIGNS.fullmatch(signs):
            return None
        runs = re.findall(r"\d+", line)
        if cell == SHORT_CELL and len(runs) > 1 and any(len(run) > 1 for run in runs):
            return None  # `12 1` has cells of two digits, `121` may be three cells
        cells = re.findall(cell, line)
        if cells:
            rows.append(cells)
    return rows
