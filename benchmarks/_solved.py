"""Problems with right answers: the oracle's, the example's, or a solution found by search."""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import pickle
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reasoning_env.tasks import find_task
from reasoning_env.tasks.serving import flaw_of_error

ITEMS = 12
FEW_ITEMS = {"puzzle24": 4, "rush_hour": 3}
"""Tasks that are slow to generate or to solve."""


@dataclass(frozen=True)
class Bench:
    """A task's dataset and some items: the entry as bytes, because verifiers may change it, and an answer."""

    task: str
    dataset: Any
    items: Sequence[tuple[bytes, str]]


def load(task: str, number: int) -> Bench:
    """Return a dataset with items that can be served and solved. Imports the library."""
    params = {"max_moves": 8} if task == "rush_hour" else {}
    wanted = FEW_ITEMS.get(task, ITEMS)
    library = importlib.import_module("reasoning_gym")
    dataset = library.create_dataset(task, seed=number, size=10 * wanted + 100, **params)
    items: list[tuple[bytes, str]] = []
    for index in range(len(dataset)):
        try:
            with contextlib.redirect_stdout(sys.stderr):  # codeio prints
                entry = dataset[index]
        except Exception as error:
            if flaw_of_error(find_task(task), error) is None:
                raise
            continue
        answer = solve(task, entry)
        if answer and "Integral(" not in answer:
            items.append((pickle.dumps(entry), answer))
        if len(items) == wanted:
            break
    return Bench(task, dataset, items)


def solve(task: str, entry: Mapping[str, Any]) -> str | None:
    """Return a right answer: the oracle's, the example's, or a solution found by search."""
    metadata = entry["metadata"]
    if task == "rush_hour":
        return solve_rush_hour(metadata["board_config"])
    if task == "boxnet":
        return solve_boxnet(metadata["initial_state"])
    answer = entry["answer"] or metadata.get("example_answer") or metadata.get("example_correct_answer")
    return None if answer is None else str(answer)


def solve_rush_hour(board: str, size: int = 6, most_boards: int = 20_000) -> str | None:
    """Return the moves of a shortest solution, by breadth-first search. The question renames the cars without gaps."""
    cars = sorted(set(board) - {"o", "x"})
    names = {car: chr(ord("A") + number) for number, car in enumerate(cars)}
    seen = {board}
    queue = deque([(board, "")])
    while queue and len(seen) < most_boards:
        board, moves = queue.popleft()
        if board[2 * size + size - 1] == "A":
            return moves.strip()
        for car in cars:
            first, last = board.index(car), board.rindex(car)
            stride = 1 if last - first < size else size
            for sign, target, back in (("+", last + stride, first), ("-", first - stride, last)):
                same_line = stride == size or target // size == first // size
                if 0 <= target < len(board) and same_line and board[target] == "o":
                    cells = list(board)
                    cells[target], cells[back] = car, "o"
                    after = "".join(cells)
                    if after not in seen:
                        seen.add(after)
                        queue.append((after, f"{moves} {names[car]}{sign}1"))
    return None


def solve_boxnet(state: Mapping[str, Sequence[str]]) -> str:
    """Return the answer that moves each box by rows, then columns, in single steps, then onto the target."""
    steps: list[dict[str, str]] = []
    places = {item: tuple(map(float, square.split("_"))) for square, items in state.items() for item in items}
    for box in sorted(item for item in places if item.startswith("box_")):
        target = box.replace("box_", "target_")
        row, column = places[box]
        end_row, end_column = places[target]
        while (row, column) != (end_row, end_column):
            agent = f"Agent[{row}, {column}]"
            if row != end_row:
                row += math.copysign(1.0, end_row - row)
            else:
                column += math.copysign(1.0, end_column - column)
            steps.append({agent: f"move({box}, square[{row}, {column}])"})
        steps.append({f"Agent[{row}, {column}]": f"move({box}, {target})"})
    return json.dumps(steps)
