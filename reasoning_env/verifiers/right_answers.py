"""Correct entries whose expected answer is wrong: the right answer is computed from the question and from its facts.

`RIGHT_ANSWERS` has a function for each task whose answers the library gets wrong. The corrected entry is served and
scored. Its metadata has the library's own answer as `library_answer`. An entry whose right answer cannot be told is
rejected instead (`flaws.py`).
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

from .entries import Dataset, Entry
from .grammars.expressions import evaluate_exactly, parse_expression

DAY = timedelta(days=1)
MAX_TERMS = 10_000
"""Numbers, operators and parentheses of an expression; the longest has some hundred."""


def with_right_answer(task: str, entry: Entry, dataset: Dataset) -> Entry:
    """Return an entry with the right answer; the entry itself if the library's answer is right."""
    correct = RIGHT_ANSWERS.get(task)
    if correct is None:
        return entry
    answer, metadata = correct(entry, dataset)
    if answer == entry["answer"]:
        return entry
    return {
        **entry,
        "answer": answer,
        "metadata": {**entry["metadata"], **metadata, "library_answer": entry["answer"]},
    }


Corrected = tuple[str, Mapping[str, Any]]
"""The right answer, and the metadata that the library's verifier reads and that change with the answer."""


def _count_colleagues(entry: Entry, dataset: Dataset) -> Corrected:
    """Count Matilda's female colleagues in both circles: all women of both but herself, and the woman of the first.

    The library adds one to the women of the first circle.
    """
    counts = re.findall(r"(\d+) female colleagues", str(entry["question"]))
    if len(counts) != 2:
        return str(entry["answer"]), {}
    first, second = map(int, counts)
    return str(first + second - 1), {}


IN_LAWS = ("father-in-law", "mother-in-law")
SIBLINGS_CHILDREN = ("nephew", "niece")


def _name_relation(entry: Entry, dataset: Dataset) -> Corrected:
    """Say what the first person is to the second.

    The library says of in-laws what the second is to the first, and of nephews and nieces it takes the sex of the
    second.
    """
    metadata = entry["metadata"]
    relation = str(entry["answer"])
    is_man = metadata["person1"] in dataset.config.male_names
    if relation in IN_LAWS:
        relation = "son-in-law" if is_man else "daughter-in-law"
    elif relation in SIBLINGS_CHILDREN:
        relation = "nephew" if is_man else "niece"
    return relation, {"relationship": relation}


def _apply_last_card(entry: Entry, dataset: Dataset) -> Corrected:
    """Apply the question's own rules to the last card; the library calls a random card Pass, and Chi what is Peng."""
    rounds = entry["metadata"]["rounds"]
    first_hand = re.search(r"initial cards ([A-Z]+)", str(entry["question"]))
    if first_hand is None:
        return str(entry["answer"]), {}
    hand = rounds[-2]["cards"] if len(rounds) > 1 else first_hand[1]
    card = rounds[-1]["add"]
    before, after = chr(ord(card) - 1), chr(ord(card) + 1)
    pairs = ((chr(ord(card) - 2), before), (before, after), (after, chr(ord(card) + 2)))
    if hand.count(card) >= 2:
        result = "Peng"
    elif any(low in hand and high in hand for low, high in pairs):
        result = "Chi"
    else:
        result = "Pass"
    return result, {"solution": result}


def _swap_knights(entry: Entry, dataset: Dataset) -> Corrected:
    """Search the board that is shown; the library calls some boards impossible after it took jumps away in secret."""
    metadata = entry["metadata"]
    if metadata["is_possible"]:
        return str(entry["answer"]), {}
    squares = list(metadata["board"])
    board = {square: [other for other in squares if _is_jump(square, other)] for square in squares}
    moves = _shortest_swap(board, metadata["pieces"], metadata["start_turn"])
    if moves is None:
        return str(entry["answer"]), {}
    answer = json.dumps([",".join(move) for move in moves])
    return answer, {"board": board, "is_possible": True, "solution": moves, "num_steps": len(moves)}


def _is_jump(square: str, other: str) -> bool:
    columns = abs(ord(square[0]) - ord(other[0]))
    rows = abs(int(square[1:]) - int(other[1:]))
    return {columns, rows} == {1, 2}


Move = tuple[str, str, str]
State = tuple[str, frozenset[str], frozenset[str]]
"""Who moves, and the squares of white and of black knights."""


