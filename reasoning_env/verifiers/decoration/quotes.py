"""Take off quotes, parentheses, and calls of Python that change nothing about their argument."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from ..literals import LiteralError, parse_literal
from .brackets import are_closed

QUOTES = (
    ('"""', '"""'),
    ("'''", "'''"),
    ('"', '"'),
    ("'", "'"),
    ("\N{LEFT DOUBLE QUOTATION MARK}", "\N{RIGHT DOUBLE QUOTATION MARK}"),
    ("\N{LEFT SINGLE QUOTATION MARK}", "\N{RIGHT SINGLE QUOTATION MARK}"),
    ("\N{DOUBLE LOW-9 QUOTATION MARK}", "\N{LEFT DOUBLE QUOTATION MARK}"),
    ("\N{DOUBLE LOW-9 QUOTATION MARK}", "\N{RIGHT DOUBLE QUOTATION MARK}"),
    ("\N{LEFT CORNER BRACKET}", "\N{RIGHT CORNER BRACKET}"),
    ("\N{LEFT-POINTING DOUBLE ANGLE QUOTATION MARK}", "\N{RIGHT-POINTING DOUBLE ANGLE QUOTATION MARK}"),
    ("``", "''"),
)
"""The marks before and after a quotation, which has none of them inside: `"a" or "b"` is no quotation."""


def without_quotes(text: str) -> str | None:
    for opening, closing in QUOTES:
        if text.startswith(opening) and text.endswith(closing) and len(text) > len(opening) + len(closing):
            inner = text[len(opening) : -len(closing)]
            if opening not in inner and closing not in inner:
                return inner.strip()
    return None


def without_quotes_around_json(text: str) -> str | None:
    """Return a list or an object that stands in quotes as it is: `["a"]` of `"["a"]"`."""
    if len(text) < 4 or text[0] not in "\"'" or text[0] != text[-1]:
        return None
    inner = text[1:-1].strip()
    return inner if inner[:1] in ("[", "{") and is_literal(inner) else None


STRING = re.compile(
    r"\"(?P<inner>(?:[^\"\\\n]|\\n(?![a-z])|\\u[0-9A-Fa-f]{4}|\\\")*)\"|'(?P<single>(?:[^'\"\\\n]|\\n(?![a-z])|\\u[0-9A-Fa-f]{4})*)'"
)
r"""A string of JSON or Python with its escapes; a backslash before other text is LaTeX's, as in `"\neg P"`."""


def decoded_string(text: str) -> str | None:
    """Return the value of a string with escaped quotes, newlines or characters."""
    match = STRING.fullmatch(text) if "\\" in text else None
    if match is None:
        return None
    value = json.loads(f'"{match["inner"] or match["single"]}"')
    return value if isinstance(value, str) else None


PAIR = re.compile(r"\(-?\d{1,3}(?:,\d{3})+\)")
"""Two or more numbers in parentheses, or one number with separators: nobody can tell."""


def without_parentheses(text: str) -> str | None:
    """Return the text within a pair of parentheses: `5` of `(5)`; None for `(5) or (6)`, and for `(3,355)`."""
    if PAIR.fullmatch(text):
        return None
    if len(text) < 3 or text[0] != "(" or text[-1] != ")" or not are_closed(text[1:-1], "(", ")"):
        return None
    return text[1:-1].strip()


def is_literal(text: str) -> bool:
    try:
        parse_literal(text)
    except (LiteralError, RecursionError):
        return False
    return True


def without_call(text: str) -> str | None:
    """Return the argument of a function that changes nothing about the argument: `3` of `int(3)`, not of `int(3.5)`."""
    match = CALL.fullmatch(text)
    if match is None:
        return None
    inner = match["inner"].strip()
    return inner if are_closed(inner, "(", ")") and CALLS[match["name"]].match(inner) else None


DECIMAL_PATTERN = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
CALLS: Mapping[str, re.Pattern[str]] = {
    **dict.fromkeys(("int", "Integer", "int32", "int64"), re.compile(r"([\"']?)[-+]?\d+\1$")),
    **dict.fromkeys(
        ("float", "float32", "float64", "Decimal", "Float", "num"), re.compile(rf"([\"']?){DECIMAL_PATTERN}\1$")
    ),
    **dict.fromkeys(("bool", "bool_"), re.compile(r"(?:True|False)$")),
    **dict.fromkeys(("list", "tuple"), re.compile(r"(?s)[\[(].*[\])]$")),
    **dict.fromkeys(("tensor",), re.compile(r"(?s)\[.*\]$")),
    **dict.fromkeys(("str", "print"), re.compile(r"(?!not\b)")),
}
"""Python's functions that change nothing about an argument that matches the pattern."""
CALL = re.compile(rf"(?s)(?:(?:np|numpy|torch|sp|sympy|decimal)\.)?(?P<name>{'|'.join(CALLS)})\((?P<inner>.*)\);?")
FRACTION_CALL = re.compile(
    r"(?:(?:fractions|sp|sympy)\.)?(?:Fraction|Rational)\((?:(?P<up>-?\d+),\s*(?P<down>\d+)|([\"'])(?P<both>-?\d+/\d+)\3)\)",
    re.ASCII,
)


def without_fraction_call(text: str) -> str | None:
    match = FRACTION_CALL.fullmatch(text)
    return None if match is None else match["both"] or f"{match['up']}/{match['down']}"
