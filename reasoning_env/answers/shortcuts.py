"""Make shortcuts, which are answers that need no reasoning: copied parts of the question, boards filled by a rule.

The audit reports the scores of shortcuts. If a shortcut solves too many problems of a task, some of these problems are
rejected. Only a score above the best shortcut's score earns partial credit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from statistics import mode
from typing import Any

from .rules import Entry

SHOWN_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")
COLON = re.compile(r":(?=\s|$)")
"""A colon before whitespace or at the end, but not the colon in a time such as 10:30."""
BRACKETED = re.compile(r"\[[^\[\]]*\]")
NESTED = re.compile(r"\[\s*\[[^\[\]]*\](?:[\s,]*\[[^\[\]]*\])*\s*\]")
QUOTATION = re.compile(r"\"([^\"\n]+)\"|'([^'\n]+)'")
WORDY = re.compile(r"[^\W\d_]{2,}")
BLANK_MARKS = ("_", "\N{WHITE QUESTION MARK ORNAMENT}", "?")

Fill = Callable[[Sequence[str], Sequence[str], Sequence[str]], str]
"""Takes an empty cell's row, column and sudoku box ([] if the board has no boxes), and returns what to fill in."""


def copies(problem_text: str) -> dict[str, str]:
    """Return the parts of a question that a policy could copy as its answer. The keys describe the parts."""
    text = problem_text.strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    parts = {"the last line": lines[-1] if lines else ""}
    after = COLON.split(text)[-1].strip() if COLON.search(text) else ""
    parts["the text after the last colon"] = after
    parts["the first line after the last colon"] = after.partition("\n")[0].strip()
    parts["the paragraph after the last colon"] = re.split(r"\n\s*\n", after)[0].strip()
    for name, pattern in (("the last list", BRACKETED), ("the last list of lists", NESTED)):
        parts[name] = _last(pattern.findall(text))
    parts["the last quotation"] = _last(quotations(text))
    grid = last_grid(text)
    parts["the last grid"] = "\n".join(grid)
    return {name: part for name, part in parts.items() if part}


def is_copied(problem_text: str, answer: str) -> bool:
    """Return True if one of the question's parts (see `copies`) has the same content as the answer."""
    return any(same_content(part, answer) for part in copies(problem_text).values())


def same_content(text: str, answer: str) -> bool:
    """Return True if two strings have the same words and numbers, ignoring separators and number formats."""
    return all(cell == expected for cell, expected in zip_longest(_cells(text), _cells(answer)))


def _cells(text: str) -> Iterator[object]:
    for match in re.finditer(r"[^\s,;|\[\](){}'\"]+", text):
        yield float(match[0]) if SHOWN_NUMBER.fullmatch(match[0]) else match[0]


def quotations(problem_text: str) -> list[str]:
    """Return the quoted strings in a question."""
    return [double or single for double, single in QUOTATION.findall(problem_text)]


def filled_boards(problem_text: str, fills: Mapping[str, Fill] | None = None) -> dict[str, str]:
    """Fill the question's board by each function in `fills`. Return boards by name; {} if no cell is empty."""
    board, blank = _board(problem_text)
    fills = FILLS if fills is None else fills
    return {name: _fill(board.split("\n"), blank, fill) for name, fill in fills.items()} if blank else {}


def choice(problem_text: str, answer: str) -> str:
    """Return the right option: the right answer in lower case, or the value that fills a board's only empty cell."""
    board, blank = _board(problem_text)
    if blank and board.count(blank) == 1 and len(board) == len(answer):
        return answer[board.index(blank)]
    return answer.casefold()


def _board(problem_text: str) -> tuple[str, str]:
    """Return a question's board and the mark of its empty cells ("" if no cell is empty); ("", "") for a long board."""
    board = [line for line in last_grid(problem_text) if not WORDY.search(line)]
    if not any(mark in line for line in board for mark in BLANK_MARKS):
        board = _board_with_signs(problem_text) or board
    text = "\n".join(board)
    blank = next((mark for mark in BLANK_MARKS if mark in text), "0" if re.search(r"(?<!\S)0(?!\S)", text) else "")
    return (text, blank) if len(text) <= 1000 else ("", "")


LAYOUTS = {f"{text} for every number": text for text in ("0", "1", "2", "5", "12", "nan")}
"""Names of shortcuts, and the constant by which each shortcut replaces every number of the right answer."""


def layouts(answer: str) -> dict[str, str]:
    """Return copies of the right answer, by name. Each has one constant of LAYOUTS in place of every number.

    Return {} if a letter precedes a digit, as in x1, or if the answer has at least as many words as numbers.
    """
    words = re.findall(r"[^\W\d_]{2,}", answer)
    if re.search(r"[A-Za-z]\d", answer) or len(SHOWN_NUMBER.findall(answer)) <= len(words):
        return {}
    return {name: SHOWN_NUMBER.sub(text, answer) for name, text in LAYOUTS.items()}


