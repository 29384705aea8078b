"""The type of boards: cells in rows, in whatever layout, written into the layout of the expected answer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from .literals import literal_value
from .numbers import rounds
from .types import AnswerType, Asked

CELL = r"(?:-(?![0.]+(?![\d.])))?\d+(?:\.\d+)?|[Q_\u2705\u274c]"
"""A cell of a board: the three in `12 _ 0.5`. A minus sign before a nought, as of a negated board, is no cell's."""
SHORT_CELL = r"(?:-(?!0))?\d|[Q_\u2705\u274c]"
"""A cell of a board whose cells have one character: the three in `12_`."""
BOARD_SIGNS = re.compile(r"[\s<>\u2227\u2228]*")
"""Text between the cells of an expected board: ` < ` in `1 < 2`."""
LAYOUT = r"\s,;|&\[\](){}'\"\u2500-\u257f"
EDGE = re.compile(f"[{LAYOUT}]*")
"""Text on a line without cells: `[[`, `]`. `-` in `-[1, 2]` is none."""
BEFORE = re.compile(r"[\s|\[\](){}'\"\u2500-\u257f]*")
"""Text before the cells of a line: `| ` or `[`, but no comma."""
AFTER = re.compile(rf"(?![^&]*&)[{LAYOUT}]*")
"""Text after the cells of a line: ` |`, `],`."""
BETWEEN = re.compile(rf"(?:[\0{LAYOUT}\u2192]|->)*")
"""Text between the cells of a line: `, `, ` | `, ` & ` and ` -> `."""
BETWEEN_COMPARED = re.compile(rf"[\0{LAYOUT}<>]*")
"""Text between the cells of a board with signs between them: ` < `."""
BETWEEN_ROWS = re.compile(rf"[{LAYOUT}\u2227\u2228^v]*")
"""A line of signs between the rows of such a board."""
BOARD_RULE = re.compile(r"(?=[^\n]*(?:[-=]{2}|:-:?|-:|\|-\||[\u2500-\u257f]))[\s|+:=\u2500-\u257f-]*")
"""A line of signs without cells: `+---+---+`, `|:---:|`, `|-|-|`."""
ENVIRONMENT = r"(?:[bpB]?matrix|smallmatrix|array|tabular|table|align(?:ed)?|gather(?:ed)?|equation|displaymath|center)"
MATRIX_LIMIT = re.compile(
    rf"\\(?:begin|end)\{{{ENVIRONMENT}\*?\}}(?:\{{[clr| ]{{1,2000}}\}})?|\\(?:hline|left|right)(?![a-z])"
)
r"""The beginning or end of a matrix in LaTeX. A vmatrix is a determinant, and no board."""
ROW_END = re.compile(r"\\\\(?:\[\d{1,3}[a-z]{2}\])?")
BOARD_BARS = re.compile(r"\\[lr]?[vV]ert|^[^\S\n]*\|{1,2}[^\S\n]*$|\0", re.MULTILINE)
r"""Bars around a whole board, which make a determinant: `\vert`, or on lines of their own; and our sign for a cell."""
QUOTE = re.compile("[\"']")
PRIME = re.compile(r"(?s)\s*[^\s\"'].*[\"'][\s,;]*")
"""A mark after a board, as of a transposed matrix: `[1 2; 3 4]'`. Quotes come in pairs around cells or rows."""
NORM = re.compile(r"\s*\|{1,2}[^|\n]*\|{1,2}\s*")
"""A single row between bars, as in `|3 4|`, which is a norm; a row of a table has bars between its cells too."""


def board(said: str, asked: Asked) -> str | None:
    """Read the cells of a board, right or wrong, into the expected layout; None for rows of other lengths."""
    layout = _layout(asked.right)
    if layout is None:
        return None
    cells = _cells(said, layout)
    if cells is None or not _has_signs_of(said, asked.right):
        return None
    return layout.write(cells)


def counts(names: Mapping[str, str]) -> AnswerType:
    """The type of counts in the order of some names, or each with its name.

    `names` has the kind of each name, which may stand before it, in singular or plural: `2 machines A`.
    """

    def read(said: str, asked: Asked) -> str | None:
        found = _named_counts(said, names)
        if found is None:
            return board(said, asked)
        in_order = [found.get(name) for name in names]
        return None if None in in_order else " ".join(map(str, in_order))

    return read


def _named_counts(said: str, names: Mapping[str, str]) -> dict[str, str] | None:
    """Return counts by their names: of `1 [A], 0 [B]`, `A: 1, B: 0` or an object of JSON; None for other text."""
    name = "|".join(
        rf"(?:(?i:{kind})s? )?{re.escape(name)}" if kind else re.escape(name) for name, kind in names.items()
    )
    pair = rf"(?P<q>[\"']?)(?P<named>{name})(?P=q)\s?[:=]\s?(?P<value>\d+)|(?P<count>\d+) (?P<after>{name})"
    joint = rf"\s*[,;\n]\s*(?:and\s)?|\sand\s|(?<=\d)\s(?=(?:{name})\s?[:=])|(?<=[A-Z\])}}])\s(?=\d+ (?:{name}))"
    inner = said[1:-1] if re.fullmatch(r"\{\s*[\"'].*\d\s*\}", said, re.DOTALL) else said
    matches = [re.fullmatch(pair, part) for part in re.split(joint, inner.strip()) if part]
    found = {
        (match["named"] or match["after"]).split()[-1]: match["value"] or match["count"]
        for match in matches
        if match is not None
    }
    return found if len(found) == len(matches) > 0 else None


