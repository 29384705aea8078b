"""Tables of text for a terminal."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Collection, Sequence

GAP = "  "
PLAIN_WIDTH = 120
"""Columns of an output that is no terminal."""
LEAST_WIDTH = 40
"""Of the last column, however narrow the terminal is."""
UNBROKEN_SPACE = "\xa0"
"""A space at which no line ends; it is printed as any other."""


def format_table(headings: Sequence[str], rows: Sequence[Sequence[str]], numbers: Collection[str] = ()) -> list[str]:
    """The lines of an aligned table; the columns whose heading is in `numbers` are set to the right.

    Where a line would be wider than the terminal, its last cell goes on below itself.
    """
    cells = [headings, *rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    indent = sum(widths[:-1]) + len(GAP) * (len(widths) - 1)
    widths[-1] = min(widths[-1], max(LEAST_WIDTH, shutil.get_terminal_size((PLAIN_WIDTH, 24)).columns - indent))
    lines = []
    for row in cells:
        last, *more = textwrap.wrap(row[-1], widths[-1], break_on_hyphens=False) or [""]
        line = GAP.join(
            cell.rjust(width) if heading in numbers else cell.ljust(width)
            for cell, width, heading in zip((*row[:-1], last), widths, headings, strict=True)
        )
        lines += [line.rstrip(), *(" " * indent + other for other in more)]
    return [line.replace(UNBROKEN_SPACE, " ") for line in lines]
