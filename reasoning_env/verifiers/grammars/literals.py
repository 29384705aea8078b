"""Read lists of plain values in model text, in place of `eval`.

Only brackets, commas, numbers, quoted strings and the three constants can be written. The text is checked token by
token before Python's literal parser sees it, so that nothing deep or long can exhaust that parser.
"""

from __future__ import annotations

import ast
import re
from typing import Any

MAX_DEPTH = 8
MAX_TOKENS = 20_000

TOKEN = re.compile(
    r"""(?P<blank>\s+)|(?P<opening>[\[(])|(?P<closing>[\])])|(?P<comma>,)"""
    r"""|(?P<number>[+-]?(?:\d{1,64}(?:\.\d{0,64})?|\.\d{1,64})(?:[eE][+-]?\d{1,3})?)"""
    r"""|(?P<text>'(?:[^'\\\n]|\\[^\n])*'|"(?:[^"\\\n]|\\[^\n])*")"""
    r"""|(?P<constant>True|False|None)""",
    re.ASCII,
)


class LiteralError(ValueError):
    """The text is not a literal of the grammar, or over one of its limits."""


def parse_literal(text: str) -> Any:
    """Return the value of a list, tuple, number or string. Raises LiteralError."""
    text = text.strip()
    position = depth = 0
    value_allowed = True
    for _ in range(MAX_TOKENS):
        if position == len(text):
            break
        match = TOKEN.match(text, position)
        if match is None:
            raise LiteralError(f"{text[position]!r} is no part of a literal")
        position = match.end()
        kind = match.lastgroup
        if kind == "blank":
            continue
        if (kind not in ("comma", "closing")) != value_allowed and not (kind == "closing" and value_allowed):
            raise LiteralError(f"{match[0]!r} is out of place")
        depth += (kind == "opening") - (kind == "closing")
        if not 0 <= depth <= MAX_DEPTH:
            raise LiteralError(f"brackets unbalanced or over {MAX_DEPTH} deep")
        value_allowed = kind in ("comma", "opening")
    else:
        raise LiteralError(f"over {MAX_TOKENS} parts")
    try:
        return ast.literal_eval(text)
    except (SyntaxError, TypeError, ValueError) as error:
        raise LiteralError(str(error)) from error
