"""Notations (forms) in which a model writes a right answer, by kind of answer and class of notation.

A form is a function that takes a right answer and its question, and returns the answer in another notation. It returns
None if the notation does not apply, such as thousands separators in a number of two digits. The forms follow what
models write (Markdown, LaTeX, Python, JSON, Unicode, units), and not what the answer parsers accept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any

Form = Callable[[str, str], str | None]
"""Takes a right answer and its question; returns the answer in this notation, or None if it does not apply."""


class FormClass(StrEnum):
    """How a notation differs from the right answer."""

    CORE = "core"
    """Notations in which models write answers of this kind."""
    DECORATION = "decoration"
    """Text around the whole answer that does not change its meaning."""


@dataclass(frozen=True)
class HonestAnswer:
    """A right answer in another notation."""

    text: str
    form_class: FormClass


def _frame(template: str) -> Form:
    """Return a form that inserts the answer into a template; None if both contain dollar signs."""

    def form(answer: str, question: str) -> str | None:
        return None if "$" in template and "$" in answer else template.replace("ANSWER", answer)

    return form


def _line(template: str, *, besides: str = "") -> Form:
    """Return a form for answers of one line; None if the answer contains one of the characters `besides`."""

    def form(answer: str, question: str) -> str | None:
        if "\n" in answer or any(mark in answer for mark in besides):
            return None
        return _frame(template)(answer, question)

    return form


WRAPPED: Mapping[str, Form] = {
    "bare": _frame("ANSWER"),
    "blanks around": _frame(" \nANSWER \n"),
    "CRLF": lambda answer, question: answer.replace("\n", "\r\n") + "\r\n",
    "a code fence": _frame("```\nANSWER\n```"),
    "a code fence with a language": _frame("```text\nANSWER\n```"),
    "bold": _frame("**ANSWER**"),
    "bold with a full stop": lambda answer, question: None if answer.endswith(".") else f"**{answer}**.",
    "backticks": _frame("`ANSWER`"),
    "bold backticks": _frame("**`ANSWER`**"),
    "a box": _frame("\\boxed{ANSWER}"),
    "a box in bold": _frame("**\\boxed{ANSWER}**"),
    "a box in dollars": _frame("$\\boxed{ANSWER}$"),
    "a box in double dollars": _frame("$$\\boxed{ANSWER}$$"),
    "a box in double dollars on lines": _frame("$$\n\\boxed{ANSWER}\n$$"),
    "a box in brackets": _frame("\\[\\boxed{ANSWER}\\]"),
    "a box in brackets on lines": _frame("\\[\n\\boxed{ANSWER}\n\\]"),
    "a box in parentheses": _frame("\\(\\boxed{ANSWER}\\)"),
    "text in a box": _frame("\\boxed{\\text{ANSWER}}"),
    "text in a box in dollars": _frame("$\\boxed{\\text{ANSWER}}$"),
    "text in a box in brackets": _frame("\\[ \\boxed{\\text{ANSWER}} \\]"),
    "a typewriter's text in a box": _frame("\\boxed{\\texttt{ANSWER}}"),
    "upright text in a box": _frame("\\boxed{\\mathrm{ANSWER}}"),
    "dollars": _frame("$ANSWER$"),
    "double dollars": _frame("$$ANSWER$$"),
    "math in parentheses": _frame("\\(ANSWER\\)"),
    "math in parentheses with blanks": _frame("\\( ANSWER \\)"),
    "math in brackets": _frame("\\[ANSWER\\]"),
    "a full stop": lambda answer, question: None if answer.endswith(".") else answer + ".",
    "a label": _frame("Answer: ANSWER"),
    "a bold label": _frame("**Answer:** ANSWER"),
}

QUOTED: Mapping[str, Form] = {
    "double quotes": _line('"ANSWER"', besides='"'),
    "single quotes": _line("'ANSWER'", besides="'"),
    "curly quotes": _line("\u201cANSWER\u201d", besides="\u201c\u201d"),
    "curly single quotes": _line("\u2018ANSWER\u2019", besides="\u2018\u2019"),
    "quotes in bold": _line('**"ANSWER"**', besides='"'),
    "bold in quotes": _line('"**ANSWER**"', besides='"'),
    "quotes in a box": _line('\\boxed{"ANSWER"}', besides='"'),
    "quoted text in a box": _line('\\boxed{\\text{"ANSWER"}}', besides='"'),
    "quotes in backticks": _line('`"ANSWER"`', besides='"'),
    "quotes in a fence": _line('```\n"ANSWER"\n```', besides='"'),
    "LaTeX quotes": _line("``ANSWER''", besides="`'"),
    "quotes with a full stop": lambda answer, question: (
        None if "\n" in answer or '"' in answer or answer.endswith(".") else f'"{answer}".'
    ),
}
"""Quotes are a core notation of strings, because questions quote strings, and decoration of other answers."""


FULL_WIDTH = {ord(digit): 0xFEE0 + ord(digit) for digit in "0123456789"}

DECORATED: Mapping[str, Form] = {
    "a label with an equals sign": _line("Result = ANSWER", besides="="),
    "a small label with an equals sign": _line("answer = ANSWER", besides="="),
    "a label on a line": _frame("**Final Answer:**\nANSWER"),
    "a label in a heading": _frame("### Answer\nANSWER"),
    "a label of one's own": _line("My answer: ANSWER"),
    "a label with underscores": _line("__Answer:__ ANSWER"),
    "a label before a box": _frame("Final Answer: \\boxed{ANSWER}"),
    "a label in LaTeX": _line("\\textbf{Answer:} ANSWER"),
    "large mathematics": _frame("$\\Large ANSWER$"),
    "large text in a box": _line("\\boxed{\\Large ANSWER}"),
    "bold mathematics": _line("$\\mathbf{ANSWER}$", besides="$"),
    "displayed mathematics": _line("$\\displaystyle ANSWER$", besides="$"),
    "doubled backslashes": _line("\\\\boxed{ANSWER}", besides="\\"),
    "a line break of LaTeX": _frame("\\boxed{ANSWER} \\\\"),
    "characters without width around": _frame("\u200bANSWER\u200e"),
    "full-width digits": lambda answer, question: answer.translate(FULL_WIDTH) if re.search(r"\d", answer) else None,
    "italics": _line("*ANSWER*", besides="*"),
    "bold italics": _line("***ANSWER***", besides="*"),
    "italics with underscores": _line("_ANSWER_", besides="_"),
    "bold with underscores": _line("__ANSWER__", besides="_"),
    "parentheses": _line("(ANSWER)"),
    "parentheses in dollars": _line("$(ANSWER)$"),
    "bold in parentheses": _line("(**ANSWER**)"),
    "a label of a sentence": _frame("The final answer is: ANSWER"),
    "a bold label of a sentence": _line("**The answer is:** ANSWER"),
    "a label with an arrow": _line("Answer \u2192 ANSWER"),
    "a label in Spanish": _line("Respuesta: ANSWER"),
    "a sentence in German": _frame("Die Antwort ist ANSWER"),
    "a sentence in French": _frame("La r\u00e9ponse est : ANSWER"),
    "a sentence in Chinese": _frame("\u7b54\u6848\u662fANSWER"),
    "a label in Chinese": _line("\u6700\u7ec8\u7b54\u6848\uff1aANSWER"),
    "a plural": _line("Answers: ANSWER"),
    "dollars in a box": _line("\\boxed{$ANSWER$}"),
    "dollars in a box in dollars": lambda answer, question: f"$\\boxed{{${answer.strip('$')}$}}$",
    "emphasis in LaTeX": _line("\\emph{ANSWER}"),
    "bold text in a box": _frame("\\boxed{\\textbf{ANSWER}}"),
    "bold mathematics in a box": _frame("\\boxed{\\mathbf{ANSWER}}"),
    "a framed box": _line("\\fbox{ANSWER}"),
    "three backticks on a line": _line("```ANSWER```", besides="`"),
    "no-break blanks around": _frame("\u00a0ANSWER\u00a0"),
    "a trailing newline in a box": _frame("\\boxed{\nANSWER\n}"),
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


def _thousands(separator: str) -> Form:
    def form(answer: str, question: str) -> str | None:
        whole, point, rest = answer.partition(".")
        if not re.fullmatch(r"-?\d{4,}(\.\d+)?", answer):
            return None
        return f"{int(whole):,}".replace(",", separator) + point + rest

    return form


def _long_minus(answer: str, question: str) -> str | None:
    return answer.replace("-", "\N{MINUS SIGN}") if re.fullmatch(r"-[\d.]+", answer) else None


def _blank_after_minus(answer: str, question: str) -> str | None:
    return answer.replace("-", "- ") if re.fullmatch(r"-[\d.]+", answer) else None


def _named(template: str) -> Form:
    def form(answer: str, question: str) -> str | None:
        variable = re.search(r"(?:value of|solve for|value\(s\) of) ([a-zA-Z])\b", question)
        if variable is None or not re.fullmatch(r"-?[\d.]+", answer):
            return None
        return template.replace("NAME", variable[1]).replace("ANSWER", answer)

    return form


def _degrees(unit: str) -> Form:
    def form(answer: str, question: str) -> str | None:
        number = answer.removesuffix("\N{DEGREE SIGN}")
        is_angle = "degree" in question and "radius of" not in question
        return number + unit if is_angle and re.fullmatch(r"[\d.]+", number) else None

    return form


def _scientific(times: str, power: str) -> Form:
    def form(answer: str, question: str) -> str | None:
        if not re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?", answer) or float(answer) == 0 or "hexi" in question:
            return None
        digits = re.sub(r"e.*|[-.]", "", answer).strip("0")
        if not 2 <= len(digits) <= 15 or 0.1 <= abs(float(answer)) < 10_000:
            return None
        mantissa, exponent = f"{float(answer):.{len(digits) - 1}e}".split("e")
        return f"{mantissa}{times}{power.replace('N', str(int(exponent)))}"

    return form


def _restated(answer: str, question: str) -> str | None:
    """Write the expression of the question, an equals sign and the answer."""
    asked = re.search(r"(?:Calculate|problem:|multiplication:) (-?[\d(][-\d.+*/() ]*\d\)?)(?: =)?", question)
    is_whole = asked is not None and asked[1].count("(") == asked[1].count(")")
    return f"{asked[1]} = {answer}" if asked and is_whole and re.fullmatch(r"-?[\d.]+", answer) else None


NUMBERS: Mapping[str, Form] = {
    "a plus sign": _plus,
    "a nought before it": _nought_before,
    "a decimal": _decimal,
    "more digits": _more_digits,
    "thousands separators": _thousands(","),
    "thousands separators in LaTeX": _thousands("{,}"),
    "thousands blanks in LaTeX": _thousands("\\,"),
    "thousands separators in a box": lambda answer, question: (
        f"\\boxed{{{said}}}" if (said := _thousands(",")(answer, question)) else None
    ),
    "thin blanks between thousands": _thousands("\u202f"),
    "blanks between thousands": _thousands(" "),
    "apostrophes between thousands": _thousands("'"),
    "a long minus": _long_minus,
    "a blank after the minus": _blank_after_minus,
    "the variable before it": _named("NAME = ANSWER"),
    "the variable before it in dollars": _named("$NAME = ANSWER$"),
    "the variable before a box": _named("$NAME = \\boxed{ANSWER}$"),
    "the variable before it, no blanks": _named("NAME=ANSWER"),
    "a degree sign": _degrees("\N{DEGREE SIGN}"),
    "degrees": _degrees(" degrees"),
    "degrees in LaTeX": _degrees("^\\circ"),
    "degrees in LaTeX braces": _degrees("^{\\circ}"),
    "degrees in LaTeX in dollars": lambda answer, question: (
        f"${said}$" if (said := _degrees("^\\circ")(answer, question)) else None
    ),
    "a power of ten in LaTeX": _scientific(" \\times ", "10^{N}"),
    "a power of ten in LaTeX in dollars": lambda answer, question: (
        f"${said}$" if (said := _scientific(" \\times ", "10^{N}")(answer, question)) else None
    ),
    "a power of ten with a times sign": _scientific(" \N{MULTIPLICATION SIGN} ", "10^N"),
    "a power of ten in Python": _scientific(" * ", "10**N"),
    "an exponent": _scientific("", "eN"),
    "the question's expression before it": _restated,
    "a product before it": lambda answer, question: f"1 \\times {answer} = {answer}" if _whole(answer) else None,
    "a power before it": lambda answer, question: f"2^0 \u00d7 {answer} = {answer}" if _whole(answer) else None,
}

SUBSCRIPTS = str.maketrans("0123456789", "\u2080\u2081\u2082\u2083\u2084\u2085\u2086\u2087\u2088\u2089")


def _target_base(question: str) -> str:
    name = question.split(" to ")[-1].split()[0].strip(".,")
    return {"binary": "2", "hexadecimal": "16"}.get(name, name.removeprefix("base-"))


def _in_base(template: str) -> Form:
    def form(answer: str, question: str) -> str | None:
        base = _target_base(question)
        said = template.replace("ANSWER", answer).replace("BASE", base)
        return said.replace("SUB", base.translate(SUBSCRIPTS))

    return form


BASES: Mapping[str, Form] = {
    "a subscript": _in_base("ANSWER_BASE"),
    "a subscript in braces": _in_base("ANSWER_{BASE}"),
    "a subscript in braces in dollars": _in_base("$ANSWER_{BASE}$"),
    "a subscript in a box": _in_base("\\boxed{ANSWER_{BASE}}"),
    "parentheses with a subscript": _in_base("(ANSWER)_BASE"),
    "parentheses with a subscript in braces": _in_base("(ANSWER)_{BASE}"),
    "text with a subscript": _in_base("\\text{ANSWER}_{BASE}"),
    "a subscript of Unicode": _in_base("ANSWERSUB"),
    "the base in parentheses": _in_base("ANSWER (base BASE)"),
    "the base after it": _in_base("ANSWER base BASE"),
    "in the base": _in_base("ANSWER in base BASE"),
    "a prefix": lambda answer, question: (
        f"0{mark}{answer}" if (mark := {"2": "b", "16": "x", "8": "o"}.get(_target_base(question))) else None
    ),
}

HEXADECIMAL: Mapping[str, Form] = {
    "capitals": lambda answer, question: answer.upper().replace("X", "x"),
    "a capital prefix": lambda answer, question: answer.replace("x", "X"),
    "a subscript": lambda answer, question: f"{answer}_{{16}}",
    "a long minus": lambda answer, question: answer.replace("-", "\N{MINUS SIGN}") if "-" in answer else None,
}


def _as_fraction(answer: str, question: str) -> tuple[int, int] | None:
    """Return the probability of at least this number of heads in the given flips as a reduced fraction."""
    if not re.fullmatch(r"[\d.]+(e-?\d+)?", answer):
        return None
    value = Fraction(answer).limit_denominator(2**20)
    is_same = value.denominator > 1 and abs(float(value) - float(answer)) < 1e-12
    return (value.numerator, value.denominator) if is_same else None


def _probability(template: str) -> Form:
    def form(answer: str, question: str) -> str | None:
        parts = _as_fraction(answer, question)
        return template.replace("UP", str(parts[0])).replace("DOWN", str(parts[1])) if parts else None

    return form


def _percent(template: str, digits: int) -> Form:
    def form(answer: str, question: str) -> str | None:
        value = float(answer) * 100
        return template.replace("ANSWER", f"{value:.{digits}g}") if 0.1 < value <= 100 else None

    return form


PROBABILITIES: Mapping[str, Form] = {
    "a fraction": _probability("UP/DOWN"),
    "a fraction with blanks": _probability("UP / DOWN"),
    "a fraction in LaTeX": _probability("\\frac{UP}{DOWN}"),
    "a fraction for display": _probability("\\dfrac{UP}{DOWN}"),
    "a fraction in LaTeX in dollars": _probability("$\\frac{UP}{DOWN}$"),
    "a fraction in LaTeX in a box": _probability("\\boxed{\\frac{UP}{DOWN}}"),
    "percent": _percent("ANSWER%", 12),
    "percent with a blank": _percent("ANSWER %", 12),
    "percent in LaTeX": _percent("$ANSWER\\%$", 12),
    "percent in a box": _percent("\\boxed{ANSWER\\%}", 12),
}


def _latex_fraction(command: str, frame: str = "ANSWER", *, blank: str = "", comma: str = "") -> Form:
    def form(answer: str, question: str) -> str | None:
        parts = re.findall(r"\d+", answer)
        if len(parts) != 2:
            return None
        above, below = (f"{blank}{int(part):,}{blank}" if comma else f"{blank}{part}{blank}" for part in parts)
        return frame.replace("ANSWER", f"{command}{{{above}}}{{{below}}}")

    return form


def _slashed(slash: str, *, comma: bool = False, frame: str = "ANSWER") -> Form:
    def form(answer: str, question: str) -> str | None:
        parts = re.findall(r"\d+", answer)
        if len(parts) != 2:
            return None
        return frame.replace("ANSWER", slash.join(f"{int(part):,}" if comma else part for part in parts))

    return form


FRACTIONS: Mapping[str, Form] = {
    "a slash": _slashed("/"),
    "a slash with blanks": _slashed(" / "),
    "a slash of fractions": _slashed("\N{FRACTION SLASH}"),
    "a division sign": _slashed(" \N{DIVISION SIGN} "),
    "thousands separators": _slashed("/", comma=True),
    "a slash in dollars": lambda answer, question: f"${_slashed('/')(answer, question)}$",
    "a slash in a box": lambda answer, question: f"\\boxed{{{_slashed('/')(answer, question)}}}",
    "LaTeX": _latex_fraction("\\frac"),
    "LaTeX for display": _latex_fraction("\\dfrac"),
    "LaTeX for text": _latex_fraction("\\tfrac"),
    "LaTeX for a continued fraction": _latex_fraction("\\cfrac"),
    "LaTeX with blanks": _latex_fraction("\\frac", blank=" "),
    "LaTeX with thousands separators": _latex_fraction("\\frac", comma=","),
    "LaTeX in dollars": _latex_fraction("\\frac", "$ANSWER$"),
    "LaTeX in double dollars": _latex_fraction("\\frac", "$$ANSWER$$"),
    "LaTeX in parentheses": _latex_fraction("\\frac", "\\( ANSWER \\)"),
    "LaTeX in a box": _latex_fraction("\\frac", "\\boxed{ANSWER}"),
    "LaTeX in a box in dollars": _latex_fraction("\\dfrac", "$\\boxed{ANSWER}$"),
    "LaTeX in dollars in a box": _latex_fraction("\\frac", "\\boxed{$ANSWER$}"),
    "LaTeX in dollars in a box in dollars": _latex_fraction("\\frac", "$\\boxed{$ANSWER$}$"),
}

OPTIONS: Mapping[str, Form] = {
    "lower case": lambda answer, question: answer.lower(),
    "upper case": lambda answer, question: answer.upper(),
    "a capital": lambda answer, question: answer.capitalize(),
    "bold with a capital": lambda answer, question: f"**{answer.capitalize()}**",
}


def _parsed(answer: str) -> Any:
    try:
        return json.loads(answer)
    except ValueError:
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
    "a tuple": _list_as(
        lambda value: str(tuple(value)) if len(value) > 1 and isinstance(value[0], int) else str(value)
    ),
    "a comma at the end": _list_as(lambda value: str(value)[:-1] + ",]" if value else "[]"),
    "JSON in a fence": _list_as(lambda value: f"```json\n{json.dumps(value)}\n```"),
    "Python in a fence": _list_as(lambda value: f"```python\n{value}\n```"),
    "indented JSON in a fence": _list_as(lambda value: f"```json\n{json.dumps(value, indent=4)}\n```"),
    "large brackets in LaTeX": _list_as(lambda value: "\\left" + str(value)[:-1] + "\\right]"),
    "Python in a box": _list_as(lambda value: f"\\boxed{{{value}}}"),
}


def _object_as(write: Callable[[Any], str]) -> Form:
    def form(answer: str, question: str) -> str | None:
        value = _parsed(answer)
        return write(value) if isinstance(value, dict) else None

    return form


OBJECTS: Mapping[str, Form] = {
    "JSON": _object_as(json.dumps),
    "no blanks": _object_as(lambda value: json.dumps(value, separators=(",", ":"))),
    "indented JSON": _object_as(lambda value: json.dumps(value, indent=2)),
    "Python": _object_as(str),
    "Python in a fence": _object_as(lambda value: f"```python\n{value}\n```"),
    "JSON in a fence": _object_as(lambda value: f"```json\n{json.dumps(value)}\n```"),
}
VERTICES: Mapping[str, Form] = {
    **OBJECTS,
    "Python with numbers": _object_as(lambda value: str({int(key): color for key, color in value.items()})),
    "Python with numbers in a fence": _object_as(
        lambda value: f"```python\n{ {int(key): color for key, color in value.items()} }\n```"
    ),
}


def _rows(answer: str) -> list[list[str]]:
    """Return the cells of a board, without the lines and signs between the cells."""
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


def _latex_matrix(kind: str, frame: str = "ROWS", *, newline: str = "\n") -> Form:
    def write(rows: Sequence[Sequence[str]]) -> str:
        lines = f" \\\\{newline}".join(map(" & ".join, rows))
        columns = "{" + "c" * len(rows[0]) + "}" if kind == "array" else ""
        return frame.replace("ROWS", f"\\begin{{{kind}}}{columns}{newline}{lines}{newline}\\end{{{kind}}}")

    return _on_several_lines(_rows_as(write))


def _markdown_table(rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


BOARDS: Mapping[str, Form] = {
    "single blanks": _rows_as(lambda rows: "\n".join(map(" ".join, rows))),
    "double blanks": _rows_as(lambda rows: "\n".join(map("  ".join, rows))),
    "tabs": _rows_as(lambda rows: "\n".join(map("\t".join, rows))),
    "no blanks": _on_several_lines(_close_together),
    "blank lines": _on_several_lines(_rows_as(lambda rows: "\n\n".join(map(" ".join, rows)))),
    "commas": _rows_as(lambda rows: "\n".join(map(", ".join, rows))),
    "bars": _rows_as(lambda rows: "\n".join(f"| {' | '.join(row)} |" for row in rows)),
    "a Markdown table": _on_several_lines(_rows_as(_markdown_table)),
    "rows in brackets": _rows_as(lambda rows: "\n".join(f"[{' '.join(row)}]" for row in rows)),
    "rows as lists": _rows_as(lambda rows: "\n".join(f"[{', '.join(row)}]" for row in rows)),
    "a list of lists": _on_several_lines(_rows_as(_plain_json)),
    "a list in Python": _on_several_lines(_rows_as(lambda rows: str(rows))),
    "an indented list of lists": _on_several_lines(_rows_as(lambda rows: _plain_json(rows, indent=2))),
    "a list of lists on lines": _on_several_lines(_rows_as(lambda rows: _plain_json(rows).replace("], ", "],\n "))),
    "a list of lines": _on_several_lines(_rows_as(lambda rows: json.dumps([" ".join(row) for row in rows]))),
    "an array as it is printed": _on_several_lines(
        _rows_as(lambda rows: "[" + "\n ".join(f"[{' '.join(row)}]" for row in rows) + "]")
    ),
    "a LaTeX matrix": _latex_matrix("bmatrix"),
    "a LaTeX matrix in round brackets": _latex_matrix("pmatrix"),
    "a LaTeX matrix in dollars": _latex_matrix("bmatrix", "$$\nROWS\n$$"),
    "a LaTeX matrix in a box": _latex_matrix("bmatrix", "\\boxed{ROWS}"),
    "a LaTeX matrix in a box in brackets": _latex_matrix("bmatrix", "\\[\n\\boxed{\nROWS\n}\n\\]"),
    "a LaTeX matrix on a line": _latex_matrix("pmatrix", "$ROWS$", newline=" "),
    "a LaTeX array": _latex_matrix("array"),
    "a LaTeX array in brackets": _latex_matrix("array", "\\left[ROWS\\right]"),
    "a LaTeX array in brackets in a box": _latex_matrix("array", "\\boxed{\\left[ROWS\\right]}"),
    "a LaTeX array in brackets in dollars": _latex_matrix("array", "$$\\left[\nROWS\n\\right]$$"),
    "a LaTeX array in round brackets": _latex_matrix("array", "\\left( ROWS \\right)", newline=" "),
    "LaTeX blanks in a box": lambda answer, question: (
        "\\boxed{" + "\\ ".join(rows[0]) + "}" if len(rows := _rows(answer)) == 1 and len(rows[0]) > 1 else None
    ),
    "LaTeX quads in a box": lambda answer, question: (
        "\\boxed{" + " \\quad ".join(rows[0]) + "}" if len(rows := _rows(answer)) == 1 and len(rows[0]) > 1 else None
    ),
    "arrows": lambda answer, question: (
        " \N{RIGHTWARDS ARROW} ".join(rows[0]) if len(rows := _rows(answer)) == 1 and len(rows[0]) > 1 else None
    ),
    "a list of cells": lambda answer, question: (
        "[" + ", ".join(rows[0]) + "]" if len(rows := _rows(answer)) == 1 and len(rows[0]) > 1 else None
    ),
    "a fence": _rows_as(lambda rows: "```text\n" + "\n".join(map(" ".join, rows)) + "\n```"),
    "a list of lists in a fence": _on_several_lines(_rows_as(lambda rows: f"```python\n{_plain_json(rows)}\n```")),
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
    "LaTeX times in a box": lambda answer, question: (
        f"\\boxed{{{said}}}"
        if (said := _replaced((r"(?<!\*)\*(?!\*)", r" \\cdot "))(answer, question)) and "**" not in answer
        else None
    ),
    "large parentheses": _replaced((r"\(", r"\\left("), (r"\)", r"\\right)")),
    "long minus": _replaced(("-", "\N{MINUS SIGN}")),
    "square brackets": _replaced((r"\(", "["), (r"\)", "]")),
}
INTEGRALS: Mapping[str, Form] = {
    **EXPRESSIONS,
    "powers of mathematics": _replaced((r"\*\*", "^")),
    "products of mathematics": _replaced((r"(?<=\d)\*(?=[a-zA-Z])", "")),
    "another constant": _replaced((r"\+ C$", "+ K")),
    "a logarithm": _replaced(("log", "ln")),
}

FACTORS: Mapping[str, Form] = {
    "no blanks": _replaced((" ", "")),
    "stars": _replaced(("\N{MULTIPLICATION SIGN}", "*")),
    "LaTeX": _replaced(("\N{MULTIPLICATION SIGN}", r"\\times")),
    "LaTeX dots": _replaced(("\N{MULTIPLICATION SIGN}", r"\\cdot")),
    "LaTeX in dollars": lambda answer, question: "$" + answer.replace("\N{MULTIPLICATION SIGN}", "\\times") + "$",
    "LaTeX in a box": lambda answer, question: "\\boxed{" + answer.replace("\N{MULTIPLICATION SIGN}", "\\times") + "}",
    "the letter x": _replaced(("\N{MULTIPLICATION SIGN}", "x")),
    "the number before them": lambda answer, question: f"{_factored(question)} = {answer}",
    "the number before them in dollars": lambda answer, question: (
        f"${_factored(question)} = " + answer.replace("\N{MULTIPLICATION SIGN}", "\\times") + "$"
    ),
    "the number before them with stars": lambda answer, question: (
        f"{_factored(question)} = " + answer.replace("\N{MULTIPLICATION SIGN}", "*")
    ),
}


def _factored(question: str) -> str:
    found = re.search(r"factorization of (\d+)", question)
    assert found is not None
    return found[1]


def _items_as(write: Callable[[list[str]], str], separators: str = r"\s*,\s*") -> Form:
    """Return a form that rewrites the elements of a sequence; None for a sequence of one element."""

    def form(answer: str, question: str) -> str | None:
        items = re.split(separators, answer)
        return write(items) if len(items) > 1 else None

    return form


WORDS: Mapping[str, Form] = {
    "and": _items_as(lambda words: f"{', '.join(words[:-1])} and {words[-1]}"),
    "and after a comma": _items_as(lambda words: f"{', '.join(words[:-1])}, and {words[-1]}"),
    "no blanks after commas": _items_as(",".join),
    "blanks after commas": _items_as(", ".join),
    "JSON": _items_as(json.dumps),
    "a Python list": _items_as(str),
    "a Python list in a fence": _items_as(lambda words: f"```python\n{words}\n```"),
    "brackets": _items_as(lambda words: f"[{', '.join(words)}]"),
    "each word in double quotes": _items_as(lambda words: ", ".join(f'"{word}"' for word in words)),
    "each word in single quotes": lambda answer, question: (
        None if "'" in answer else ", ".join(f"'{word}'" for word in re.split(r"\s*,\s*", answer))
    ),
    "each word in backticks": _items_as(lambda words: ", ".join(f"`{word}`" for word in words)),
    "each word in bold": _items_as(lambda words: ", ".join(f"**{word}**" for word in words)),
    "one a line": _items_as("\n".join),
    "one a line with commas": _items_as(",\n".join),
    "semicolons": _items_as("; ".join),
    "a comma at the end": _items_as(lambda words: ", ".join(words) + ","),
    "text in a box with LaTeX blanks": _items_as(lambda words: "\\boxed{\\text{" + ",\\ ".join(words) + "}}"),
    "texts in a box": _items_as(lambda words: "\\boxed{" + ", ".join(f"\\text{{{word}}}" for word in words) + "}"),
}
LADDERS: Mapping[str, Form] = {
    **WORDS,
    "arrows": _items_as(" \N{RIGHTWARDS ARROW} ".join),
    "arrows of two signs": _items_as(" -> ".join),
    "arrows in LaTeX": _items_as(
        lambda words: "$" + " \\rightarrow ".join(f"\\text{{{word}}}" for word in words) + "$"
    ),
}
LETTER_VALUES: Mapping[str, Form] = {
    "and": _items_as(lambda pairs: f"{', '.join(pairs[:-1])} and {pairs[-1]}"),
    "blanks after commas": _items_as(", ".join),
    "colons": _items_as(lambda pairs: ", ".join(pair.replace("=", ": ") for pair in pairs)),
    "colons without blanks": _items_as(lambda pairs: ",".join(pair.replace("=", ":") for pair in pairs)),
    "blanks around equals signs": _items_as(lambda pairs: ", ".join(pair.replace("=", " = ") for pair in pairs)),
    "one a line": _items_as(lambda pairs: "\n".join(pair.replace("=", " = ") for pair in pairs)),
    "one a line with colons": _items_as(lambda pairs: "\n".join(pair.replace("=", ": ") for pair in pairs)),
    "semicolons": _items_as("; ".join),
    "a comma at the end": _items_as(lambda pairs: ",".join(pairs) + ","),
    "JSON": _items_as(lambda pairs: json.dumps({pair[0]: int(pair[2:]) for pair in pairs})),
    "a Python dictionary": _items_as(lambda pairs: str({pair[0]: int(pair[2:]) for pair in pairs})),
    "an indented object in a fence": _items_as(
        lambda pairs: "```json\n" + json.dumps({pair[0]: int(pair[2:]) for pair in pairs}, indent=2) + "\n```"
    ),
    "a box with LaTeX blanks": _items_as(lambda pairs: "\\boxed{" + ",\\ ".join(pairs) + "}"),
    "blanks alone": _items_as(" ".join),
    "each in dollars": _items_as(lambda pairs: ", ".join(f"${pair.replace('=', ' = ')}$" for pair in pairs)),
}

TIMES: Mapping[str, Form] = {
    "capitals": _replaced(("days", "Days")),
    "no comma": _replaced((", ", " ")),
    "and": _replaced((", ", " and ")),
    "comma without a blank": _replaced((", ", ",")),
    "one day": _replaced((r"^1 days", "1 day")),
    "hours without a nought": _replaced((r"(?<![:\d])0(?=\d:)", "")),
    "bold days": _replaced((r"(\d+ days)", r"**\1**")),
}

DIRECTIONS: Mapping[str, Form] = {
    "commas": _items_as(", ".join, " "),
    "commas without blanks": _items_as(",".join, " "),
    "JSON": _items_as(json.dumps, " "),
    "a Python list": _items_as(str, " "),
    "brackets": _items_as(lambda steps: f"[{', '.join(steps)}]", " "),
    "arrows": _items_as(" \N{RIGHTWARDS ARROW} ".join, " "),
    "arrows of two signs": _items_as(" -> ".join, " "),
    "one a line": _items_as("\n".join, " "),
    "semicolons": _items_as("; ".join, " "),
    "a box with LaTeX blanks": _items_as(lambda steps: "\\boxed{" + "\\ ".join(steps) + "}", " "),
    "text in a box with LaTeX blanks": _items_as(lambda steps: "\\boxed{\\text{" + "\\ ".join(steps) + "}}", " "),
}
TOKENS: Mapping[str, Form] = {
    "commas": _items_as(", ".join, " "),
    "JSON": _items_as(json.dumps, " "),
    "a Python list": _items_as(str, " "),
    "each in backticks": _items_as(lambda tokens: " ".join(f"`{token}`" for token in tokens), " "),
    "each in backticks with commas": _items_as(lambda tokens: ", ".join(f"`{token}`" for token in tokens), " "),
    "one a line": _items_as("\n".join, " "),
    "double blanks": _items_as("  ".join, " "),
    "escaped in a box": lambda answer, question: "\\boxed{" + answer.replace("#", "\\#").replace(" ", "\\ ") + "}",
    "escaped text in a box": lambda answer, question: "\\boxed{\\text{" + answer.replace("#", "\\#") + "}}",
    "typewriter's text in a box": lambda answer, question: "\\boxed{\\texttt{" + answer.replace("#", "\\#") + "}}",
}
NODES: Mapping[str, Form] = {
    "commas": _items_as(", ".join, " "),
    "JSON": _items_as(json.dumps, " "),
    "a Python list of numbers": _items_as(lambda nodes: f"[{', '.join(nodes)}]", " "),
    "arrows": _items_as(" \N{RIGHTWARDS ARROW} ".join, " "),
    "arrows of two signs": _items_as(" -> ".join, " "),
    "arrows in LaTeX": _items_as(lambda nodes: "$" + " \\rightarrow ".join(nodes) + "$", " "),
    "one a line": _items_as("\n".join, " "),
    "a box with LaTeX blanks": _items_as(lambda nodes: "\\boxed{" + "\\ ".join(nodes) + "}", " "),
}
BUTTON_FORMS: Mapping[str, Callable[[list[str]], str]] = {
    "arrows of two signs": " -> ".join,
    "arrows without blanks": "\N{RIGHTWARDS ARROW}".join,
    "commas": ", ".join,
    "blanks": " ".join,
    "JSON": json.dumps,
    "a Python list": str,
    "arrows in LaTeX": " \\rightarrow ".join,
    "arrows in LaTeX in dollars": lambda buttons: "$" + " \\rightarrow ".join(buttons) + "$",
    "arrows in LaTeX in a box": lambda buttons: "\\boxed{" + " \\rightarrow ".join(buttons) + "}",
    "short arrows in LaTeX in a box": lambda buttons: "\\boxed{" + " \\to ".join(buttons) + "}",
    "texts and arrows in a box": lambda buttons: (
        "\\boxed{" + " \\rightarrow ".join(f"\\text{{{button}}}" for button in buttons) + "}"
    ),
    "text with arrows in a box": lambda buttons: "$\\boxed{\\text{" + " \N{RIGHTWARDS ARROW} ".join(buttons) + "}}$",
}
BUTTONS: Mapping[str, Form] = {name: _items_as(write, " \N{RIGHTWARDS ARROW} ") for name, write in BUTTON_FORMS.items()}
TURNS: Mapping[str, Form] = {
    "commas": _items_as(", ".join, " "),
    "JSON": _items_as(json.dumps, " "),
    "a Python list": _items_as(str, " "),
    "one a line": _items_as("\n".join, " "),
    "curly apostrophes": _replaced(("'", "\u2019")),
    "primes": _replaced(("'", "\u2032")),
    "primes in LaTeX": lambda answer, question: "$" + answer.replace("'", "^\\prime").replace(" ", "\\ ") + "$",
    "primes in LaTeX braces": lambda answer, question: (
        "$" + answer.replace("'", "^{\\prime}").replace(" ", "\\, ") + "$"
    ),
    "primes and commas": lambda answer, question: answer.replace("'", "\u2032").replace(" ", ", "),
    "a box with LaTeX blanks": _items_as(lambda turns: "\\boxed{" + "\\ ".join(turns) + "}", " "),
}
PUSHES: Mapping[str, Form] = {
    "blanks": lambda answer, question: " ".join(answer),
    "commas": lambda answer, question: ", ".join(answer),
}
CAR_MOVES: Mapping[str, Form] = {
    "commas": _items_as(", ".join, " "),
    "JSON": _items_as(json.dumps, " "),
    "a Python list": _items_as(str, " "),
    "one a line": _items_as("\n".join, " "),
    "semicolons": _items_as("; ".join, " "),
}
DISKS: Mapping[str, Form] = {
    "full stops": _items_as(lambda moves: "\n".join(f"{move}." for move in moves), "\n"),
    "blank lines": _items_as("\n\n".join, "\n"),
    "JSON": _items_as(json.dumps, "\n"),
    "indented JSON in a fence": _items_as(lambda moves: f"```json\n{json.dumps(moves, indent=2)}\n```", "\n"),
    "commas at the ends of lines": _items_as(",\n".join, "\n"),
}
CLAIMS: Mapping[str, Form] = {
    "no full stop": _replaced((r"\.$", "")),
    "bold names": _replaced((r"(\w+) is", r"**\1** is")),
    "bold roles": _replaced((r"is (an?) (\w+)", r"is \1 **\2**")),
    "bold roles with articles": _replaced((r"is (an? \w+)", r"is **\1**")),
    "bold names and roles": _replaced((r"(\w+) is (an?) (\w+)", r"**\1** is \2 **\3**")),
    "bold claims": _replaced((r"(\w+ is an? \w+)", r"**\1**")),
    "commas": _replaced((r",? and ", ", ")),
    "and alone": _replaced((r", and ", " and ")),
    "semicolons": _replaced((r",? and ", "; "), (r", ", "; ")),
    "semicolons with and": _replaced((r",? and ", "; and "), (r", ", "; ")),
    "lines": _replaced((r",? and ", "\n"), (r", ", "\n")),
    "sentences": _replaced((r",? and ", ". "), (r", ", ". ")),
    "names with roles": _replaced((r" is an? ", ": "), (r",? and ", ", "), (r"\.$", "")),
    "names with roles on lines": _replaced((r" is an? ", ": "), (r",? and |, ", "\n"), (r"\.$", "")),
    "a dictionary": lambda answer, question: json.dumps(dict(re.split(" is an? ", claim) for claim in _claims(answer))),
    "the definite article": _replaced((r" is an? ", " is the ")),
    "lower case": lambda answer, question: answer.lower(),
    "quotes": lambda answer, question: '"' + answer.rstrip(".") + '"',
}


def _claims(answer: str) -> list[str]:
    return re.split(r",? and |, ", answer.rstrip("."))


FORMULAS: Mapping[str, Form] = {
    "LaTeX": lambda answer, question: _latex_formula(answer),
    "LaTeX in dollars": lambda answer, question: f"${_latex_formula(answer)}$",
    "LaTeX in a box": lambda answer, question: f"\\boxed{{{_latex_formula(answer)}}}",
    "LaTeX wedges": lambda answer, question: _latex_formula(answer).replace("land", "wedge").replace("lor", "vee"),
    "LaTeX double arrows": lambda answer, question: (
        _latex_formula(answer).replace("rightarrow", "Rightarrow").replace("leftR", "LeftR").replace("LeftR", "Leftr")
    ),
    "parentheses": lambda answer, question: f"({answer})",
    "no blanks": _replaced((" ", "")),
}


def _latex_formula(answer: str) -> str:
    for sign, command in (
        ("\N{NOT SIGN}", "\\neg "),
        ("\N{LOGICAL AND}", "\\land"),
        ("\N{LOGICAL OR}", "\\lor"),
        ("\N{LEFT RIGHT ARROW}", "\\leftrightarrow"),
        ("\N{RIGHTWARDS ARROW}", "\\rightarrow"),
    ):
        answer = answer.replace(sign, command)
    return answer


COMPLEX: Mapping[str, Form] = {
    "no blanks": _replaced((" ", "")),
    "the imaginary part first": _replaced((r"^(\S+) ([-+]) (\S+)$", r"\2\3 + \1"), (r"\+ -", "- ")),
    "no decimals": _replaced((r"\.0+(?!\d)", "")),
    "j": _replaced(("i", "j")),
    "a star before i": _replaced(("i", "*i")),
    "a blank before i": _replaced(("i", " i")),
    "long minus": _replaced(("-", "\N{MINUS SIGN}")),
    "parentheses": lambda answer, question: f"({answer})",
}


def _solutions_as(write: Callable[[list[str]], str]) -> Form:
    return lambda answer, question: write(answer.split(", ")) if answer else None


def _variable(question: str) -> str:
    found = re.search(r"value\(s\) of (\w)|for (\w)\b|variable (\w)", question)
    return next(filter(None, found.groups()), "x") if found else "x"


SOLUTIONS: Mapping[str, Form] = {
    "no blanks": _solutions_as(",".join),
    "brackets": _solutions_as(lambda values: f"[{', '.join(values)}]"),
    "JSON of texts": _solutions_as(json.dumps),
    "braces": _solutions_as(lambda values: "\\{" + ", ".join(values) + "\\}"),
    "semicolons": _solutions_as("; ".join),
    "one a line": _solutions_as("\n".join),
    "and": _solutions_as(" and ".join),
    "the variable before all": lambda answer, question: f"{_variable(question)} = {answer}",
    "the variable before each": lambda answer, question: ", ".join(
        f"{_variable(question)} = {value}" for value in answer.split(", ")
    ),
    "the variable before each with or": lambda answer, question: " or ".join(
        f"{_variable(question)} = {value}" for value in answer.split(", ")
    ),
    "the variable with numbers before each": lambda answer, question: ", ".join(
        f"{_variable(question)}_{n} = {value}" for n, value in enumerate(answer.split(", "), 1)
    ),
    "the variable about each": lambda answer, question: ", ".join(
        f"{_variable(question)} \\approx {value}" for value in answer.split(", ")
    ),
    "the variable before each with or in LaTeX": lambda answer, question: (
        "$"
        + " \\quad \\text{or} \\quad ".join(f"{_variable(question)} = {value}" for value in answer.split(", "))
        + "$"
    ),
    "a set in LaTeX": _solutions_as(lambda values: "$x \\in \\{" + ", ".join(values) + "\\}$"),
    "long minus": _replaced(("-", "\N{MINUS SIGN}")),
    "four decimals": _solutions_as(lambda values: ", ".join(f"{float(value):.4f}" for value in values)),
    "a box in dollars with blanks": _solutions_as(lambda values: "$\\boxed{" + ",\\ ".join(values) + "}$"),
}
POINTS: Mapping[str, Form] = {
    **NUMBERS,
    "no blank": lambda answer, question: answer.replace(" ", "") if answer.startswith("(") else None,
    "large parentheses": lambda answer, question: (
        "\\left" + answer[:-1] + "\\right)" if answer.startswith("(") else None
    ),
    "large parentheses in dollars": lambda answer, question: (
        "$\\left" + answer[:-1] + "\\right)$" if answer.startswith("(") else None
    ),
    "brackets": lambda answer, question: f"[{answer[1:-1]}]" if answer.startswith("(") else None,
    "a name before it": lambda answer, question: f"H = {answer}" if answer.startswith("(") else None,
}

KINDS: Mapping[str, tuple[Mapping[str, Form], str]] = {
    "number": (
        NUMBERS,
        "aiw basic_arithmetic binary_alternation calendar_arithmetic chain_sum circuit_logic count_bits count_primes "
        "decimal_arithmetic decimal_chain_sum gcd gsm_symbolic largest_island lcm leg_counting letter_counting maze "
        "number_format number_sequence power_function products rectangle_count rotten_oranges self_reference "
        "simple_equations simple_geometry",
    ),
    "base": (BASES, "base_conversion"),
    "hexadecimal": (HEXADECIMAL, "bitwise_arithmetic"),
    "probability": ({**NUMBERS, **PROBABILITIES}, "coin_flip"),
    "point": (POINTS, "advanced_geometry"),
    "complex": (COMPLEX, "complex_arithmetic"),
    "solutions": (SOLUTIONS, "polynomial_equations"),
    "fraction": (FRACTIONS, "dice fraction_simplification"),
    "option": (
        OPTIONS,
        "acre color_cube_rotation course_schedule family_relationships game_of_life_halting isomorphic_strings "
        "mahjong_puzzle needle_haystack ransom_note syllogism zebra_puzzles",
    ),
    "list": (
        LISTS,
        "boxnet game_of_life group_anagrams jugs knight_swap list_functions number_filtering number_sorting "
        "palindrome_partitioning",
    ),
    "object": (OBJECTS, "codeio"),
    "vertices": (VERTICES, "graph_color"),
    "board": (
        BOARDS,
        "arc_1d arc_agi binary_matrix futoshiki kakurasu manipulate_matrix mini_sudoku modulo_grid n_queens "
        "pool_matrix rearc rotate_matrix spiral_matrix string_splitting string_synthesis sudoku survo",
    ),
    "expression": (EXPRESSIONS, "countdown puzzle24 polynomial_multiplication"),
    "integral": (INTEGRALS, "intermediate_integration simple_integration"),
    "factors": (FACTORS, "prime_factorization"),
    "words": (WORDS, "word_sequence_reversal word_sorting"),
    "ladder": (LADDERS, "word_ladder"),
    "letter values": (LETTER_VALUES, "cryptarithm"),
    "time": (TIMES, "time_intervals"),
    "directions": (DIRECTIONS, "shortest_path"),
    "tokens": (TOKENS, "ab"),
    "nodes": (NODES, "path_star"),
    "buttons": (BUTTONS, "quantum_lock"),
    "turns": (TURNS, "rubiks_cube"),
    "pushes": (PUSHES, "sokoban"),
    "car moves": (CAR_MOVES, "rush_hour"),
    "disks": (DISKS, "tower_of_hanoi"),
    "claims": (CLAIMS, "knights_knaves"),
    "formula": (FORMULAS, "propositional_logic"),
    "text": (
        {},
        "bf caesar_cipher emoji_mystery figlet_font letter_jumble palindrome_generation sentence_reordering "
        "spell_backward string_insertion string_manipulation tsumego",
    ),
}
TEXTS = frozenset(
    {"text", "words", "ladder", "letter values", "directions", "tokens", "buttons", "turns", "pushes", "claims"}
    | {"car moves", "solutions", "option"}
)
"""Kinds of answers for which quotes are a core notation."""


def kind_of(task: str) -> str:
    return next(kind for kind, (_, tasks) in KINDS.items() if task in tasks.split())


def core_forms(task: str) -> dict[str, Form]:
    """Return the core notations of the task's answers, as functions by name."""
    kind = kind_of(task)
    core = {**WRAPPED, **KINDS[kind][0]}
    if kind in TEXTS:
        core.update(QUOTED)
    return core


def honest_forms(task: str, answer: str, question: str) -> dict[str, HonestAnswer]:
    """Return a right answer in all notations that apply, by name."""
    forms = {name: (form, FormClass.CORE) for name, form in core_forms(task).items()}
    for name, form in {**DECORATED, **QUOTED}.items():
        forms.setdefault(name, (form, FormClass.DECORATION))
    said = {name: (form(answer, question), form_class) for name, (form, form_class) in forms.items()}
    return {name: HonestAnswer(text, form_class) for name, (text, form_class) in said.items() if text is not None}
