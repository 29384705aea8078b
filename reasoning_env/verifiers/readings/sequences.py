"""Read an answer as a list, a dictionary, a sequence of words or moves, solutions, claims, or letters with digits."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from fractions import Fraction

from ..literals import LiteralError, parse_literal
from .numbers import NUMBER

ARROW = re.compile(r"-{1,2}>|={1,2}>|[\u2192\u27f6\u21d2]|[,;\n]")
"""The sign between the elements of a sequence."""
SOLUTION_NAME = re.compile(
    r"(?P<name>[A-Za-z])(?:_\{?\d{1,2}\}?|\d{1,2}|[\u2080-\u2089]{1,2})?\s?(?:[:=\u2248]|\u2208(?=\s?\{))\s?|\u2248\s?"
)
"""The name before a solution: `x = `, `x_1: `, `x \u2208 ` before a set; solutions are rounded, so also `x \u2248 `."""
BETWEEN_SOLUTIONS = re.compile(r"[,;\n]\s*(?:(?:and|or)\b)?|\b(?:and|or)\b")
"""What stands between two solutions: `1, 2`, `1 or 2`, `1, or 2`."""
LETTER_VALUE = re.compile(r"([A-Z])\s?(?:=|:|->|\u2192)\s?(\d)")
"""A letter and its digit: `A = 1`, `A: 1`."""
QUOTED_SIGN = re.compile(r"(['\"])([A-Z\d])\1")
"""A letter or digit in quotes: those in `'A': '1'`."""


def as_json(said: str) -> str | None:
    """Return a list or dictionary of Python in JSON; None for other text, and for JSON."""
    if said[:1] not in ("[", "{", "("):
        return None
    try:
        json.loads(said)
    except (ValueError, RecursionError):
        pass
    else:
        return None
    try:
        return json.dumps(parse_literal(said))
    except (LiteralError, RecursionError):
        return None


JSON_WORDS: Mapping[str, str] = {"True": "true", "False": "false", "None": "null"}
"""Python's words and those of JSON."""


def as_json_string(said: str) -> str | None:
    """Return a string of Python in single quotes in JSON; None for other text."""
    try:
        text = parse_literal(said) if said[:1] == "'" else None
    except LiteralError:
        return None
    return json.dumps(text) if isinstance(text, str) else None


def is_same_list(said: str, right: str) -> bool:
    expected = _elements(right)
    elements = _elements(said)
    if elements is None and "," in said and said[:1] not in "[({":
        elements = _elements(f"[{said}]")
    if elements is None and isinstance(expected, list) and expected:
        elements = _elements(f"[{', '.join(_listed_numbers(said))}]")
    return elements is not None and elements == expected


def _listed_numbers(said: str) -> list[str]:
    """Return the numbers of `1 2`, `[1 2]` or lines; [] for other text."""
    inner = said[1:-1] if said[:1] == "[" and said[-1:] == "]" else said
    numbers = inner.split()
    return numbers if all(map(NUMBER.fullmatch, numbers)) else []


def _elements(text: str) -> object | None:
    """Return a list or dictionary with the values of numbers, quoted or not; None for other text."""
    try:
        value = parse_literal(text)
        return _value(value) if isinstance(value, (list, dict)) else None
    except (LiteralError, RecursionError):
        return None


def _value(element: object) -> object:
    if isinstance(element, list):
        return [_value(inner) for inner in element]
    if isinstance(element, dict):
        return {key: _value(inner) for key, inner in element.items()}
    if isinstance(element, bool) or element is None:
        return repr(element)
    if isinstance(element, int):
        return element
    text = str(element)
    return Fraction(text) if NUMBER.fullmatch(text) else element


def as_sequence(said: str, separator: str) -> str | None:
    """Return the elements of a sequence with the expected separator; None for text that is no sequence.

    Elements stand in a list, between commas, semicolons or arrows, or on lines; where the expected separator is no
    comma and no newline, also between blanks. Each may have quotes.
    """
    try:
        items = parse_literal(said) if said[:1] in ("[", "(") else None
    except LiteralError:
        items = None
    if items is None:
        bracketed = re.fullmatch(r"(?s)\[([^\[\]]*)\]|\(([^()]*)\)|\{([^{}]*)\}", said)
        inner = next(filter(None, bracketed.groups()), "") if bracketed else said
        items = [_unquoted(item.strip()) for item in _split(AND_BEFORE_LAST.sub(", ", inner), separator)]
    if not isinstance(items, list) or not all(isinstance(item, (str, int)) for item in items):
        return None
    words = [str(item).strip() for item in items]
    if len(words) > 1 and not words[-1]:
        words.pop()
    return separator.join(words) if all(words) else None


def in_case_of(right: str, said: str) -> str:
    """Return a text with the words of the expected answer in their case: `Peg 1` for `peg 1`."""
    words = {word.casefold(): word for word in WORD.findall(right)}
    return WORD.sub(lambda word: words.get(word[0].casefold(), word[0]), said)


