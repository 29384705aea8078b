"""Wrong answers made from a right answer: nearly right answers, and answers that also contain something else.

If such an answer is right after all, a row of `STILL_RIGHT` gives the reason.
"""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction

from reasoning_env.sources.contract import Generated
from tests.solvers.contract import UnsolvedError
from tests.solvers.table import TABLE

OTHER_ANSWER = "another"
"""Wrong answer that is used if the answers of two problems are equal."""
Spoil = Callable[[str, str], str | None]
"""Takes a right and a wrong answer of the same kind; returns a wrong answer, or None if this change does not apply."""


def _frame(template: str) -> Spoil:
    """Return a function that inserts a right answer (RIGHT) and a wrong answer (WRONG) into a template."""
    return lambda right, wrong: template.replace("WRONG", wrong).replace("RIGHT", right)


def _as_json(value: Callable[[str, str], object]) -> Spoil:
    return lambda right, wrong: json.dumps(value(right, wrong), ensure_ascii=False)


DOUBLED: Mapping[str, Spoil] = {
    "A or B": _frame("RIGHT or WRONG"),
    "B or A": _frame("WRONG or RIGHT"),
    "either": _frame("either RIGHT or WRONG"),
    "A, B": _frame("RIGHT, WRONG"),
    "B, A": _frame("WRONG, RIGHT"),
    "A B": _frame("RIGHT WRONG"),
    "B A": _frame("WRONG RIGHT"),
    "A and B": _frame("RIGHT and WRONG"),
    "A; B": _frame("RIGHT; WRONG"),
    "A / B": _frame("RIGHT / WRONG"),
    "A on a line, B": _frame("RIGHT\nWRONG"),
    "B on a line, A": _frame("WRONG\nRIGHT"),
    "A in a paragraph, B": _frame("RIGHT\n\nWRONG"),
    "B is wrong": _frame("WRONG is wrong; it is RIGHT"),
    "A, no, B": _frame("RIGHT, no: WRONG"),
    "A, not B": _frame("RIGHT, not WRONG"),
    "A (or B)": _frame("RIGHT (or WRONG)"),
    "A in brackets": _frame("WRONG (RIGHT)"),
    "JSON list": _as_json(lambda right, wrong: [right, wrong]),
    "JSON object": _as_json(lambda right, wrong: {"answer": right, "other": wrong}),
    "two fences": _frame("```\nRIGHT\n```\n```\nWRONG\n```"),
    "two boxes": _frame("\\boxed{RIGHT} \\boxed{WRONG}"),
    "two in dollars": _frame("$RIGHT$ or $WRONG$"),
    "bold and plain": _frame("**RIGHT** WRONG"),
}
DENIED: Mapping[str, Spoil] = {
    "not A": _frame("not RIGHT"),
    "not: A": _frame("not: RIGHT"),
    "A is wrong": _frame("RIGHT is wrong"),
    "A?": _frame("RIGHT?"),
    "never A": _frame("never RIGHT"),
    "A or not": _frame("RIGHT or other"),
}
SIGNED: Mapping[str, Spoil] = {
    "-A": lambda right, wrong: right[1:] if right.startswith("-") else f"-{right}",
    "A/2": _frame("RIGHT/2"),
    "A!": _frame("RIGHT!"),
    ">A": _frame(">RIGHT"),
    "A ± 1": _frame("RIGHT ± 1"),
    "±A": _frame("±RIGHT"),
    "A%": _frame("RIGHT%"),
    "A^2": _frame("RIGHT^2"),
    "2*A": _frame("2*RIGHT"),
    "A+1": _frame("RIGHT+1"),
    "A-1": _frame("RIGHT-1"),
    "1A": _frame("1RIGHT"),
    "A1": _frame("RIGHT1"),
    "Ae1": _frame("RIGHTe1"),
    "A,5": _frame("RIGHT,5"),
    "about A": _frame("≈ RIGHT"),
    "A i": _frame("RIGHT i"),
}
"""Changes that apply to nonzero numbers only."""


def _other_digit(pattern: str, step: int) -> Spoil:
    """Change a digit by `step`, without a carry."""

    def spoil(right: str, wrong: str) -> str | None:
        found = re.search(pattern, right)
        if found is None:
            return None
        digit = (int(found[0]) + step) % 10
        return f"{right[: found.start()]}{digit}{right[found.end() :]}"

    return spoil


def _other_letter(pattern: str, others: str) -> Spoil:
    def spoil(right: str, wrong: str) -> str | None:
        found = re.search(pattern, right)
        if found is None:
            return None
        other = others[0] if found[0].casefold() != others[0].casefold() else others[1]
        return right[: found.start()] + other + right[found.end() :]

    return spoil


