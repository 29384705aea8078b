"""Answer types of boards and matrices: read the cells in any layout, and write them in the expected layout."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from .literals import literal_value
from .numbers import rounds
from .types import AnswerType, ProblemData

CELL = r"(?:-(?![0.]+(?![\d.])))?\d+(?:\.\d+)?|[Q_\u2705\u274c]"
"""Pattern of a cell: `12 _ 0.5` has three cells. The `-` of `-0` does not match, so `-0` is unreadable."""
SHORT_CELL = r"(?:-(?!0))?\d|[Q_\u2705\u274c]"
"""Pattern of a cell in boards whose cells have one character: `12_` has three cells."""
BOARD_SIGNS = re.compile(r"[\s<>\u2227\u2228]*")
"""All characters between the cells of an expected board, such as ` < ` in `1 < 2`."""
LAYOUT = r"\s,;|&\[\](){}'\"\u2500-\u257f"
EDGE = re.compile(f"[{LAYOUT}]*")
"""A line without cells, such as `[[` or `]`. A `-` does not match, because `-[1, 2]` negates the board."""
BEFORE = re.compile(r"[\s|\[\](){}'\"\u2500-\u257f]*")
"""Characters before the first cell of a line, such as `| ` or `[`, but not a comma."""
AFTER = re.compile(rf"(?![^&]*&)[{LAYOUT}]*")
"""Characters after the last cell of a line, such as ` |` and `],`."""
BETWEEN = re.compile(rf"(?:[\0{LAYOUT}\u2192]|->)*")
"""Characters between the cells of a line, such as `, `, ` | `, ` & ` and ` -> `."""
BETWEEN_COMPARED = re.compile(rf"[\0{LAYOUT}<>]*")
"""Characters between the cells of a board with comparison signs, such as ` < `."""
BETWEEN_ROWS = re.compile(rf"[{LAYOUT}\u2227\u2228^v]*")
"""A line of comparison signs between the rows of a board."""
BOARD_RULE = re.compile(r"(?=[^\n]*(?:[-=]{2}|:-:?|-:|\|-\||[\u2500-\u257f]))[\s|+:=\u2500-\u257f-]*")
"""Pattern of a line that only separates rows: `+---+---+`, `|:---:|`, `|-|-|`."""
ENVIRONMENT = r"(?:[bpB]?matrix|smallmatrix|array|tabular|table|align(?:ed)?|gather(?:ed)?|equation|displaymath|center)"
MATRIX_LIMIT = re.compile(
    rf"\\(?:begin|end)\{{{ENVIRONMENT}\*?\}}(?:\{{[clr| ]{{1,2000}}\}})?|\\(?:hline|left|right)(?![a-z])"
)
r"""The beginning or end of a LaTeX matrix. A vmatrix is left out, because it is a determinant."""
ROW_END = re.compile(r"\\\\(?:\[\d{1,3}[a-z]{2}\])?")
BOARD_BARS = re.compile(r"\\[lr]?[vV]ert|^[^\S\n]*\|{1,2}[^\S\n]*$|\0", re.MULTILINE)
r"""Matches a determinant's bars, or a NUL, which marks a cell in `_row`."""
QUOTE = re.compile("[\"']")
PRIME = re.compile(r"(?s)\s*[^\s\"'].*[\"'][\s,;]*")
"""A string with a quote only at the end, as in the transposed matrix `[1 2; 3 4]'`."""
NORM = re.compile(r"\s*\|{1,2}[^|\n]*\|{1,2}\s*")
"""A single row with bars only at the ends, as in the norm `||3 4||`."""


def board(answer: str, problem: ProblemData) -> str | None:
    """Write an answer's cells in the expected layout; None if the size or a comparison sign contradicts the layout."""
    layout = _layout(problem.expected)
    if layout is None:
        return None
    cells = _cells(answer, layout)
    if cells is None or not _has_signs_of(answer, problem.expected):
        return None
    return layout.write(cells)


def counts(names: Sequence[str]) -> AnswerType:
    """Make an answer type for counts: numbers with names (`1 [A], 0 [B]`), or numbers in the order of `names`."""

    def read(answer: str, problem: ProblemData) -> str | None:
        found = _named_counts(answer, names)
        if found is None:
            return board(answer, problem)
        in_order = [found.get(name) for name in names]
        return None if None in in_order else " ".join(map(str, in_order))

    return read


def _named_counts(answer: str, names: Sequence[str]) -> dict[str, str] | None:
    """Parse names and their counts from `1 [A], 0 [B]`, `A: 1, B: 0` or a JSON object; None for any other string."""
    name = "|".join(map(re.escape, names))
    pair = rf"(?P<q>[\"']?)(?P<named>{name})(?P=q)\s?[:=]\s?(?P<value>\d+)|(?P<count>\d+) (?P<after>{name})"
    joint = rf"\s*[,;\n]\s*(?:and\s)?|\sand\s|(?<=\d)\s(?=(?:{name})\s?[:=])|(?<=[A-Z\])}}])\s(?=\d+ (?:{name}))"
    inner = answer[1:-1] if re.fullmatch(r"\{\s*[\"'].*\d\s*\}", answer, re.DOTALL) else answer
    matches = [re.fullmatch(pair, part) for part in re.split(joint, inner.strip()) if part]
    found = {
        match["named"] or match["after"]: match["value"] or match["count"] for match in matches if match is not None
    }
    return found if len(found) == len(matches) > 0 else None


