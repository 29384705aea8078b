"""Types of answers that are values of JSON: lists, objects and plans, also in Python's notation."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from .literals import NAMED_LITERALS, as_json, json_value
from .types import AnswerType, Asked


def json_text(said: str) -> str | None:
    """Return a list or an object in JSON's or Python's notation as JSON; None for other text."""
    return as_json(said) if said[:1] in ("[", "{", "(") else None


def value(said: str, asked: Asked) -> str | None:
    """The type of lists and objects, compared by their values. True is no 1."""
    written = json_text(said)
    return asked.right if written is not None and _is_same(written, asked.right) else written


def any_value(said: str, asked: Asked) -> str | None:
    """The type of any value of JSON: a number, a text or a truth value too."""
    written = as_json(said)
    return asked.right if written is not None and _is_same(written, asked.right) else written


def is_value(said: str) -> bool:
    """Tell whether a text is a value of JSON, or a list or an object in another notation."""
    if said[:1] in ("[", "{") and said[-1:] in ("]", "}") and not said.startswith("{\\"):
        return True
    return json_value(said) is not None or said in NAMED_LITERALS


def _is_same(said: str, right: str) -> bool:
    if said.strip() == right.strip():
        return True
    expected, written = json_value(right), json_value(said)
    return written is not None and written == expected and _truth_values(written) == _truth_values(expected)


def _plain_values(found: object) -> list[object]:
    """Return the values in a JSON value that are no list and no object, in order."""
    waiting = [found]
    plain = []
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting += [item[key] for key in sorted(item)]
        elif isinstance(item, list):
            waiting += item
        else:
            plain.append(item)
    return plain


def _truth_values(found: object) -> list[bool]:
    return [isinstance(item, bool) for item in _plain_values(found)]


def texts(pattern: str) -> AnswerType:
    """The type of lists and objects whose plain values are texts that match a pattern."""
    matches = re.compile(pattern).fullmatch

    def read(said: str, asked: Asked) -> str | None:
        written = json_text(said)
        items = [] if written is None else _plain_values(json_value(written))
        return written if all(isinstance(item, str) and matches(item) for item in items) else None

    return read


def moves(pattern: str, tight: Mapping[str, str], joint: str) -> AnswerType:
    """The type of a list of moves that match a pattern; each pattern of `tight` is then written as its text.

    A move may be a list of its parts, which `joint` joins, and moves may stand on lines.
    """
    matches = re.compile(pattern).fullmatch

    def read(said: str, asked: Asked) -> str | None:
        written = json_text(said)
        found = said.split("\n") if written is None else json_value(written)
        if not isinstance(found, list):
            return None
        whole = [joint.join(map(str, move)) if isinstance(move, list) else str(move).strip(" ,;") for move in found]
        if not all(map(matches, whole)):
            return None
        for spaced, text in tight.items():
            whole = [re.sub(spaced, text, move) for move in whole]
        return json.dumps(whole)

    return read


knight_moves = moves(r"[wB],\s?[A-Z]\d{1,2},\s?[A-Z]\d{1,2}", {r"\s": ""}, ",")
"""The type of `w,A1,B3`, also with blanks after the commas."""
jug_moves = moves(r"\s*(?:fill\s+\w|empty\s+\w|pour\s+\w\s?(?:->|\u2192)\s?\w)\s*", {r"\s?(?:->|\u2192)\s?": "->"}, " ")
"""The type of `fill A` and `pour A->B`, also with blanks around the arrow, or with another arrow."""
AGENT = re.compile(r"Agent\[\d+(?:\.\d+)?,\s*\d+(?:\.\d+)?\]")


def plan(said: str, asked: Asked) -> str | None:
    """The type of a list of steps: objects in which each agent has one move."""
    written = texts(
        r"move\((?:box|target)_\w+,\s(?:target_\w+|square(?:_\d+(?:\.\d+)?){2}|square\[\d+(?:\.\d+)?,\s*\d+(?:\.\d+)?\])\)"
    )(said, asked)
    steps = None if written is None else json_value(written)
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        return None
    return written if all(map(AGENT.fullmatch, (agent for step in steps for agent in step))) else None


def vertices(said: str, asked: Asked) -> str | None:
    """The type of an object that gives each vertex of the graph one colour, a number or a text."""
    written = json_text(said)
    colours = None if written is None else json_value(written)
    if not isinstance(colours, dict) or any(_truth_values(colours)):
        return None
    return written if sorted(colours) == sorted(map(str, asked.metadata["puzzle"]["vertices"])) else None


def partitions(said: str, asked: Asked) -> str | None:
    """The type of a list of lists of texts, each of them once."""
    written = json_text(said)
    found = None if written is None else json_value(written)
    if not isinstance(found, list) or not all(isinstance(part, list) for part in found):
        return None
    return written if len({json.dumps(part, default=str) for part in found}) == len(found) else None
