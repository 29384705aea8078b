"""Guards and corrections (see `rules.py`) for answers that are moves of boxes, cars or sides of a cube."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from .rules import Dataset, Entry

MAX_COUNT_DIGITS = 9


def score_rush_hour(answer: str, entry: Entry, dataset: Dataset) -> float:
    def bounded(move: re.Match[str]) -> str:
        # The verifier moves a car cell by cell, so limit the distance. A board is 6 cells wide.
        return move[1] + str(6 if len(move[2]) > MAX_COUNT_DIGITS else min(int(move[2]), 6))

    return dataset.score_answer(re.sub(r"([A-Z][+-])(\d+)", bounded, answer), entry)


CAR_MOVE = re.compile(r"([A-Z])([+-])(\d+)")
Cell = tuple[int, int]
"""Row and column, counted from 0 at the top left."""


def correct_rush_hour(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Return 0.01 instead of 1 if a car cannot make one of the moves. The library would shorten the move."""
    if score < 1.0:
        return score
    rows = str(entry["question"]).partition("Board:")[2].split()
    size = len(rows)
    cars: dict[str, list[Cell]] = {}
    taken: set[Cell] = set()
    for row, line in enumerate(rows):
        for column, mark in enumerate(line):
            if mark != ".":
                taken.add((row, column))
            if mark.isupper():
                cars.setdefault(mark, []).append((row, column))
    for name, sign, count in CAR_MOVE.findall(answer):
        moved = _drive(cars.get(name, []), taken, size, -int(count) if sign == "-" else int(count))
        if moved is None:
            return 0.01
        taken = taken - set(cars[name]) | set(moved)
        cars[name] = moved
    return score


def _drive(car: Sequence[Cell], taken: set[Cell], size: int, steps: int) -> list[Cell] | None:
    """Return the cells of a car after a move; None if the car does not exist, does not move, or is blocked."""
    if not car or steps == 0:
        return None
    across = car[0][0] == car[-1][0]
    step = 1 if steps > 0 else -1
    cells = list(car)
    for _ in range(min(abs(steps), size)):
        cells = [(row, column + step) if across else (row + step, column) for row, column in cells]
        for cell in cells:
            if cell in taken and cell not in car:
                return None
            if not (0 <= cell[0] < size and 0 <= cell[1] < size):
                return None
    return cells


DIRECTIONS: Mapping[str, Cell] = {"U": (-1, 0), "D": (1, 0), "L": (0, -1), "R": (0, 1)}


def correct_sokoban(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Return 0 instead of 1 if a move is blocked, or if moves follow after the board is solved.

    The library skips blocked moves and checks only the last position.
    """
    return score if score < 1.0 or _is_solved_by_last(entry["metadata"]["gamestr"], answer) else 0.0


def _is_solved_by_last(board: str, moves: str) -> bool:
    """Return True if every move is possible, and the board is solved after the last move but not before."""
    rows = [line.replace(" ", "") for line in board.strip().split("\n")]
    signs = {(row, column): sign for row, line in enumerate(rows) for column, sign in enumerate(line)}
    walls = {cell for cell, sign in signs.items() if sign == "+"}
    boxes = {cell for cell, sign in signs.items() if sign in "@$"}
    goals = {cell for cell, sign in signs.items() if sign in "X$%"}
    row, column = next(cell for cell, sign in signs.items() if sign in "*%")
    for move in moves:
        if boxes <= goals:
            return False
        down, right = DIRECTIONS[move]
        row, column = row + down, column + right
        if (row, column) in boxes:
            behind = (row + down, column + right)
            if behind in walls or behind in boxes:
                return False
            boxes.remove((row, column))
            boxes.add(behind)
        if (row, column) in walls:
            return False
    return boxes <= goals


def score_rubiks_cube(answer: str, entry: Entry, dataset: Dataset) -> float:
    def bounded(word: str) -> str:
        match = re.fullmatch(r"(\D*)(\d+)", word)
        if match is None:
            return word
        if len(match[2]) > MAX_COUNT_DIGITS or not match[1]:
            return ""  # not a move
        count = int(match[2])
        # The verifier makes a list with `count` moves, so limit the count. Four turns of a side change nothing.
        return match[1] + str(count % 4 or min(count, 4))

    words = answer.split()
    if len(words) > 2000:
        return 0.01
    return dataset.score_answer(" ".join(map(bounded, words)), entry)


def score_boxnet(answer: str, entry: Entry, dataset: Dataset) -> float:
    try:
        steps = json.loads(answer)
    except (ValueError, RecursionError):
        return 0.0
    if steps in ({}, ""):  # the verifier reads these as a plan without moves
        return dataset.score_answer(answer, entry)
    if not isinstance(steps, list) or not all(_is_boxnet_step(step) for step in steps):
        return 0.0
    return dataset.score_answer(json.dumps(steps[:1000]), entry)


def _is_boxnet_step(step: object) -> bool:
    return isinstance(step, dict) and all(
        isinstance(move, str) and len(agent) + len(move) <= 100 for agent, move in step.items()
    )


def correct_boxnet(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Subtract 1 / (number of boxes) for each impossible move; the minimum is 0.05.

    A move of a target instead of a box makes the score 0.05. The library skips impossible moves, so it accepts a list
    of all conceivable moves.
    """
    if score <= 0.05:
        return score
    state = {square: list(items) for square, items in entry["metadata"]["initial_state"].items()}
    boxes: int = sum(item.startswith("box_") for items in state.values() for item in items)
    moves = [move for step in json.loads(answer) for move in step.items()]
    parts = [re.match(r"move\((.*?),\s(.*?)\)", text) for _, text in moves]
    if any(part is not None and part[1].startswith("target_") for part in parts):
        return 0.05
    done = [
        part is not None and _move(state, _square_of(agent), part[1], part[2])
        for (agent, _), part in zip(moves, parts, strict=True)
    ]
    return max(0.05, score - done.count(False) / boxes)


def _move(state: dict[str, list[str]], square: str, box: str, goal: str) -> bool:
    """Make a move in `state` if it is possible, and return whether it is."""
    items = state.get(square, [])
    if box not in items:
        return False
    if "square" in goal:
        there = state.get(_square_of(goal))
        if there is None or not _are_adjacent(square, _square_of(goal)):
            return False
        there.append(box)
    elif goal == f"target_{box.removeprefix('box_')}" and goal in items:
        items.remove(goal)
    else:
        return False
    items.remove(box)
    return True


def _are_adjacent(square: str, other: str) -> bool:
    places = zip(square.split("_"), other.split("_"), strict=True)
    return sum(abs(float(here) - float(there)) for here, there in places) == 1.0


def _square_of(text: str) -> str:
    """Return the key of a square in `state`: `1.5_0.5` for both `Agent[1.5, 0.5]` and `square_1.5_0.5`."""
    return "_".join(str(float(number)) for number in re.findall(r"\d+\.?\d*", text)[:2])