def _shortest_swap(board: Mapping[str, list[str]], pieces: Mapping[str, str | None], first: str) -> list[Move] | None:
    """Return the fewest moves that swap white and black knights, None if there are none."""
    white = frozenset(square for square, piece in pieces.items() if piece == "w")
    black = frozenset(square for square, piece in pieces.items() if piece == "B")
    start: State = (first, white, black)
    came_from: dict[State, tuple[State, Move] | None] = {start: None}
    queue = deque([start])
    while queue:
        state = queue.popleft()
        turn, whites, blacks = state
        if whites == black and blacks == white:
            return _moves_to(state, came_from)
        for square in sorted(whites if turn == "w" else blacks):
            for other in board[square]:
                if other in whites or other in blacks:
                    continue
                if turn == "w":
                    following: State = ("B", whites - {square} | {other}, blacks)
                else:
                    following = ("w", whites, blacks - {square} | {other})
                if following not in came_from:
                    came_from[following] = (state, (turn, square, other))
                    queue.append(following)
    return None


def _moves_to(state: State, came_from: Mapping[State, tuple[State, Move] | None]) -> list[Move]:
    moves: list[Move] = []
    step = came_from[state]
    while step is not None:
        moves.append(step[1])
        step = came_from[step[0]]
    return moves[::-1]


def _round_angle(entry: Entry, dataset: Dataset) -> Corrected:
    """Round an angle to three decimals, as the question asks; the library rounds angles to two."""
    metadata = entry["metadata"]
    if metadata["task_type"] != "angle_measure":
        return str(entry["answer"]), {}
    return f"{metadata['angle_ABC_degrees']:.3f}°", {}


def _measure_time(entry: Entry, dataset: Dataset) -> Corrected:
    """Return the exact duration.

    The library drops time and zone after a weekday in parentheses, and cuts milliseconds instead of rounding them. An
    answer in another language than the library's stays as it is.
    """
    if not set(re.findall(r"[^\W\d_]+", str(entry["answer"]))) <= {"day", "days"}:
        return str(entry["answer"]), {}
    start, end = moments(entry)
    layout = str(entry["metadata"]["expected_format"])
    return write_duration(end - start, layout), {"start_time": str(start), "end_time": str(end)}


def moments(entry: Entry) -> tuple[datetime, datetime]:
    """Return when the interval of a question begins and ends."""
    shown = re.findall(r"(\d{4}-\d\d-\d\d) \([A-Z][a-z]+\) (\d\d:\d\d:\d\d [+-]\d{4})", str(entry["question"]))
    if len(shown) == 2:
        start, end = (datetime.strptime(f"{date} {time}", "%Y-%m-%d %H:%M:%S %z") for date, time in shown)
        return start, end
    metadata = entry["metadata"]
    return datetime.fromisoformat(metadata["start_time"]), datetime.fromisoformat(metadata["end_time"])


def write_duration(duration: timedelta, layout: str) -> str:
    """Return a duration that is not below zero in a question's layout, such as `D days, HH:MM`."""
    days, rest = divmod(duration, DAY)
    if layout == "D days":
        return f"{days} days"
    milliseconds = round(rest / timedelta(milliseconds=1))
    if "D days" not in layout:
        milliseconds += days * 86_400_000
    hours, milliseconds = divmod(milliseconds, 3_600_000)
    minutes, milliseconds = divmod(milliseconds, 60_000)
    seconds, milliseconds = divmod(milliseconds, 1000)
    clock = f"{hours:02}:{minutes:02}"
    if "SS" in layout:
        clock += f":{seconds:02}"
    if "mmm" in layout:
        clock += f".{milliseconds:03}"
    return f"{days} days, {clock}" if "D days" in layout else clock


def _round_once(entry: Entry, dataset: Dataset) -> Corrected:
    """Calculate exactly, and round the value to the question's digits; the library rounds each step."""
    asked = re.search(r"(\d+) significant digits.*\n(.*)= \?", str(entry["question"]))
    if asked is None:
        return str(entry["answer"]), {}
    value = evaluate_exactly(parse_expression(asked[2], MAX_TERMS))
    context = Context(prec=int(asked[1]), rounding=ROUND_HALF_UP)
    rounded = context.divide(Decimal(value.numerator), Decimal(value.denominator))
    if rounded == Decimal(str(entry["answer"])):
        return str(entry["answer"]), {}
    return f"{rounded:f}", {}


RIGHT_ANSWERS: Mapping[str, Callable[[Entry, Dataset], Corrected]] = {
    "advanced_geometry": _round_angle,
    "aiw": _count_colleagues,
    "decimal_arithmetic": _round_once,
    "family_relationships": _name_relation,
    "knight_swap": _swap_knights,
    "mahjong_puzzle": _apply_last_card,
    "time_intervals": _measure_time,
}
"""The first line of each docstring says what is right."""
