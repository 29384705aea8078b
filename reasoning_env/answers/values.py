"""Answer types of JSON values: lists, objects and plans (lists of steps), in JSON's or Python's notation."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from .literals import NAMED_LITERALS, as_json, json_value
from .types import AnswerType, ProblemData


def json_text(answer: str) -> str | None:
    """Convert a list or object in JSON's or Python's notation to JSON; None if `answer` is neither."""
    return as_json(answer) if answer[:1] in ("[", "{", "(") else None


def value(answer: str, problem: ProblemData) -> str | None:
    """Convert a list or an object to JSON, or to `problem.expected` if the values are equal. True does not equal 1."""
    return _compared(json_text(answer), problem.expected)


def any_value(answer: str, problem: ProblemData) -> str | None:
    """Read any JSON value, including numbers, strings and booleans."""
    return _compared(as_json(answer), problem.expected)


def is_value(answer: str) -> bool:
    """Return True if the answer is valid JSON or a Python constant, or looks like a list or an object."""
    if answer[:1] in ("[", "{") and answer[-1:] in ("]", "}") and not answer.startswith("{\\"):
        return True
    return json_value(answer) is not None or answer in NAMED_LITERALS


def _compared(answer: str | None, right: str) -> str | None:
    """Return `right` if `answer` and `right` are JSON with equal values; otherwise return `answer` unchanged."""
    if answer is None:
        return None
    if answer.strip() == right.strip():
        return right
    expected, written = json_value(right), json_value(answer)
    is_same = written is not None and written == expected and _truth_values(written) == _truth_values(expected)
    return right if is_same else answer


def _scalars(found: object) -> list[object]:
    """Return all numbers, strings, booleans and nulls in a JSON value, in a fixed order."""
    waiting = [found]
    scalars = []
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting += [item[key] for key in sorted(item)]
        elif isinstance(item, list):
            waiting += item
        else:
            scalars.append(item)
    return scalars


def _truth_values(found: object) -> list[bool]:
    return [isinstance(item, bool) for item in _scalars(found)]


def texts(pattern: str) -> AnswerType:
    """Make an answer type for lists and objects whose values are strings that match a pattern."""
    matches = re.compile(pattern).fullmatch

    def read(answer: str, problem: ProblemData) -> str | None:
        written = json_text(answer)
        items = [] if written is None else _scalars(json_value(written))
        return written if all(isinstance(item, str) and matches(item) for item in items) else None

    return read


def moves(pattern: str, tight: Mapping[str, str], joint: str) -> AnswerType:
    """Make an answer type for lists of moves, which may be on separate lines. Each move must match `pattern`.

    A move may be a list of parts, which `joint` joins. `tight` maps patterns to their replacements in each move.
    """
    matches = re.compile(pattern).fullmatch

    def read(answer: str, problem: ProblemData) -> str | None:
        written = json_text(answer)
        found = answer.split("\n") if written is None else json_value(written)
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
"""Reads moves such as `w,A1,B3`, also with spaces after the commas."""
jug_moves = moves(r"\s*(?:fill\s+\w|empty\s+\w|pour\s+\w\s?(?:->|\u2192)\s?\w)\s*", {r"\s?(?:->|\u2192)\s?": "->"}, " ")
"""Reads moves such as `fill A` and `pour A->B`, also as `pour A \u2192 B`."""
AGENT = re.compile(r"Agent\[\d+(?:\.\d+)?,\s*\d+(?:\.\d+)?\]")


def plan(answer: str, problem: ProblemData) -> str | None:
    """Read a list of steps. A step is an object with one move for each agent."""
    written = texts(
        r"move\((?:box|target)_\w+,\s(?:target_\w+|square(?:_\d+(?:\.\d+)?){2}|square\[\d+(?:\.\d+)?,\s*\d+(?:\.\d+)?\])\)"
    )(answer, problem)
    steps = None if written is None else json_value(written)
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        return None
    return written if all(map(AGENT.fullmatch, (agent for step in steps for agent in step))) else None


def vertices(answer: str, problem: ProblemData) -> str | None:
    """Read an object that maps each vertex of the graph to a colour, which is a number or a string."""
    written = json_text(answer)
    colours = None if written is None else json_value(written)
    if not isinstance(colours, dict) or any(_truth_values(colours)):
        return None
    return written if sorted(colours) == sorted(map(str, problem.metadata["puzzle"]["vertices"])) else None


def partitions(answer: str, problem: ProblemData) -> str | None:
    """Read a list of lists of strings; None if two of the inner lists are equal."""
    written = json_text(answer)
    found = None if written is None else json_value(written)
    if not isinstance(found, list) or not all(isinstance(part, list) for part in found):
        return None
    return written if len({json.dumps(part, default=str) for part in found}) == len(found) else None
