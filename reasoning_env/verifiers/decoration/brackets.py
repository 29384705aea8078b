"""Tell whether brackets are closed, and take off text that encloses a whole answer."""

from __future__ import annotations

import re
from collections.abc import Callable

TakeOff = Callable[[str], str | None]
"""Returns an answer without a decoration; None for an answer that does not have the decoration."""


def around(pattern: str, *, has_braces: bool = False, keeps_blanks: bool = False) -> TakeOff:
    """Return the group `inner` of a pattern that matches the whole answer.

    With `has_braces`, all braces of the inner text must be closed. With `keeps_blanks` only newlines are stripped from
    several lines, since blanks may belong to the first line.
    """
    whole = re.compile(pattern)

    def take_off(text: str) -> str | None:
        match = whole.fullmatch(text)
        if match is None:
            return None
        if has_braces and not _has_closed_braces(match["inner"]):
            return None
        inner = match["inner"].strip("\n")
        return inner if keeps_blanks and "\n" in inner else inner.strip()

    return take_off


QUOTED_TEXT = re.compile(r"(?P<escape>\\.)|\"(?:[^\"\\\n]|\\.)*\"")
"""A text in quotes. Escapes outside of quotes match too, so that a quote which is never closed costs linear time."""


def _has_closed_braces(text: str) -> bool:
    """Tell whether each brace is closed, whether or not braces in quotes count: both `{a}` and `{"}"}` are closed."""
    return are_closed(text, "{", "}") or are_closed(QUOTED_TEXT.sub(r"\g<escape>", text), "{", "}")


def are_nested(text: str) -> bool:
    """Tell whether each bracket is closed by one of its kind: those of `[(a)]` are, those of `[(a])` are not."""
    waiting = []
    for mark in re.findall(r"[\[\](){}]", text):
        if mark in "[({":
            waiting.append(mark)
        elif not waiting or waiting.pop() + mark not in ("[]", "()", "{}"):
            return False
    return not waiting


def are_closed(text: str, opening: str, closing: str) -> bool:
    """Tell whether each brace is closed: those of `{a}{b}` are, those of `a}{b` are not."""
    depth = 0
    for mark in text:
        if mark == opening:
            depth += 1
        elif mark == closing:
            depth -= 1
            if depth < 0:
                return False
    return depth == 0
