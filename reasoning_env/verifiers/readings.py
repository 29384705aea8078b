"""Read an answer without what a model puts around it: a code fence, a box, emphasis, a full stop.

The reading is the same answer in the form that the question asked for. Nothing is searched for: what is taken off
stands around the whole answer, so that text beside the answer still counts against it.
"""

from __future__ import annotations

import re

FENCE = re.compile(r"(`{3,}|~{3,})[^\S\n]*[\w+-]*[^\S\n]*\n(.*)\n[^\S\n]*\1", re.DOTALL)
BOX = re.compile(r"\$?\\boxed\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}\$?", re.DOTALL)
BOLD = re.compile(r"(\*\*|__)((?:(?!\1\s|\s\1|\1\1).)+)\1", re.DOTALL)
"""Powers are written with the same sign, though with no blank beside it."""
BACKTICKS = re.compile(r"(`{1,2})([^`]+)\1")
WRAPPERS = ((FENCE, 2), (BOX, 1), (BOLD, 2), (BACKTICKS, 2))
"""Patterns of what may stand around an answer, with the group that holds it."""
MAX_WRAPPERS = 3
"""How many may stand around each other, such as a box in bold."""


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
    for pattern, group in WRAPPERS:
        match = pattern.fullmatch(text)
        if match is not None and match[group].strip():
            return match[group].strip("\n") if pattern is FENCE else match[group].strip()
    if full_stop and text.endswith(".") and not text.endswith("..") and len(text) > 1:
        return text[:-1].rstrip()
    return text