def _split(text: str, separator: str) -> list[str]:
    if separator == "\n":
        return [line.rstrip(",;.") for line in text.split("\n") if line.strip()]
    text = re.sub(r"[,;]\s*\n", "\n", text)
    items = ARROW.split(text)
    if "," in separator:
        return items
    return [word for item in items for word in item.split() or [""]]


def _unquoted(word: str) -> str:
    return word[1:-1] if len(word) > 2 and word[0] == word[-1] and word[0] in "\"'`" else word


WORD = re.compile(r"[^\W\d_]+")
AND_BEFORE_LAST = re.compile(r",? and (?=[^\s,;]+\Z)")
"""The conjunction of `a, b and c` and `a, b, and c`."""
TABLE_ROW = re.compile(r"\s*\|([^|\n]+)\|([^|\n]+)\|\s*")
TABLE_HEAD = re.compile(
    r"\s*\|\s*\**(?:letter|character|symbol|variable|name|person|inhabitant|islander)\**\s*"
    r"\|\s*\**(?:digit|value|number|role|type|identity|kind)\**\s*\|\s*",
    re.IGNORECASE,
)
"""The head of a table of pairs. Another head may say something else of the pairs."""
TABLE_RULE = re.compile(r"\s*\|(?:\s*:?-{1,20}:?\s*\|){2}\s*")


def _pairs_of_table(said: str) -> str | None:
    """Return the rows of a table of two columns, without its head, as `a: b` on lines; None for other text."""
    head, rule, *lines = said.split("\n") if said.count("\n") > 1 else ("", "")
    if not TABLE_HEAD.fullmatch(head) or not TABLE_RULE.fullmatch(rule):
        return None
    rows = [TABLE_ROW.fullmatch(line) for line in lines if line.strip()]
    pairs = [f"{row[1].strip()}: {row[2].strip()}" for row in rows if row]
    return "\n".join(pairs) if len(pairs) == len(rows) else None


ROLE = re.compile(
    r"(?:and\s)?(?P<quote>[\"']?)(?P<name>\w+)(?P=quote)(?:\s?(?::|=|->|\u2192)\s?|\s[-\u2013\u2014]\s)"
    r"(?P<other>[\"']?)(?:(?:an?|the)\s)?(?P<role>\w+)(?P=other)",
    re.IGNORECASE,
)
"""A name and a role: `Ann: saint`, `Ann = a saint`, `Ann - saint`, `"Ann": "saint"`."""


def as_claims(said: str) -> str | None:
    """Return claims with commas between them, which stood on lines or between semicolons or full stops."""
    roles = _roles(said)
    if roles is not None:
        return roles
    claims = [part.strip().replace(" is the ", " is a ") for part in re.split(r"[;\n]|\.(?=\s)", said)]
    return ", ".join(filter(None, claims)) if claims[0] else None


def _roles(said: str) -> str | None:
    """Return the claims that names with roles make, in pairs or in a dictionary; None for other text."""
    said = _pairs_of_table(said) or said
    inner = said[1:-1] if said[:1] == "{" and said[-1:] == "}" else said.rstrip(".")
    parts = [part.strip() for part in re.split(r"[;,\n]|\.(?=\s)|\sand\s", inner)]
    matches = [ROLE.fullmatch(part) for part in parts if part]
    claims = [f"{match['name']} is a {match['role']}" for match in matches if match]
    return ", ".join(claims) if len(claims) == len(matches) > 0 else None


def as_letter_values(said: str) -> str | None:
    """Return letters and digits as `A=1,B=2`, from pairs in a dictionary, on lines or between commas or semicolons."""
    said = _pairs_of_table(said) or said.strip()
    if said[:1] == "{" and said[-1:] == "}":
        said = said[1:-1].strip()
    parts = [QUOTED_SIGN.sub(r"\2", part.strip()) for part in re.split(r"[,;\n]|\band\b|(?<=\d)\s(?=[A-Z])", said)]
    if not parts[0]:
        return None
    matches = [LETTER_VALUE.fullmatch(part) for part in parts if part]
    pairs = [f"{match[1]}={match[2]}" for match in matches if match]
    return ",".join(pairs) if len(pairs) == len(matches) > 0 else None


def as_solutions(said: str) -> str | None:
    """Return the numbers of `x = 1 or x = 2`, `[1, 2]`, `{1, 2}` or lines with commas between; None for other text."""
    said = said.strip()
    names = set()
    name_of_all = SOLUTION_NAME.match(said)
    if name_of_all is not None:
        said = said[name_of_all.end() :]
        names.add(name_of_all["name"])
    if (said[:1], said[-1:]) in (("[", "]"), ("{", "}"), ("(", ")")):
        said = said[1:-1]
    parts = BETWEEN_SOLUTIONS.split(said.rstrip(",; \n"))
    values = []
    for part in map(str.strip, parts):
        name = SOLUTION_NAME.match(part)
        values.append(_unquoted(part[name.end() :] if name else part))
        if name is not None:
            names.add(name["name"])
    if len(names - {None}) > 1:
        return None  # values of different variables
    values = [re.sub(r"^-\s(?=[\d.])", "-", value) for value in values]
    return ", ".join(values) if all(NUMBER.fullmatch(value) for value in values) else None