def _swap_letters(right: str, wrong: str) -> str | None:
    for place in range(len(right) - 1):
        first, second = right[place], right[place + 1]
        if first.isalpha() and second.isalpha() and first.casefold() != second.casefold():
            return f"{right[:place]}{second}{first}{right[place + 2 :]}"
    return None


def _cut_line(right: str, wrong: str) -> str | None:
    return right.rpartition("\n")[0] or None


def _cut_part(right: str, wrong: str) -> str | None:
    """Remove the last of several parts that are separated by commas or whitespace."""
    cut = re.sub(r"(?s)[,\s]+[^,\s\])}]+(?=[\])}\s]*$)", "", right, count=1)
    return cut if cut != right else None


def _add_part(right: str, wrong: str) -> str | None:
    """Repeat the last of several parts that are separated by commas or whitespace."""
    more = re.sub(r"(?s)([,\s]+)([^,\s\])}]+)(?=[\])}\s]*$)", r"\1\2\1\2", right, count=1)
    return more if more != right else None


def _add_row(right: str, wrong: str) -> str | None:
    """Repeat the last row of a board or of a list of lists."""
    if "\n" in right:
        return f"{right}\n{right.rpartition(chr(10))[2]}"
    row = re.search(r"\[[^\[\]]*\](?=\s*\]$)", right)
    return f"{right[: row.end()]},{row[0]}{right[row.end() :]}" if row else None


def _flip_cell(pattern: str, cells: Mapping[str, str]) -> Spoil:
    def spoil(right: str, wrong: str) -> str | None:
        found = re.search(pattern, right)
        return f"{right[: found.start()]}{cells[found[0]]}{right[found.end() :]}" if found else None

    return spoil


def _exchange_parts(right: str, wrong: str) -> str | None:
    """Exchange the first two parts, separated by commas or whitespace, if they differ."""
    parts = re.findall(r"[^,\s\[\](){}]+", right)
    if len(parts) < 2 or parts[0] == parts[1]:
        return None
    return re.sub(
        rf"(?s){re.escape(parts[0])}(.*?){re.escape(parts[1])}", lambda m: f"{parts[1]}{m[1]}{parts[0]}", right, count=1
    )


def _one_percent(right: str, wrong: str) -> str | None:
    """Increase the last number by at least one percent."""
    numbers = list(re.finditer(r"\d+(?:\.\d+)?", right))
    if not numbers or not re.fullmatch(r"[-+\d.,\s()\[\]{}'\"e]+", right):
        return None
    last = numbers[-1]
    return f"{right[: last.start()]}{Decimal(last[0]) * Decimal('1.01') + 1}{right[last.end() :]}"


NEAR: Mapping[str, Spoil] = {
    "last digit + 1": _other_digit(r"\d(?=\D*$)", 1),
    "last digit - 1": _other_digit(r"\d(?=\D*$)", -1),
    "last digit + 5": _other_digit(r"\d(?=\D*$)", 5),
    "first digit + 1": _other_digit(r"\d", 1),
    "a digit more": _frame("RIGHT7"),
    "a letter more": _frame("RIGHTa"),
    "a letter before": _frame("qRIGHT"),
    "a word more": _frame("RIGHT again"),
    "last letter": _other_letter(r"[^\W\d_](?=[\W\d_]*$)", "qz"),
    "first letter": _other_letter(r"[^\W\d_]", "qz"),
    "letter in the middle": _other_letter(r"(?<=[^\W\d_])[^\W\d_]", "qz"),
    "two letters exchanged": _swap_letters,
    "a character less": lambda right, wrong: right[:-1].strip() or None,
    "first character less": lambda right, wrong: right[1:].strip() or None,
    "a line less": _cut_line,
    "a part less": _cut_part,
    "a part more": _add_part,
    "a row more": _add_row,
    "a cross for a tick": _flip_cell("[\u2705\u274c]", {"\u2705": "\u274c", "\u274c": "\u2705"}),
    "parts exchanged": _exchange_parts,
    "a hundredth more": _one_percent,
    "all twice": _frame("RIGHTRIGHT"),
}

TWO_ANSWERS = (
    "OTHER = RIGHT",
    "RIGHT = OTHER",
    "$OTHER = RIGHT$",
    "x = RIGHT, y = OTHER",
    '"RIGHT" or "OTHER"',
    "(RIGHT) or (OTHER)",
    "RIGHT or OTHER",
    "RIGHT; OTHER",
    "RIGHT\nOTHER",
    "OTHER\nRIGHT",
    "[RIGHT, OTHER]",
    "\\boxed{RIGHT} \\boxed{OTHER}",
    "not RIGHT",
    "not = RIGHT",
    "NOT RIGHT",
    "\\neq RIGHT",
    "RIGHT or not",
    "RIGHT?",
)
"""Answers that contain another answer in addition to the right one, or that negate the right one."""


