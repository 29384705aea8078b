"""Text that is safe to pass on: to a terminal, and as JSON to any reader. Imports nothing of the package."""

from __future__ import annotations

import json
import math
import os
import socket
from collections.abc import Callable, Mapping, Sequence


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


def named(error: BaseException) -> str:
    """Return an error's class and, where it has some, its words, in one line."""
    name = type(error).__name__
    words = " ".join(str(error).split())
    return f"{name}: {words}" if words else name


def describe_connection(error: OSError) -> str:
    """Return why there is no connection, or no port to listen at: `Connection refused`, `Name or service not known`."""
    if isinstance(error, TimeoutError):
        return "no connection in time"
    # An unknown name of a host has a number of its own; asyncio puts the address into the words of the others.
    if error.errno is None or isinstance(error, socket.gaierror):
        return error.strerror or str(error)
    return os.strerror(error.errno)


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


AsJson = Callable[[object], str | None]
"""Returns what stands for a value that JSON lacks."""

_encode = json.JSONEncoder(allow_nan=False).encode


def encode_strictly(value: object, *, number: AsJson = str, other: AsJson = str) -> str:
    """Return a value as strict JSON in ASCII; `number` and `other` as for `json_value`."""
    try:
        return _encode(value)
    except (TypeError, ValueError):
        # Rare, so only such values take the slow walk over their parts.
        return _encode(json_value(value, number=number, other=other))


def json_value(value: object, *, number: AsJson = str, other: AsJson = str) -> object:
    """Return the nearest value that strict JSON can hold: keys become texts, and tuples and sets lists.

    `number` stands for a number that is not finite, `other` for any other value that JSON lacks: by default their text.
    """
    if isinstance(value, Mapping):
        return {str(key): json_value(item, number=number, other=other) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [json_value(item, number=number, other=other) for item in value]
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else number(value)
    return other(value)
