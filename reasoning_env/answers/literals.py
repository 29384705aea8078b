"""Parse lists, dictionaries and numbers in JSON's or Python's notation, without Python's parser.

Python's notation is converted to JSON token by token, in linear time: `(1, 'a',)` becomes `[1, "a"]`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from decimal import Decimal

LITERAL_TOKEN = re.compile(
    r"\s*(?:(?P<string>\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')|(?P<number>[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)(?![\w.+-])"
    r"|(?P<name>[A-Za-z]+)|(?P<sign>[\[\](){},:]))",
    re.ASCII,
)
JSON_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,200})(?:\.\d{1,200})?(?:[eE][-+]?\d{1,2})?", re.ASCII)
NAMED_LITERALS = {"True": "true", "False": "false", "None": "null", "true": "true", "false": "false", "null": "null"}
OPENING = {"(": "[", "[": "[", "{": "{"}
CLOSING = {")": "]", "]": "]", "}": "}"}


def is_balanced(text: str) -> bool:
    """Return True if all parentheses come in matching pairs, as in `(a)(b)` but not `a)(b`."""
    depth = 0
    for mark in text:
        if mark in "()":
            depth += 1 if mark == "(" else -1
            if depth < 0:
                return False
    return depth == 0


def as_json(text: str) -> str | None:
    """Convert a literal in JSON's or Python's notation to JSON; None for any other string.

    JSON is returned unchanged. Numbers that JSON does not allow, such as `+5` or `07`, become strings.
    """
    if _is_json(text):
        return text
    written = _in_json(text.strip())
    return written if written is not None and _is_json(written) else None


def _is_json(text: str) -> bool:
    return json_value(text) is not None or text.strip() == "null"


def json_value(text: str) -> object:
    """Parse JSON without rounding decimal numbers; None for null, and if `text` is not JSON."""
    try:
        value: object = json.loads(
            text, parse_constant=_no_number, parse_float=Decimal, object_pairs_hook=_with_different_keys
        )
    except (ValueError, RecursionError, ArithmeticError):  # ArithmeticError: an exponent is too large for Decimal
        return None
    return value


def literal_value(text: str) -> object:
    """Return a literal's value; None if `text` is null or no literal. Tuples become lists, and keys become strings."""
    written = as_json(text)
    return None if written is None else json_value(written)


def _with_different_keys(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    """Make a dictionary from pairs. Raises ValueError for a repeated key, because one value would be lost."""
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("an object has the same key twice")
    return made


def _no_number(name: str) -> object:
    raise ValueError(f"{name} is not a number")


def _in_json(text: str) -> str | None:
    """Convert the tokens of a Python literal to JSON; None if `text` has a token that no literal has."""
    parts: list[str] = []
    position = 0
    while position < len(text):
        match = LITERAL_TOKEN.match(text, position)
        if match is None or (match["name"] and match["name"] not in NAMED_LITERALS):
            return None
        position = match.end()
        if match["string"]:
            parts.append(_string(match["string"]))
        elif match["number"]:
            number = match["number"]
            parts.append(number if JSON_NUMBER.fullmatch(number) else json.dumps(number))
        elif match["name"]:
            parts.append(NAMED_LITERALS[match["name"]])
        else:
            _add_sign(parts, match["sign"])
    return " ".join(parts)


def _add_sign(parts: list[str], sign: str) -> None:
    """Append a bracket, comma or colon. Remove a comma before a closing bracket; quote a number before a colon."""
    if sign in CLOSING:
        if len(parts) > 1 and parts[-1] == "," and parts[-2] not in ("[", "{", ","):
            parts.pop()
        parts.append(CLOSING[sign])
    elif sign == ":" and parts and JSON_NUMBER.fullmatch(parts[-1]):
        parts[-1] = f'"{parts[-1]}"'
        parts.append(":")
    else:
        parts.append(OPENING.get(sign, sign))


def _string(token: str) -> str:
    """Convert a Python string literal to a JSON string: unescape single quotes, and keep all other escapes."""
    return '"' + re.sub(r"(?s)\\(.)|\"", _escaped, token[1:-1]) + '"'


def _escaped(match: re.Match[str]) -> str:
    if match[0] == '"':
        return '\\"'
    return "'" if match[1] == "'" else match[0]
