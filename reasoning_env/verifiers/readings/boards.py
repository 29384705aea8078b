"""Read an answer as a board: cells in rows, in whatever layout."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from ..decoration.brackets import are_nested
from ..literals import LiteralError, parse_literal

BOARD_CELL = r"-?\d+(?:\.\d+)?|[Q_\u2705\u274c]"
"""A cell of a board: the three in `12 _ 0.5`."""
SHORT_CELL = r"-?\d|[Q_\u2705\u274c]"
"""A cell of a board whose cells have one character: the three in `12_`."""
BOARD_SIGNS = re.compile(r"[\s<>\u2227\u2228]*")
"""Text between the cells of an expected board: ` < ` in `1 < 2`."""
LAYOUT = r"\s,;|&\[\](){}'\"\u2500-\u257f"
EDGE = re.compile(f"[{LAYOUT}]*")
"""Text before or after the cells of a line in another layout: `[[` and `],`. `-` in `-[1, 2]` is none."""
BEFORE = re.compile(r"[\s|\[\](){}'\"\u2500-\u257f]*")
"""Text before the cells of a line in another layout: `| ` or `[`, but no comma."""
AFTER = re.compile(rf"(?![^&]*&)[{LAYOUT}]*")
"""Text after the cells of a line in another layout: ` |`, `],`."""
BETWEEN = re.compile(rf"(?:[\0{LAYOUT}\u2192]|->)*")
"""Text between the cells of a line in another layout: `, `, ` | `, ` & ` and ` -> `."""
BETWEEN_COMPARED = re.compile(rf"[\0{LAYOUT}<>]*")
"""Text between the cells of a board with signs between them: ` < `."""
UPRIGHT_SIGNS: Mapping[str, str] = {"^": "\u2227", "v": "\u2228"}
"""Letters for the signs between rows."""
BETWEEN_ROWS = re.compile(rf"[{LAYOUT}\u2227\u2228^v]*")
"""A line of signs between the rows of such a board."""
BOARD_RULE = re.compile(r"(?=[^\n]*(?:[-=]{2}|:-:?|-:|\|-\||[\u2500-\u257f]))[\s|+:=\u2500-\u257f-]*")
"""A line of signs without cells: `+---+---+`, `|:---:|`, `|:-:|`, `|-|-|`."""
TWO_PRIMES = re.compile(r"""[^\s,\[(](?:''|"")""")
"""Two quotes after text, which quote nothing: those in `[1, 2]''`."""
LATEX_ENVIRONMENT = (
    "(?:[bpB]?matrix|smallmatrix|array|tabular|table|align(?:ed)?|gather(?:ed)?|equation|displaymath|center)"
)
MATRIX_LIMIT = re.compile(
    rf"\\(?:begin|end)\{{{LATEX_ENVIRONMENT}\*?\}}(?:\{{[clr| ]{{1,2000}}\}})?|\\(?:left|right|hline)(?![a-z])"
)
r"""The beginning or end of a matrix in LaTeX: `\begin{bmatrix}`, `\left[\begin{array}{cc}`.

A vmatrix is a determinant, and no board.
"""
DETERMINANT = re.compile(r"\\[lr]?[vV]ert|^[^\S\n]*\|{1,2}[^\S\n]*$|\0", re.MULTILINE)
r"""Bars around a whole board, as in `\left| ... \right|` and on lines of their own; and our own sign for a cell."""
BEGUN = re.compile(r"\\begin\{([a-zB]{1,11})")
ENDED = re.compile(r"\\end\{([a-zB]{1,11})")
ROW_END = re.compile(r"\\\\(?:\[\d{1,3}[a-z]{2}\])?")
NORM = re.compile(r"\s*\|{1,2}[^|\n]*\|{1,2}\s*")
"""A single row between bars, as in `|3 4|`, which is a norm; a row of a table has bars between its cells too."""


def as_single_cell(said: str) -> str | None:
    """Return the cell of a matrix with one cell, such as `[[5]]`; None for other text."""
    rows = _rows(said, _BoardLayout([1], BOARD_CELL, BETWEEN))
    return rows[0][0] if rows is not None and [len(row) for row in rows] == [1] else None


def as_board(said: str, right: str) -> str | None:
    """Return the cells of a board in the expected layout; None for rows of other lengths than expected."""
    expected = _layout(right)
    if expected is None:
        return None
    if not _has_signs_of(said, right):
        return None
    for text in dict.fromkeys((said, said.replace(";", "\n"))):
        rows = _rows(text, expected)
        if rows is not None and [len(row) for row in rows] == expected.lengths:
            break
    else:
        return None
    in_order = iter([cell for row in rows for cell in row])
    return re.sub(BOARD_CELL, lambda match: next(in_order), right)


def _has_signs_of(said: str, right: str) -> bool:
    """Tell whether the signs between cells are those of the expected board: `1 > 2` is not `1 < 2`.

    A board may leave out its signs between columns, its signs between rows, or both.
    """
    return all(signs in ([], expected) for signs, expected in zip(_signs(said), _signs(right), strict=True))


def _signs(board: str) -> tuple[list[str], list[tuple[int, str]]]:
    """Return the signs between the columns of a board, and those between its rows, with the number of rows above."""
    between_rows = []
    rows = 0
    for line in board.split("\n"):
        if re.search(r"\d", line):
            rows += 1
        else:
            between_rows += [(rows, UPRIGHT_SIGNS.get(sign, sign)) for sign in re.findall("[\u2227\u2228^v]", line)]
    return re.findall("[<>]", board), between_rows


@dataclass(frozen=True)
class _BoardLayout:
    """The form of an expected board: the number of cells in each row, and the patterns of a cell and between cells."""

    lengths: list[int]
    cell: str
    between: re.Pattern[str]


@lru_cache(maxsize=1)
def _layout(right: str) -> _BoardLayout | None:
    """Return the layout of an expected board; None for an answer that is no board.

    The cache holds one board, because the answers of a group are scored one after the other.
    """
    cells = [re.findall(BOARD_CELL, line) for line in right.split("\n")]
    rows = [row for row in cells if row]
    if sum(len(row) for row in rows) < 2 or not BOARD_SIGNS.fullmatch(re.sub(BOARD_CELL, "", right)):
        return None
    is_short = all(len(cell) == 1 for row in rows for cell in row)
    between = BETWEEN_COMPARED if re.search("[<>\u2227\u2228]", right) else BETWEEN
    return _BoardLayout([len(row) for row in rows], SHORT_CELL if is_short else BOARD_CELL, between)


def _rows(said: str, expected: _BoardLayout) -> list[list[str]] | None:
    """Return the rows of a board in any layout: lines, lists in a list, a LaTeX matrix.

    None for other text, and for a sign beside the board, as in `-[[1, 2], [3, 4]]`.
    """
    if sorted(BEGUN.findall(said)) != sorted(ENDED.findall(said)):
        return None
    between = "\n" if len(expected.lengths) > 1 else " "
    said = _joined_texts(ROW_END.sub("\n", MATRIX_LIMIT.sub("\n", said)), between)
    if DETERMINANT.search(said):
        return None
    if not _has_pairs(said) or NORM.fullmatch(said):
        return None
    if re.match(r"[\[(]\s*[\[(]", said):
        lines = re.findall(r"[\[(]([^\[\]()]*)[\])]", said)
        if not EDGE.fullmatch(re.sub(r"[\[(][^\[\]()]*[\])]", "", said)):
            return None
    else:
        lines = said.split("\n")
    cell = expected.cell
    rows = []
    for line in lines:
        signs = re.sub(cell, "\0", line)
        before, first_cell, rest = signs.partition("\0")
        if first_cell:
            between, _, after = f"\0{rest}".rpartition("\0")
            if ("|" in before) != ("|" in after):
                return None  # bars around the whole board make a determinant
            is_layout = BEFORE.fullmatch(before) and AFTER.fullmatch(after) and expected.between.fullmatch(between)
        else:
            between_rows = BETWEEN_ROWS if expected.between is BETWEEN_COMPARED else EDGE
            is_layout = between_rows.fullmatch(signs) or BOARD_RULE.fullmatch(signs)
        if not is_layout:
            return None
        runs = re.findall(r"\d+", line)
        if cell == SHORT_CELL and len(runs) > 1 and any(len(run) > 1 for run in runs):
            return None  # `12 1` has cells of two digits, `121` may be three cells
        cells = re.findall(cell, line)
        if cells:
            rows.append(cells)
    return rows


def _has_pairs(said: str) -> bool:
    """Tell whether brackets and quotes come in pairs: those of `[1, 2]` do, those of `1 2)` and `1 2'` do not."""
    if TWO_PRIMES.search(said):
        return False
    return are_nested(said) and said.count("'") % 2 == said.count('"') % 2 == 0


def _joined_texts(said: str, between: str) -> str:
    """Return a list of texts, such as the lines of a board, as one text; other text as it is."""
    if not re.match(r"\[\s*[\"']", said):
        return said
    try:
        lines = parse_literal(said)
    except LiteralError:
        return said
    if len(lines) < 2 or not all(isinstance(line, str) for line in lines):
        return said
    return between.join(lines)