def pooled(said: str, asked: Asked) -> str | None:
    """The type of a matrix of means, right to two decimals in each cell."""
    expected = _layout(asked.right)
    if expected is None:
        return None
    layout = replace(expected, cell=CELL)  # 8.00 is a cell, also where all right means are whole numbers
    cells = _cells(said, layout) or _cells(said, expected)
    if cells is None:
        return None
    exact = [Fraction(str(cell)) for row in asked.metadata["solution"] for cell in row]
    is_right = all(rounds(cell, value, places=2) for cell, value in zip(cells, exact, strict=True))
    return asked.right if is_right else layout.write(cells)


@dataclass(frozen=True)
class _Layout:
    """The form of an expected board: its text, the number of cells in each row, patterns of and between cells."""

    text: str
    lengths: tuple[int, ...]
    cell: str
    between: re.Pattern[str]

    def write(self, cells: list[str]) -> str:
        in_order = iter(cells)
        return re.sub(CELL, lambda match: next(in_order), self.text)


@lru_cache(maxsize=1)
def _layout(right: str) -> _Layout | None:
    """Return the layout of an expected board; None for an answer that is no board.

    The cache holds one board, because the answers of a group are scored one after the other.
    """
    rows = [row for row in (re.findall(CELL, line) for line in right.split("\n")) if row]
    if not rows or not BOARD_SIGNS.fullmatch(re.sub(CELL, "", right)):
        return None
    is_short = all(len(cell) == 1 for row in rows for cell in row) and len(rows) > 1
    between = BETWEEN_COMPARED if re.search("[<>\u2227\u2228]", right) else BETWEEN
    return _Layout(right, tuple(map(len, rows)), SHORT_CELL if is_short else CELL, between)


def _has_signs_of(said: str, right: str) -> bool:
    """Tell whether the signs between cells are those of the expected board: `1 > 2` is not `1 < 2`.

    A board may leave out its signs between columns, its signs between rows, or both.
    """
    signs = zip(_signs(said), _signs(right), strict=True)
    return all(between in ([], expected) for between, expected in signs)


def _signs(text: str) -> tuple[list[str], list[tuple[int, str]]]:
    """Return the signs between the columns of a board, and those between its rows, with the number of rows above."""
    between_rows = []
    rows = 0
    for line in text.split("\n"):
        if re.search(r"\d", line):
            rows += 1
        else:
            upright = line.translate({ord("^"): "\u2227", ord("v"): "\u2228"})
            between_rows += [(rows, sign) for sign in re.findall("[\u2227\u2228]", upright)]
    return re.findall("[<>]", text), between_rows


def _cells(said: str, layout: _Layout) -> list[str] | None:
    """Return the cells of a board whose rows have the expected lengths, whatever ends the rows; None for other text."""
    for text in dict.fromkeys((said, said.replace(";", "\n"))):
        rows = _rows(text, layout)
        if rows is not None and tuple(map(len, rows)) == layout.lengths:
            return [cell for row in rows for cell in row]
    return None


def _rows(said: str, layout: _Layout) -> list[list[str]] | None:
    """Return the rows of a board in any layout: lines, lists in a list, a LaTeX matrix.

    None for other text, and for a sign, a prime or bars beside the board, as in `-[[1, 2], [3, 4]]`.
    """
    said = ROW_END.sub("\n", MATRIX_LIMIT.sub("\n", said))
    said = _joined_texts(said, "\n" if len(layout.lengths) > 1 else " ")
    if BOARD_BARS.search(said) or NORM.fullmatch(said) or PRIME.fullmatch(said):
        return None
    lines = said.split("\n")
    if re.match(r"[\[(]\s*[\[(]", said):
        lines = re.findall(r"[\[(]([^\[\]()]*)[\])]", said)
        around = re.sub(r"[\[(][^\[\]()]*[\])]", "", said)
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
    """Return the cells of a line, [] for a line of signs between rows; None for other text."""
    if any(line.count(quote) % 2 for quote in "\"'"):
        return None
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


def _joined_texts(said: str, between: str) -> str:
    """Return a list of texts, such as the lines of a board, as one text; other text as it is."""
    if not re.match(r"\[\s*[\"']", said):
        return said
    lines = literal_value(said)
    if not isinstance(lines, list) or len(lines) < 2 or not all(isinstance(line, str) for line in lines):
        return said
    return between.join(lines)
