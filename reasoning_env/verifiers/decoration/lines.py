"""Take off marks of lines and of parts: numbers, bullets, rules, emphasis, a full stop, emoji around an answer."""

from __future__ import annotations

import re


def without_full_stop(text: str) -> str | None:
    ends = text.endswith((".", "\N{IDEOGRAPHIC FULL STOP}")) and not text.endswith("..")
    return text[:-1].rstrip() if ends else None


NUMBERED = re.compile(r"\s*(?:\(?|[Ss]tep |[Rr]ow |[Mm]ove |[Ll]ine )(\d{1,5})[.):]\s+(\S.*)", re.ASCII)
"""A line with a number: `1. up`, `(1) up`, `Step 1: up`, `Row 1: 2 3`."""
BULLETED = re.compile(r"\s*(?P<bullet>[*\u2022-])\s+(?P<item>\S.*)")


def without_line_numbers(text: str) -> str | None:
    """Return several lines without their numbers, which count from 1."""
    matches = [NUMBERED.fullmatch(line) for line in text.split("\n") if line.strip()]
    items = [match[2] for number, match in enumerate(matches, 1) if match and int(match[1]) == number]
    return "\n".join(items) if len(items) == len(matches) > 1 else None


def without_bullets(text: str) -> str | None:
    """Return several lines without their bullets. Hyphens before nothing but numbers are signs."""
    matches = [BULLETED.fullmatch(line) for line in text.split("\n") if line.strip()]
    items = [match["item"] for match in matches if match]
    if len(items) < len(matches) or len(items) < 2 or len({match["bullet"] for match in matches if match}) > 1:
        return None
    if text.lstrip()[0] == "-" and not any(re.match(r"[^\W\d]|[\"'`#*]", item) for item in items):
        return None
    return "\n".join(items)


def without_quotation(text: str) -> str | None:
    """Return lines without the sign of a quotation before each.

    None for one line that could be a comparison, as in `> 5`. One with marks, as in `> **5**`, could not.
    """
    lines = text.split("\n")
    if not all(line.startswith("> ") for line in lines) or (len(lines) == 1 and not text.startswith(MARKED)):
        return None
    return "\n".join(line.removeprefix("> ") for line in lines)


MARKED = ("> **", "> `")
"""The beginnings of a quotation of one line."""
MARKDOWN_RULE = re.compile(r"-{3,}|\*{3,}")
"""A rule of Markdown. A line of underscores may be a row of a board."""


def without_rules(text: str) -> str | None:
    """Return a text without the rules before its first and after its last line."""
    lines = text.split("\n")
    first = 1 if MARKDOWN_RULE.fullmatch(lines[0]) else 0
    last = len(lines) - 1 if MARKDOWN_RULE.fullmatch(lines[-1]) else len(lines)
    return "\n".join(lines[first:last]).strip("\n")


EMPHASIS = re.compile(
    r"(?<![^\s(\[{\"',;:|-])(?P<mark>\*{1,3}|`|\$)(?P<inner>[^\s*`$](?:[^*`$\n]*[^\s*`$])?)(?P=mark)(?![^\s)\]}\"',;:.|])"
)
"""A part in bold, italics, backticks or dollars, with blanks or punctuation on both sides, so that powers are none."""


def without_emphasis(text: str) -> str | None:
    return EMPHASIS.sub(r"\g<inner>", text)


CHECK_MARKS = "\u2705\u2714\u2713\u2611\U0001f3af\U0001f3c6\u2b50\U0001f389"
"""Emoji that praise an answer. A cross would deny the answer."""
POINTERS = "\U0001f449\u27a1\U0001f4a1\U0001f537\U0001f539"
"""Emoji that point at what follows."""
POINTED_AT = re.compile(
    rf"(?s)(?P<before>[{CHECK_MARKS}{POINTERS}]\ufe0f?)?(?P<inner>[^{CHECK_MARKS}{POINTERS}]*)(?P<after>[{CHECK_MARKS}]\ufe0f?)?"
)


def without_check_marks(text: str) -> str | None:
    """Return a text without an emoji before and after it; None where emoji stand in the text, as on a board."""
    match = POINTED_AT.fullmatch(text)
    if match is None or not (match["before"] or match["after"]) or "\u274c" in text:
        return None
    return match["inner"].strip()