def spoilt(answer: str) -> str:
    """Return the answer with its last digit, mark or letter changed."""
    ends = ((r"\d(?=\D*$)", "17"), (r"[\u2705\u274c](?=\W*$)", "\u2705\u274c"), (r"[^\W\d_](?=[\W\d_]*$)", "qz"))
    for pattern, others in ends:
        found = re.search(pattern, answer)
        if found:
            other = others[0] if found[0] != others[0] else others[1]
            return answer[: found.start()] + other + answer[found.end() :]
    return answer + "?"


NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def in_asked_digits(task: str, right: str) -> str:
    """Return a right answer with only as many digits as the question asks for, so that each digit matters."""
    if task == "power_function":
        return f"{float(right):.2e}"
    if task == "coin_flip":
        return f"{float(right):.3g}"
    return right


def is_same_answer(text: str, right: str) -> bool:
    """Return True if a changed answer equals the right one apart from whitespace, case and extra zeros."""
    return _with_plain_numbers(text) == _with_plain_numbers(right)


def _with_plain_numbers(text: str) -> list[str]:
    """Return the words of a string in lower case, with 7 for `7.0` and `07`."""
    return re.sub(r"\d+(?:\.\d*)?|\.\d+", lambda number: str(Fraction(number[0])), text.casefold()).split()


CONSTANT = "a constant of integration has any name"
ORDER = "the order does not matter"
ROUNDED = "a right answer may be rounded"
NOUGHT = "a nought that says nothing"
STILL_RIGHT: Mapping[str, Mapping[str, str]] = {
    "advanced_geometry": {
        "a character less": "a parenthesis is missing",
        "first character less": "a parenthesis is missing",
        "a letter before": "the name of a point",
        "A1": "the next digit may be 1",
        "about A": ROUNDED,
    },
    "circuit_logic": {"all twice": "00 is 0"},
    "coin_flip": {"A1": "the next digit may be 1", "about A": ROUNDED, "first character less": NOUGHT},
    "cryptarithm": {"parts exchanged": ORDER, "first digit + 1": "some puzzles have several solutions"},
    "decimal_arithmetic": {"a character less": NOUGHT},
    "fraction_simplification": dict.fromkeys(("a character less", "first character less"), "a dollar is missing"),
    "graph_color": dict.fromkeys(
        ("last digit + 1", "last digit - 1", "parts exchanged"), "another colour is no conflict"
    ),
    "group_anagrams": {"parts exchanged": ORDER},
    "intermediate_integration": dict.fromkeys(("a digit more", "last letter", "a letter before", "A+1"), CONSTANT),
    "knights_knaves": {"a character less": "a full stop is missing"},
    "number_format": dict.fromkeys(("a character less", "last digit - 1"), "the seventh of eight decimals"),
    "power_function": {"about A": ROUNDED},
    "polynomial_equations": {
        "parts exchanged": ORDER,
        "a part more": "a double root may be listed twice",
        "about A": ROUNDED,
        "first character less": NOUGHT,
        "last digit - 1": "the question asks to round down where the fifth decimal is 5 or more",
        "last digit + 1": "the same, of a root below zero",
    },
    "quantum_lock": {"parts exchanged": "a button with an arrow that is as good as the arrow after it"},
    "rush_hour": dict.fromkeys(("parts exchanged", "first digit + 1"), "two cars do not meet"),
    "simple_integration": dict.fromkeys(("a digit more", "last letter", "a letter before", "A+1"), CONSTANT),
    "shortest_path": {"parts exchanged": "another way of the same length"},
    "sokoban": {"two letters exchanged": "two boxes do not meet"},
    "time_intervals": {
        **dict.fromkeys(("a character less", "a part less"), "the unit is clear from the question"),
        "first character less": NOUGHT,
    },
}
"""Changes after which an answer of the task is still right, with the reason."""


def known_answer(task: str, made: Generated) -> str | None:
    """Return the reference answer of a problem, or else an example answer or the solver's answer."""
    if made.answer is not None:
        return made.answer
    metadata = pickle.loads(made.entry)["metadata"]
    if task == "graph_color":
        return json.dumps(metadata["possible_answer"])
    example = metadata.get("example_answer") or metadata.get("example_correct_answer")
    return example or _solve(task, made.question)


def _solve(task: str, question: str) -> str | None:
    solve = TABLE[task].solve
    try:
        return None if solve is None else solve(question).answer
    except UnsolvedError:
        return None
