"""Text that is safe to show. Imports nothing of the package."""

from __future__ import annotations

from collections.abc import Sequence


def visible(text: str, limit: int | None = None) -> str:
    """Return text of a model or of a file in a form that is safe to show.

    The result has at most `limit` characters. Control characters, lone surrogates and marks that change the direction
    of writing are escaped, because a terminal would obey them.
    """
    cut = text if limit is None or len(text) <= limit else text[: limit - 1] + "…"
    if cut.isprintable():
        return cut
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in cut)


def counted(number: int, noun: str) -> str:
    """Return a number and its noun: `1 task`, `2,000 tasks`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def short(value: object) -> object:
    """Return the value or, if its `repr` is long, what it is."""
    return value if len(repr(value)) <= 80 else type(value)


def redact(text: str, secrets: Sequence[str]) -> str:
    """Return the text without the secrets: a server may repeat a key in its error.

    Texts of less than four characters stay: `x` means no key, and is part of too many words.
    """
    for secret in sorted(secrets, key=len, reverse=True):  # one may be part of another
        if len(secret) >= 4:
            text = text.replace(secret, "<key>")
    return text