def pooled(answer: str, problem: ProblemData) -> str | None:
    """Read a matrix of means. An answer is right if each cell is the mean, exact or rounded to two decimals or more."""
    expected = _layout(problem.expected)
    if expected is None:
        return None
    layout = replace(expected, cell=CELL)  # 8.00 is a cell, even if all right means are whole numbers
    cells = _cells(answer, layout) or _cells(answer, expected)
    if cells is None:
        return None
    exact = [Fraction(str(cell)) for row in problem.metadata["solution"] for cell in row]
    is_right = all(rounds(cell, value, places=2) for cell, value in zip(cells, exact, strict=True))
    return problem.expected if is_right else layout.write(cells)


@dataclass(frozen=True)
class _Layout:
    """An expected board (`text`), the number of cells of each row, and the patterns of cells and of separators."""

    text: str
    lengths: tuple[int, ...]
    cell: str
    between: re.Pattern[str]

    def write(self, cells: list[str]) -> str:
        in_order = iter(cells)
        return re.sub(CELL, lambda match: next(in_order), self.text)


@lru_cache(maxsize=1)  # all answers of a group belong to the same problem
def _layout(right: str) -> _Layout | None:
    """Return the layout of the expected answer `right`; None if `right` is not a board."""
    rows = [row for row in (re.findall(CELL, line) for line in right.split("\n")) if row]
    if not rows or not BOARD_SIGNS.fullmatch(re.sub(CELL, "", right)):
        return None
    is_short = all(len(cell) == 1 for row in rows for cell in row) and len(rows) > 1
    between = BETWEEN_COMPARED if re.search("[<>\u2227\u2228]", right) else BETWEEN
    return _Layout(right, tuple(map(len, rows)), SHORT_CELL if is_short else CELL, between)


def _has_signs_of(answer: str, right: str) -> bool:
    """Return True if the answer's comparison signs are those of the expected board.

    An answer may leave out the signs between columns, the signs between rows, or both.
    """
    signs = zip(_signs(answer), _signs(right), strict=True)
    return all(between in ([], expected) for between, expected in signs)


def _signs(text: str) -> tuple[list[str], list[tuple[int, str]]]:
    """Return the signs within rows, and a pair (number of rows above, sign) for each sign between rows."""
    between_rows = []
    rows = 0
    for line in text.split("\n"):
        if re.search(r"\d", line):
            rows += 1
        else:
            upright = line.translate({ord("^"): "\u2227", ord("v"): "\u2228"})
            between_rows += [(rows, sign) for sign in re.findall("[\u2227\u2228]", upright)]
    return re.findall("[<>]", text), between_rows


def _cells(answer: str, layout: _Layout) -> list[str] | None:
    """Return all cells of an answer in one list; None if it is no board, or has rows of unexpected lengths."""
    for text in dict.fromkeys((answer, answer.replace(";", "\n"))):
        rows = _rows(text, layout)
        if rows is not None and tuple(map(len, rows)) == layout.lengths:
            return [cell for row in rows for cell in row]
    return None


def _rows(answer: str, layout: _Layout) -> list[list[str]] | None:
    """Return the rows of a board, which may be lines, a list of lists or a LaTeX matrix; None for anything else."""
    answer = ROW_END.sub("\n", MATRIX_LIMIT.sub("\n", answer))
    answer = _joined_texts(answer, "\n" if len(layout.lengths) > 1 else " ")
    if BOARD_BARS.search(answer) or NORM.fullmatch(answer) or PRIME.fullmatch(answer):
        return None
    lines = answer.split("\n")
    if re.match(r"[\[(]\s*[\[(]", answer):
        lines = re.findall(r"[\[(]([^\[\]()]*)[\])]", answer)
        around = re.sub(r"[\[(][^\[\]()]*[\])]", "", answer)
        if not EDGE.fullmatch(around) or QUOTE.search(around):
            return None
    rows = []
    for line in lines:
        row = _row(line, layout)
        if row is None:
            return None
        if row:
            rows.append(row)
    return rows


def _row(line: str, layout: _Layout) -> list[str] | None:
    """Return the cells of a line: [] if the line only separates rows, None if the line is not part of a board."""
    if any(line.count(quote) % 2 for quote in "\"'"):
        return None  # an unpaired quote may be a prime, which transposes a matrix
    signs = re.sub(layout.cell, "\0", line)
    before, first_cell, rest = signs.partition("\0")
    if not first_cell:
        between_rows = BETWEEN_ROWS if layout.between is BETWEEN_COMPARED else EDGE
        return [] if between_rows.fullmatch(signs) or BOARD_RULE.fullmatch(signs) else None
    between, _, after = f"\0{rest}".rpartition("\0")
    if ("|" in before) != ("|" in after):
        return None  # bars around the whole board make a determinant
    if not (BEFORE.fullmatch(before) and AFTER.fullmatch(after) and layout.between.fullmatch(between)):
        return None
    runs = re.findall(r"\d+", line)
    if layout.cell == SHORT_CELL and len(runs) > 1 and any(len(run) > 1 for run in runs):
        return None  # `12 1` has cells of two digits, `121` may be three cells
    return re.findall(layout.cell, line)


def _joined_texts(answer: str, between: str) -> str:
    """Join the strings of an answer that is a list of strings. Return any other answer unchanged."""
    if not re.match(r"\[\s*[\"']", answer):
        return answer
    lines = literal_value(answer)
    if not isinstance(lines, list) or len(lines) < 2 or not all(isinstance(line, str) for line in lines):
        return answer
    return between.join(lines)
