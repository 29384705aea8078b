"""Forms in which an honest model writes a right answer, by kind of answer.

A form is a function from a right answer and its question to the same answer in another notation. It returns None for an
answer to which the form does not apply, such as thousands separators in a number of two digits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Form = Callable[[str, str], str | None]
"""Returns a right answer to a question in this form; None where the form does not apply."""


def _frame(template: str) -> Form:
    """Put an answer into a frame; None for dollars within dollars."""

    def form(answer: str, question: str) -> str | None:
        return None if "$" in template and "$" in answer else template.replace("ANSWER", answer)

    return form


WRAPPED: Mapping[str, Form] = {
    "bare": _frame("ANSWER"),
    "blanks around": _frame(" \nANSWER \n"),
    "CRLF": lambda answer, question: answer.replace("\n", "\r\n") + "\r\n",
    "a code fence": _frame("```\nANSWER\n```"),
    "bold": _frame("**ANSWER**"),
    "backticks": _frame("`ANSWER`"),
    "a box": _frame("\\boxed{ANSWER}"),
    "a box in bold": _frame("**\\boxed{ANSWER}**"),
    "a box in dollars": _frame("$\\boxed{ANSWER}$"),
    "a box in double dollars": _frame("$$\\boxed{ANSWER}$$"),
    "a box in brackets": _frame("\\[\\boxed{ANSWER}\\]"),
    "a box in brackets on lines": _frame("\\[\n\\boxed{ANSWER}\n\\]"),
    "a box in parentheses": _frame("\\(\\boxed{ANSWER}\\)"),
    "text in a box": _frame("\\boxed{\\text{ANSWER}}"),
    "dollars": _frame("$ANSWER$"),
    "double dollars": _frame("$$ANSWER$$"),
    "math in parentheses": _frame("\\(ANSWER\\)"),
    "math in brackets": _frame("\\[ANSWER\\]"),
    "a full stop": lambda answer, question: None if answer.endswith(".") else answer + ".",
}


def _whole(answer: str) -> int | None:
    return int(answer) if re.fullmatch(r"-?\d+", answer) else None


def _plus(answer: str, question: str) -> str | None:
    return "+" + answer if re.fullmatch(r"[\d.]+", answer) and answer.strip("0.") else None


def _nought_before(answer: str, question: str) -> str | None:
    return re.sub(r"^(-?)", r"\g<1>0", answer, count=1) if _whole(answer) is not None else None


def _decimal(answer: str, question: str) -> str | None:
    return f"{answer}.0" if _whole(answer) is not None else None


def _more_digits(answer: str, question: str) -> str | None:
    return f"{answer}00" if re.fullmatch(r"-?\d+\.\d+", answer) else None


def _thousands(answer: str, question: str) -> str | None:
    whole, point, rest = answer.partition(".")
    return f"{int(whole):,}{point}{rest}" if re.fullmatch(r"-?\d{4,}(\.\d+)?", answer) else None


def _latex_thousands(answer: str, question: str) -> str | None:
    said = _thousands(answer, question)
    return said.replace(",", "{,}") if said else None


def _long_minus(answer: str, question: str) -> str | None:
    return answer.replace("-", "\N{MINUS SIGN}") if re.fullmatch(r"-[\d.]+", answer) else None


def _named(answer: str, question: str) -> str | None:
    variable = re.search(r"(?:value of|solve for|value\(s\) of) ([a-zA-Z])\b", question)
    return f"{variable[1]} = {answer}" if variable and re.fullmatch(r"-?[\d.]+", answer) else None


UNITS = r"How many (?:female |male |1 )?(legs|sisters|brothers|friends|colleagues|bits|prime numbers|rectangles)"
"""Nouns that questions ask to count."""


def _with_unit(answer: str, question: str) -> str | None:
    unit = re.search(UNITS, question, re.IGNORECASE)
    counted = unit[1] if unit else ("steps" if "number of steps" in question else "")
    return f"{answer} {counted}" if counted and _whole(answer) is not None else None


NUMBERS: Mapping[str, Form] = {
    "a plus sign": _plus,
    "a nought before it": _nought_before,
    "a decimal": _decimal,
    "more digits": _more_digits,
    "thousands separators": _thousands,
    "thousands separators in LaTeX": _latex_thousands,
    "a long minus": _long_minus,
    "the variable before it": _named,
    "the question's noun after it": _with_unit,
}


def _latex_fraction(command: str, frame: str = "ANSWER") -> Form:
    def form(answer: str, question: str) -> str | None:
        parts = re.findall(r"\d+", answer)
        return frame.replace("ANSWER", f"{command}{{{parts[0]}}}{{{parts[1]}}}") if len(parts) == 2 else None

    return form


def _slashed(slash: str) -> Form:
    def form(answer: str, question: str) -> str | None:
        parts = re.findall(r"\d+", answer)
        return slash.join(parts) if len(parts) == 2 else None

    return form


FRACTIONS: Mapping[str, Form] = {
    "a slash": _slashed("/"),
    "a slash with blanks": _slashed(" / "),
    "LaTeX": _latex_fraction("\\frac"),
    "LaTeX for display": _latex_fraction("\\dfrac"),
    "LaTeX in dollars": _latex_fraction("\\frac", "$ANSWER$"),
    "LaTeX in a box": _latex_fraction("\\frac", "\\boxed{ANSWER}"),
}

OPTIONS: Mapping[str, Form] = {
    "lower case": lambda answer, question: answer.lower(),
    "upper case": lambda answer, question: answer.upper(),
    "a capital": lambda answer, question: answer.capitalize(),
    "double quotes": _frame('"ANSWER"'),
    "single quotes": _frame("'ANSWER'"),
    "bold text in a box": _frame("\\boxed{\\textbf{ANSWER}}"),
}


def _parsed(answer: str) -> Any:
    try:
        return json.loads(answer.replace("'", '"'))
    except ValueError:
        return None


def _list_as(write: Callable[[Any], str]) -> Form:
    def form(answer: str, question: str) -> str | None:
        value = _parsed(answer)
        return write(value) if isinstance(value, list) else None

    return form


LISTS: Mapping[str, Form] = {
    "no blanks": _list_as(lambda value: json.dumps(value, separators=(",", ":"))),
    "JSON": _list_as(json.dumps),
    "indented JSON": _list_as(lambda value: json.dumps(value, indent=2)),
    "Python": _list_as(str),
    "JSON in a fence": _list_as(lambda value: f"```json\n{json.dumps(value)}\n```"),
    "indented JSON in a fence": _list_as(lambda value: f"```json\n{json.dumps(value, indent=4)}\n```"),
}


def _rows(answer: str) -> list[list[str]]:
    """Return the cells of a board, without lines and signs between them."""
    rows = [re.findall(r"-?\d+(?:\.\d+)?|[Q_]|[\u2705\u274c]", line) for line in answer.splitlines()]
    return [row for row in rows if row]


def _rows_as(write: Callable[[Sequence[Sequence[str]]], str]) -> Form:
    def form(answer: str, question: str) -> str | None:
        rows = _rows(answer)
        return write(rows) if sum(map(len, rows)) > 1 else None

    return form


def _plain_json(rows: Sequence[Sequence[str]], **options: Any) -> str:
    if all(re.fullmatch(r"-?\d+(\.\d+)?", cell) for row in rows for cell in row):
        return json.dumps([list(map(json.loads, row)) for row in rows], **options)
    return json.dumps(rows, ensure_ascii=False, **options)


def _close_together(answer: str, question: str) -> str | None:
    rows = _rows(answer)
    return "\n".join(map("".join, rows)) if all(len(cell) == 1 for row in rows for cell in row) else None


def _on_several_lines(form: Form) -> Form:
    return lambda answer, question: form(answer, question) if len(_rows(answer)) > 1 else None


BOARDS: Mapping[str, Form] = {
    "single blanks": _rows_as(lambda rows: "\n".join(map(" ".join, rows))),
    "double blanks": _rows_as(lambda rows: "\n".join(map("  ".join, rows))),
    "tabs": _rows_as(lambda rows: "\n".join(map("\t".join, rows))),
    "no blanks": _on_several_lines(_close_together),
    "blank lines": _on_several_lines(_rows_as(lambda rows: "\n\n".join(map(" ".join, rows)))),
    "commas": _rows_as(lambda rows: "\n".join(map(", ".join, rows))),
    "bars": _rows_as(lambda rows: "\n".join(f"| {' | '.join(row)} |" for row in rows)),
    "rows in brackets": _rows_as(lambda rows: "\n".join(f"[{' '.join(row)}]" for row in rows)),
    "a list of lists": _on_several_lines(_rows_as(_plain_json)),
    "an indented list of lists": _on_several_lines(_rows_as(lambda rows: _plain_json(rows, indent=2))),
    "a list of lists on lines": _on_several_lines(_rows_as(lambda rows: _plain_json(rows).replace("], ", "],\n "))),
    "a LaTeX matrix": _on_several_lines(
        _rows_as(lambda rows: "\\begin{bmatrix}\n" + " \\\\\n".join(map(" & ".join, rows)) + "\n\\end{bmatrix}")
    ),
    "a fence": _rows_as(lambda rows: "```text\n" + "\n".join(map(" ".join, rows)) + "\n```"),
}


def _replaced(*pairs: tuple[str, str]) -> Form:
    def form(answer: str, question: str) -> str | None:
        said = answer
        for pattern, replacement in pairs:
            said = re.sub(pattern, replacement, said)
        return said if said != answer else None

    return form


EXPRESSIONS: Mapping[str, Form] = {
    "no blanks": _replaced((r"\s+", "")),
    "parentheses around": lambda answer, question: None if "," in answer else f"({answer})",
    "times signs": _replaced((r"(?<!\*)\*(?!\*)", "\N{MULTIPLICATION SIGN}")),
    "dots for times": _replaced((r"(?<!\*)\*(?!\*)", "\N{DOT OPERATOR}")),
    "division signs": _replaced(("/", "\N{DIVISION SIGN}")),
    "LaTeX times": _replaced((r"(?<!\*)\*(?!\*)", r" \\times ")),
    "long minus": _replaced(("-", "\N{MINUS SIGN}")),
    "square brackets": _replaced((r"\(", "["), (r"\)", "]")),
}

FACTORS: Mapping[str, Form] = {
    "no blanks": _replaced((" ", "")),
    "stars": _replaced(("\N{MULTIPLICATION SIGN}", "*")),
    "LaTeX": _replaced(("\N{MULTIPLICATION SIGN}", r"\\times")),
    "the letter x": _replaced(("\N{MULTIPLICATION SIGN}", "x")),
}

WORDS: Mapping[str, Form] = {
    "no blanks after commas": _replaced((r",\s+", ",")),
    "blanks after commas": _replaced((r",\s*", ", ")),
    "a list": lambda answer, question: json.dumps(re.split(r",\s*", answer)) if "," in answer else None,
}

TIMES: Mapping[str, Form] = {
    "capitals": _replaced(("days", "Days")),
    "no comma": _replaced((", ", " ")),
}

KINDS: Mapping[str, tuple[Mapping[str, Form], str]] = {
    "number": (
        NUMBERS,
        "advanced_geometry aiw base_conversion basic_arithmetic binary_alternation bitwise_arithmetic "
        "calendar_arithmetic chain_sum circuit_logic coin_flip count_bits count_primes decimal_arithmetic "
        "decimal_chain_sum gcd gsm_symbolic largest_island lcm leg_counting letter_counting maze number_format "
        "number_sequence polynomial_equations power_function products rectangle_count rotten_oranges self_reference "
        "simple_equations simple_geometry",
    ),
    "fraction": (FRACTIONS, "dice fraction_simplification"),
    "option": (
        OPTIONS,
        "acre color_cube_rotation course_schedule family_relationships game_of_life_halting isomorphic_strings "
        "mahjong_puzzle needle_haystack ransom_note syllogism zebra_puzzles",
    ),
    "list": (
        LISTS,
        "game_of_life group_anagrams jugs knight_swap list_functions number_filtering number_sorting "
        "palindrome_partitioning",
    ),
    "board": (
        BOARDS,
        "arc_1d arc_agi binary_matrix futoshiki kakurasu manipulate_matrix mini_sudoku modulo_grid n_queens "
        "pool_matrix rearc rotate_matrix spiral_matrix string_splitting string_synthesis sudoku survo",
    ),
    "expression": (EXPRESSIONS, "countdown puzzle24 polynomial_multiplication simple_integration"),
    "factors": (FACTORS, "prime_factorization"),
    "words": (WORDS, "cryptarithm word_ladder word_sequence_reversal word_sorting"),
    "time": (TIMES, "time_intervals"),
    "text": (
        {},
        "ab bf caesar_cipher codeio complex_arithmetic emoji_mystery figlet_font graph_color "
        "intermediate_integration knights_knaves letter_jumble palindrome_generation path_star propositional_logic "
        "quantum_lock rubiks_cube sentence_reordering shortest_path sokoban spell_backward string_insertion "
        "string_manipulation tower_of_hanoi tsumego",
    ),
}


def kind_of(task: str) -> str:
    return next(kind for kind, (_, tasks) in KINDS.items() if task in tasks.split())


def honest_forms(task: str, answer: str, question: str) -> dict[str, str]:
    """Return a right answer in all forms that apply, by name."""
    forms = {**WRAPPED, **KINDS[kind_of(task)][0]}
    said = {name: form(answer, question) for name, form in forms.items()}
    return {name: text for name, text in said.items() if text is not None}
