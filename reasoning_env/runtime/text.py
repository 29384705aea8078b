"""Make text safe for terminals and for JSON. Imports no other module of the package."""

from __future__ import annotations

import json
import math
import os
import socket
from collections.abc import Callable, Mapping, Sequence


def printable(text: str, limit: int | None = None) -> str:
    """Return a string, cut to `limit` characters, in a form that is safe to print.

    Control characters, lone surrogates and marks that change the direction of writing are escaped after the cut.
    """
    cut = text if limit is None or len(text) <= limit else text[: limit - 1] + "…"
    if cut.isprintable():
        return cut
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in cut)


def pluralize(number: int, noun: str) -> str:
    """Return a number with its noun: `1 task`, `2,000 tasks`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def error_text(error: BaseException) -> str:
    """Return the class of an error and its message, if it has one, in one line."""
    name = type(error).__name__
    words = " ".join(str(error).split())
    return f"{name}: {words}" if words else name


def describe_connection(error: OSError) -> str:
    """Return why connecting or listening failed, such as `Connection refused` or `Name or service not known`."""
    if isinstance(error, TimeoutError):
        return "the connection timed out"
    # gaierror has its own error numbers. Use strerror, because the messages of asyncio's errors repeat the address.
    if error.errno is None or isinstance(error, socket.gaierror):
        return error.strerror or str(error)
    return os.strerror(error.errno)


def short(value: object) -> object:
    """Return what an error message shows: `value`, or `type(value)` if `repr(value)` has over 80 characters."""
    return value if len(repr(value)) <= 80 else type(value)


def redact(text: str, secrets: Sequence[str]) -> str:
    """Return the text with each secret of at least four characters replaced by `<key>`."""
    for secret in sorted(secrets, key=len, reverse=True):  # a secret may contain another secret
        if len(secret) >= 4:  # a shorter secret, such as the placeholder `x`, occurs in many words
            text = text.replace(secret, "<key>")
    return text


AsJson = Callable[[object], str | None]
"""Called with a value that JSON cannot represent. Returns a string to write instead, or None to write null."""

_encode = json.JSONEncoder(allow_nan=False).encode


def encode_strictly(value: object, *, number: AsJson = str, other: AsJson = str) -> str:
    """Return a value as strict JSON in ASCII. For `number` and `other`, see `json_value`."""
    try:
        return _encode(value)
    except (TypeError, ValueError):
        # Convert only if encoding failed, because the conversion is slow and rarely needed.
        return _encode(json_value(value, number=number, other=other))


def json_value(value: object, *, number: AsJson = str, other: AsJson = str) -> object:
    """Return the nearest value that strict JSON can represent: keys become strings, tuples and sets become lists.

    `number` converts infinity and NaN. `other` converts all other values that JSON cannot represent.
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
