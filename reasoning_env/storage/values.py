"""Types that check JSON values from files and other programs, and messages for invalid values.

A record whose fields have these types is checked when it is read. After the check, numbers and their sums are finite,
names are safe to print, and JSON has at most MAX_JSON_DEPTH levels.
"""

from __future__ import annotations

import json
from typing import Annotated

from pydantic import AfterValidator, Field, Strict, ValidationError

from ..runtime.text import printable

MAX_JSON_DEPTH = 64
"""Limit for the nesting of arbitrary JSON. Python cannot write or compare values with hundreds of levels."""


def _check_depth(value: object) -> object:
    level = [value]
    for _ in range(MAX_JSON_DEPTH + 1):
        containers = [item for item in level if isinstance(item, (dict, list))]
        if not containers:
            return value
        level = [child for item in containers for child in (item.values() if isinstance(item, dict) else item)]
    raise ValueError(f"is nested more than {MAX_JSON_DEPTH} levels deep")


# Strict types reject `true` and numbers in quotes.
Count = Annotated[int, Strict(), Field(ge=0, le=2**53)]
"""A whole number that every JSON reader represents exactly."""
Number = Annotated[float, Strict(), Field(ge=-1e9, le=1e9, allow_inf_nan=False)]
"""A finite number, bounded so that sums over all lines of a file stay finite."""
Time = Annotated[float, Strict(), Field(ge=0, le=1e11, allow_inf_nan=False)]
"""A time in seconds since 1970, until the year 5138."""
Share = Annotated[float, Strict(), Field(ge=0, le=1, allow_inf_nan=False)]
Name = Annotated[str, AfterValidator(printable)]
"""A string that is printed, such as the name of a task. Control characters are escaped."""
FreeJson = Annotated[object, AfterValidator(_check_depth)]
"""Any JSON value of limited depth."""


def describe(error: OSError | ValueError) -> str:
    """Return a short text, which is safe to print, that says why a file or a line cannot be read."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        text = f"{'.'.join(map(str, first['loc'])) or 'the content'}: {first['msg']}"
    elif isinstance(error, json.JSONDecodeError):
        # The decoder's message has a line number inside the string, which would contradict the line number of the file.
        text = f"not JSON ({error.msg} at character {error.pos} of {len(error.doc)})"
    elif isinstance(error, OSError):
        text = error.strerror or type(error).__name__
    else:
        text = str(error)
    return printable(text, limit=300)