def last_grid(text: str) -> list[str]:
    """Return the last block of lines with equally many cells, at least 2 by 2 cells; [] if there is no such block."""
    best: list[str] = []
    block: list[str] = []
    width = 0
    for line in (*text.splitlines(), ""):
        cells = len(line.split())
        if cells >= 2 and cells == width:
            block.append(line.strip())
            continue
        if len(block) >= 2:
            best = block
        if cells >= 2:
            block = [line.strip()]
            width = cells
        else:
            block = []
            width = 0
    return best


def _board_with_signs(text: str) -> list[str]:
    """Return the last block of wordless lines with an empty cell; [] if there is none."""
    lines = text.splitlines()
    wordless = [bool(line) and not WORDY.search(line) for line in lines]
    marked = [n for n, line in enumerate(lines) if wordless[n] and any(mark in line for mark in BLANK_MARKS[:2])]
    if not marked:
        return []
    first = last = marked[-1]
    while first > 0 and wordless[first - 1]:
        first -= 1
    while last + 1 < len(lines) and wordless[last + 1]:
        last += 1
    return [line.rstrip() for line in lines[first : last + 1]]


def _fill(board: Sequence[str], blank: str, fill: Fill) -> str:
    """Fill a board's empty cells one by one with the values that `fill` returns."""
    cell = re.compile(rf"{re.escape(blank)}|\d+|[^\W_]|[\u2705\u274c]")
    rows = [cell.findall(line) for line in board]
    size = max(map(len, rows), default=0)
    cells = [row for row in rows if len(row) == size]
    root = round(size**0.5)
    boxed = root * root == size == len(cells) == len(board)
    blanks = [(number, column) for number, row in enumerate(cells) for column in range(size) if row[column] == blank]
    for number, column in blanks:
        row = cells[number]
        top = number - number % root
        left = column - column % root
        box = [cell for line in cells[top : top + root] for cell in line[left : left + root]] if boxed else []
        row[column] = fill(row, [line[column] for line in cells], box)
    lines = []
    for line, row in zip(board, rows, strict=True):
        values = iter(row)
        lines.append(cell.sub(lambda _, values=values: next(values), line) if len(row) == size else line)  # type: ignore[misc]
    return "\n".join(lines)


def _missing(taken: Sequence[str], size: int, fallback: str) -> str:
    return next((str(digit) for digit in range(1, size + 1) if str(digit) not in taken), fallback)


FILLS: Mapping[str, Fill] = {
    "empty cells filled with 1": lambda row, column, box: "1",
    "empty cells filled with a digit that the row lacks": lambda row, column, box: _missing(row, len(row), "1"),
    "empty cells filled with the most frequent cell of the row": lambda row, column, box: mode(
        [cell for cell in row if cell not in (*BLANK_MARKS, "0")] or "1"
    ),
}
"""Functions that fill empty cells and ignore the rules of the puzzle."""
LEGAL_FILLS: Mapping[str, Fill] = {
    "empty cells filled with the lowest legal digit": lambda row, column, box: _missing(
        [*row, *column, *box], len(row), _missing(row, len(row), "1")
    ),
    "empty cells filled with the highest legal digit": lambda row, column, box: next(
        (digit for digit in map(str, range(len(row), 0, -1)) if digit not in (*row, *column, *box)), "1"
    ),
}
"""Functions that fill in a legal digit. `guesses` uses these functions; the audit does not."""


def _last(items: Sequence[str]) -> str:
    return items[-1] if items else ""


FORM_SCORE = 0.1
"""The highest score of an answer that the task's answer type cannot read."""
MAX_PARTIAL = 0.98
"""The highest score of a wrong answer, so that a score of at least 0.99 always means a right answer."""


def above_guessing(score: float, guess: float) -> float:
    """Rescale a partial score linearly from [guess, 1] to [0, MAX_PARTIAL]. `guess` is the best guess's score.

    Results below FORM_SCORE become FORM_SCORE.
    """
    return max(FORM_SCORE, MAX_PARTIAL * (score - guess) / (1.0 - guess))


def guesses(entry: Entry, own: Callable[[Mapping[str, Any]], list[str]] | None = None) -> set[str]:
    """Return guesses for an entry: answers that need no reasoning. `own` returns further guesses for this task."""
    problem_text = str(entry["question"])
    boards = filled_boards(problem_text, {**FILLS, **LEGAL_FILLS})
    found = {*copies(problem_text).values(), *boards.values(), *quotations(problem_text)}
    if entry.get("answer") is not None:
        found.update(layouts(str(entry["answer"])).values())
    if own is not None:
        found.update(own(entry["metadata"]))
    return found
