"""Read an answer as the verifier expects: without decoration, and in the form of the expected answer.

A reading has the content of the answer. Nothing is searched for: only decoration of the whole answer is taken off, and
text beside the answer still counts against the answer. An answer gets the form of the expected answer only if both have
the same content; a notation that the verifier reads on its own (such as `7/32`) may have any content.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import gcd

from ..library_facts import AnswerForm, facts
from .decoration import are_nested, undecorated
from .entries import Entry
from .literals import LiteralError, parse_literal

SIGNS: Mapping[str, str] = {
    **dict.fromkeys(("\\times", "\\cdot", "\N{MULTIPLICATION SIGN}", "\N{MIDDLE DOT}", "\N{DOT OPERATOR}"), "*"),
    **dict.fromkeys(("\\div", "\N{DIVISION SIGN}"), "/"),
    **dict.fromkeys(("\\left", "\\right"), ""),
    "\N{EN DASH}": "-",
    "[": "(",
    "]": ")",
}
"""Signs of mathematics and their counterparts in Python's expressions: `[3 \\div 2]` becomes `(3 / 2)`."""

NUMBER = re.compile(r"[-+]?(?:\d{1,200}(?:\.\d{0,200})?|\.\d{1,200})(?:[eE][-+]?\d{1,2})?", re.ASCII)
"""A decimal number: `16`, `-1.50`, `.5`, `1.6e1`."""
THOUSANDS = r"(?P<comma>,|\{(?:,|\\,| )\}|\\,|[_'~ ]|[\u00a0\u2009\u202f])"
"""The separator in `1,234`, `1_234`, `1'234`, `1{,}234`, `1\\,234`, `1~234`, and with a blank.

There is none in `1,2345` or `0,123`.
"""
RAISED = "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"
"""The superscripts of `-0123456789`."""
NAMED_NUMBER = re.compile(
    r"(?:\\?[$\u20ac\u00a3])?(?P<sign>[-+]?)\s?"
    rf"(?P<digits>[1-9]\d{{0,2}}{THOUSANDS}\d{{3}}(?:(?P=comma)\d{{3}}){{0,60}}(?:\.\d{{0,200}})?"
    r"|\d{1,200}(?:\.\d{0,200})?|\.\d{1,200})(?:[eE](?P<exponent>[-+]?\d{1,2}))?"
    r"(?:\s?(?:\\times|\\cdot|[*x\u00d7\u00b7\u22c5])\s?10(?:(?:\^|\*\*)(?P<brace>\{)?(?P<bracket>\()?(?P<power>-?\d{1,2})"
    r"(?(bracket)\))(?(brace)\})"
    rf"|(?P<raised>[{RAISED}]{{1,3}})))?"
    r"(?:[^\S\n]{0,2}(?P<unit>[%\u00b0]|[A-Za-z]+(?: [A-Za-z]+){0,2}))?",
    re.ASCII,
)
"""A number with its currency, power of ten or unit: `$16`, `1.6 \\times 10^{1}`, `16 legs`, `16\u00b0`, `16%`."""
COUNT = r"\s?(?P<{name}>-?\d{{1,60}}|-?[1-9]\d{{0,2}}(?:,\d{{3}}){{1,20}}|-?[1-9]\d{{0,2}}(?: \d{{3}}){{1,20}})\s?"
COUNT_PATTERN = re.compile(COUNT.format(name="count"), re.ASCII)
FRACTIONS = tuple(
    re.compile(pattern.replace("UP", COUNT.format(name="up")).replace("DOWN", COUNT.format(name="down")), re.ASCII)
    for pattern in (
        r"\\[cdt]?frac\s?\{UP\}\s?\{DOWN\}",
        r"\\[cdt]?frac\s?(?P<up>\d)\s?(?P<down>\d)",
        r"\\[cdt]?frac\s(?P<up>\d{1,60})\s(?P<down>\d{1,60})",
        r"\(UP\)\s?/\s?\(DOWN\)",
        "(?P<brace>\\{)?UP(?:[/\u00f7\u2044\u2215]|\\\\div|\\\\over)DOWN(?(brace)\\})",
    )
)
r"""A fraction of whole numbers: `\frac{3}{4}`, `\frac34`, `(3)/(4)`, `3 / 4`, `3 \u00f7 4`."""
LATEX_FRACTION = re.compile(r"\\[cdt]?frac\{([^{}]*)\}\{([^{}]*)\}")
r"""A fraction of expressions: `\frac{8}{3 - 1}` becomes `((8)/(3 - 1))`."""
ARITHMETIC = re.compile(r"(?:[-\d\s+*/().\[\]\u00d7\u00f7\u22c5\u00b7]|(?<=[\d)\] ])x(?=[\d(\[ ]))+")
"""An expression of numbers, in which an x is a sign of multiplication: `4 x (3 - 1)`."""
EQUATION = re.compile(r"(?P<left>[-\d.+*/^() \u00d7\u00f7\u22c5]{3,1000})=(?P<right>[^=]+)")
"""An expression of numbers and its value: `3 * 4 = 12`."""
MAX_SIDES = 4
"""Sides of an equation such as `1/4 = 0.25 = 25%`."""
QUESTION_NAME = re.compile(r"\\?(?P<name>[A-Za-z]{2,10})\s?(?:\((?P<of>[-\d,. ]{1,1000})\))?\s?[=:](?P<value>[^=:]+)")
r"""A name for the value that is asked for: `GCD = 4`, `GCD: 4`, `\gcd(8, 12) = 4`."""
ANGLE_NAME = re.compile(r"(?:\u2220|\\angle)\s?(?P<name>[A-Z]{3})\s?=\s?")
r"""The name of an angle: `\u2220ABC = `, `\angle ABC = `."""
VARIABLE_NAME = re.compile(r"(?P<name>[A-Za-z]):\s?")
"""The name of a variable that the question asks for: `x: `."""
ROUNDED = re.compile(r"\s?(?:\u2248|\\approx(?![a-z]))\s?")
"""The sign before a rounded number."""
NAME_OF_VALUE = re.compile(r"\A(?:[A-Za-z]\w{0,10}\s?)?=\s?")
"""What stands before a single value: `r = ` and `= `."""
DIGITS_IN_BASE = re.compile(
    r"(?P<bracket>\()?(?P<sign>-?)(?:0[xbo])?(?P<digits>[0-9a-zA-Z]{1,400})(?(bracket)\))"
    r"(?:_(?P<brace>\{)?(?P<base>\d{1,2})(?(brace)\})|(?P<lowered>[\u2080-\u2089]{1,2})"
    r"|\s?(?P<round>\()?(?:in )?base[- ]?(?P<named>\d{1,2})(?(round)\)))"
)
"""Digits with their base: `651_7`, `(651)_{7}`, `651\u2087`, `651 (base 7)`."""
GROUPED_DIGITS = re.compile(
    r"-?(?:[0-9a-zA-Z]{1,3}(?P<three>[ ,_'~]|\{,\})[0-9a-zA-Z]{3}(?:(?P=three)[0-9a-zA-Z]{3}){0,100}"
    r"|[0-9a-zA-Z]{1,4}(?P<four>[ ,_'~]|\{,\})[0-9a-zA-Z]{4}(?:(?P=four)[0-9a-zA-Z]{4}){0,100})",
    re.ASCII,
)
"""Digits in groups of three or four: `1,275`, `1{,}275`, `1010 0110`."""
SIGNED_DIGITS = re.compile(r"\+(?P<digits>\d[0-9a-zA-Z]{0,400})", re.ASCII)
"""Digits with a plus sign: `+1275`."""
LOWERED = str.maketrans("\u2080\u2081\u2082\u2083\u2084\u2085\u2086\u2087\u2088\u2089", "0123456789")
BASES: Mapping[str, str] = {"binary": "2", "hexadecimal": "16"}
PREFIXES: Mapping[str, str] = {"0b": "2", "0o": "8", "0x": "16"}
COMPLEX_CALL = re.compile(r"complex\((?P<real>-?[\d.]{1,50}),\s?(?P<sign>-?)(?P<part>[\d.]{1,50})\)", re.ASCII)
"""A complex number of Python: `complex(4, -7)`."""
TURNED_COMPLEX = re.compile(
    r"(?P<imaginary>[-+]?\s?[\d.]{1,50}\s?[*\u22c5\u00b7]?\s?[ijIJ])\s?(?P<real>[-+]\s?[\d.]{1,50})", re.ASCII
)
"""A complex number with its imaginary part first: `-7i + 4`."""
COMMA_OF_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
PLUS_MINUS = re.compile(r"\+\s?-(?=\s?\d)")
"""The signs of `1 + -2i`, which is `1 -2i`."""
IMAGINARY = re.compile(r"\s?[*\u22c5\u00b7]\s?(?=[ijIJ]\b)")
"""The sign before an imaginary unit: that in `2*i`."""
TIMES = re.compile(r"\s?(?:\\times|\\cdot|[*x\u00d7\u00b7\u22c5])\s?")
r"""The sign between factors: `2 x 3`, `2*3` and `2 \times 3` have the factors `2` and `3`."""
DAYS_BEFORE_CLOCK = re.compile(r"\bdays?(?:,? and|,)?\s{0,2}(?=\d)")
"""Days before a clock: `3 days 04:05` and `3 days and 04:05` become `3 days, 04:05`."""
ARROW = re.compile(r"-{1,2}>|={1,2}>|[\u2192\u27f6\u21d2]|[,;\n]")
"""The sign between the elements of a sequence."""
SOLUTION_NAME = re.compile(r"[A-Za-z](?:_\{?\d{1,2}\}?|\d{1,2}|[\u2080-\u2089]{1,2})?\s?[=\u2248\u2208]\s?")
"""The name before a solution: `x = `, `x_1 = `; solutions are rounded, so also `x \u2248 `."""
BETWEEN_SOLUTIONS = re.compile(r"[,;\n]\s*(?:(?:and|or)\b)?|\b(?:and|or)\b")
"""What stands between two solutions: `1, 2`, `1 or 2`, `1, or 2`."""
POINT = re.compile(
    r"(?:[A-Za-z]\s?=?\s?)?(?:(?P<round>\()|(?P<square>\[))?\s?(?:x\s?=\s?)?(?P<x>[^\s,()\[\]]{1,100})\s?,\s?(?:y\s?=\s?)?(?P<y>[^\s,()\[\]]{1,100})\s?"
    r"(?(round)\))(?(square)\])"
)
"""A point with its name: `H = (1.5, -2)`, `[1.5, -2]`, `x = 1.5, y = -2`."""
LETTER_VALUE = re.compile(r"([A-Z])\s?(?:=|:|->|\u2192)\s?(\d)")
"""A letter and its digit: `A = 1`, `A: 1`."""

QUOTED_SIGN = re.compile(r"(['\"])([A-Z\d])\1")
"""A letter or digit in quotes: those in `'A': '1'`."""

CELL = r"-?\d+(?:\.\d+)?|[Q_\u2705\u274c]"
"""A cell of a board: the three in `12 _ 0.5`."""
SHORT_CELL = r"-?\d|[Q_\u2705\u274c]"
"""A cell of a board whose cells have one character: the three in `12_`."""
BOARD_SIGNS = re.compile(r"[\s<>\u2227\u2228]*")
"""Text between the cells of an expected board: ` < ` in `1 < 2`."""
LAYOUT = r"\s,;|&\[\](){}'\"\u2500-\u257f"
EDGE = re.compile(f"[{LAYOUT}]*")
"""Text before or after the cells of a line in another layout: `[[` and `],`. `-` in `-[1, 2]` is none."""
BEFORE = re.compile(r"[\s|\[\](){}'\"\u2500-\u257f]*")
"""Text before the cells of a line in another layout: `| ` or `[`, but no comma."""
AFTER = re.compile(rf"(?![^&]*&)[{LAYOUT}]*")
"""Text after the cells of a line in another layout: ` |`, `],`."""
BETWEEN = re.compile(rf"(?:[\0{LAYOUT}\u2192]|->)*")
"""Text between the cells of a line in another layout: `, `, ` | `, ` & ` and ` -> `."""
BETWEEN_COMPARED = re.compile(rf"[\0{LAYOUT}<>]*")
"""Text between the cells of a board with signs between them: ` < `."""
UPRIGHT_SIGNS: Mapping[str, str] = {"^": "\u2227", "v": "\u2228"}
"""Letters for the signs between rows."""
BETWEEN_ROWS = re.compile(rf"[{LAYOUT}\u2227\u2228^v]*")
"""A line of signs between the rows of such a board."""
RULE = re.compile(r"(?=[^\n]*(?:[-=]{2}|[\u2500-\u257f]))[\s|+:=\u2500-\u257f-]*")
"""A line of signs without cells: `+---+---+`, `|:---:|`."""
TWO_PRIMES = re.compile(r"""[^\s,\[(](?:''|"")""")
"""Two quotes after text, which quote nothing: those in `[1, 2]''`."""
MATRIX_LIMIT = re.compile(
    r"\\(?:begin|end)\{(?!vmatrix)[a-zB]{1,11}\*?\}(?:\{[clr| ]{1,2000}\})?|\\(?:left|right|hline)(?![a-z])"
)
r"""The beginning or end of a matrix in LaTeX: `\begin{bmatrix}`, `\left[\begin{array}{cc}`.

A vmatrix is a determinant, and no board.
"""
BEGUN = re.compile(r"\\begin\{([a-zB]{1,11})")
ENDED = re.compile(r"\\end\{([a-zB]{1,11})")
ROW_END = re.compile(r"\\\\(?:\[\d{1,3}[a-z]{2}\])?")
NORM = re.compile(r"\s*\|{1,2}[^|\n]*\|{1,2}\s*")
"""A single row between bars, as in `|3 4|`, which is a norm; a row of a table has bars between its cells too."""


def readings(answer: str, task: str, entry: Entry) -> Iterator[str]:
    """Yield the readings of an answer: with one decoration less each time, and each also in the expected form.

    Readings may come twice. All take linear time together.
    """
    strip_full_stop = not _ends_in_full_stop(task, entry)
    for said in undecorated(answer, strip_full_stop=strip_full_stop):
        yield said
        yield from expected_forms(said, task, entry)


def _ends_in_full_stop(task: str, entry: Entry) -> bool:
    """Tell whether right answers to an entry may end in a full stop of their own."""
    return facts(task).ends_in_full_stop or str(entry.get("answer")).endswith(".")


def expected_forms(said: str, task: str, entry: Entry) -> Iterator[str]:
    """Yield an answer in the form of the expected answer; nothing for an answer of another kind.

    A number of the same value, a list with the same elements, and a fraction or an option in another spelling become
    the expected answer. The cells of a board and the elements of a sequence, right or wrong, are put into the expected
    layout. A list or dictionary in Python's notation becomes JSON.
    """
    row = facts(task)
    forms: tuple[str | None, ...]
    if has_negative_nought(said, task) and not has_negative_nought(str(entry.get("answer")), task):
        return
    question = str(entry["question"]) if row.words_are_units else ""
    match row.reads_as:
        case AnswerForm.EXACT:
            forms = ()
        case AnswerForm.EXPRESSION:
            forms = (_expression(said),)
        case AnswerForm.FACTORS:
            forms = (_factors(said),)
        case AnswerForm.DURATION:
            forms = (DAYS_BEFORE_CLOCK.sub("days, ", said.casefold()),)
        case AnswerForm.CLAIMS:
            forms = (_claims(said),)
        case AnswerForm.LETTER_VALUES:
            forms = (_letter_values(said),)
        case AnswerForm.SOLUTIONS:
            forms = (_solutions(said),)
        case AnswerForm.DIGITS:
            forms = (_digits(said, str(entry["answer"]), question),)
        case AnswerForm.COMPLEX:
            forms = (_complex(said),)
        case _:
            forms = _values(said, task, entry, question)
    for form in forms:
        if form is not None:
            yield form


def _values(said: str, task: str, entry: Entry, question: str) -> tuple[str | None, ...]:
    reads_as, separator = facts(task).reads_as, facts(task).word_separator
    right = str(entry.get("answer"))
    if facts(task).may_be_rounded and ROUNDED.search(said):
        said = NAME_OF_VALUE.sub("", ROUNDED.sub("=", said))
    if reads_as is AnswerForm.OPTION and said.casefold() == right.casefold():
        return (right,)
    if separator:
        sequence = _sequence(said, separator)
        if sequence is None:
            return ()
        return (sequence, sequence.casefold() if reads_as is AnswerForm.OPTION else _in_case_of(right, sequence))
    if entry.get("answer") is None:
        return (_json(said),)
    if NUMBER.fullmatch(right.removesuffix("\N{DEGREE SIGN}")):
        return (_number(said, right, question), _single_cell(said) if facts(task).single_cell else None)
    if _fraction(right) is not None:
        return (right if _fraction(_reduced(said, question)) == _fraction(right) else None,)
    if right[:1] == "(":
        return (_point(said),)
    if right[:1] == "{":
        return (_json(said),)
    if right[:1] == '"':
        return (_json_string(said),)
    if right in JSON_WORDS.values():
        return (JSON_WORDS.get(said),)
    if right[:1] == "[":
        return (right if _is_same_list(said, right) else _json(said),)
    return (_board(said, right),)


def _expression(said: str) -> str:
    if not are_nested(said):
        return said
    said = LATEX_FRACTION.sub(r"((\1)/(\2))", said)
    if ARITHMETIC.fullmatch(said):
        said = said.replace("x", "*")
    for sign, python in SIGNS.items():
        said = said.replace(sign, python)
    return said


def _factors(said: str) -> str | None:
    """Return whole numbers with the expected sign between the factors; None for other factors.

    The product may stand before the factors: `12 = 2 x 2 x 3`.
    """
    product, equals, factors = said.partition("=") if "=" in said else ("", "", said)
    numbers = [
        number.replace(",", "") if COUNT_PATTERN.fullmatch(number) else number
        for number in TIMES.split(factors.strip())
    ]
    product = product.strip().replace(",", "") if COUNT_PATTERN.fullmatch(product.strip()) else product
    if not all(re.fullmatch("[0-9]{1,40}", number) for number in numbers) or len(numbers) > 200:
        return None
    if equals and (not re.fullmatch("[0-9]{1,40}", product.strip()) or int(product) != _product(numbers)):
        return None
    return " \N{MULTIPLICATION SIGN} ".join(numbers)


def _product(numbers: Sequence[str]) -> int:
    product = 1
    for number in numbers:
        product *= int(number)
    return product


# ---- numbers


def _number(said: str, right: str, question: str) -> str | None:
    """Return the expected answer for a number of the same value, else the number in a plain notation.

    The verifier may accept the plain notation of a number that is not exactly the expected one. Of `1/32 = 0.03125` the
    last side counts, if the others are right. None for other text.
    """
    said = _without_question(said, question)
    angle = ANGLE_NAME.match(said)
    if angle is not None and re.search(rf"(?:\bangle |\u2220){angle['name']}\b", question):
        said = said[angle.end() :]
    variable = VARIABLE_NAME.match(said)
    if variable is not None and re.search(rf"\b(?:for|of) {variable['name']}\b", question):
        said = said[variable.end() :]
    *equal, last = said.split("=") if said.count("=") < MAX_SIDES else (said,)
    if equal and all(_number(side.strip(), right, question) == right for side in equal):
        said = last.strip()
    degrees = "\N{DEGREE SIGN}" if right.endswith("\N{DEGREE SIGN}") else ""
    value = Fraction(right.removesuffix("\N{DEGREE SIGN}"))
    parts = _fraction(said)
    if parts is not None:
        above, below = map(int, parts)
        if below < 2 or gcd(above, below) != 1:
            return None
        return right if Fraction(above, below) == value else f"{above}/{below}"
    plain = _plain_number(said, question)
    if plain is None:
        return None
    return right if Fraction(plain) == value else plain + degrees


def _plain_number(said: str, question: str) -> str | None:
    """Return a number without separators, currency and unit; None for text that is no number."""
    match = NAMED_NUMBER.fullmatch(said)
    if match is None:
        return None
    exponent = int(match["exponent"] or 0) + int(match["power"] or 0)
    if match["raised"]:
        try:
            exponent += int("".join("-0123456789"[RAISED.index(digit)] for digit in match["raised"]))
        except ValueError:
            return None
    unit = match["unit"]
    if unit == "%" and "percent" not in question:
        exponent -= 2
        if not 0 < Fraction(f"{re.sub(r'[^0-9.]', '', match['digits'])}e{exponent}") <= 1:
            return None
    elif not _is_asked_for(unit, question):
        return None
    digits = re.sub(r"[^\d.]", "", match["digits"])
    return match["sign"] + digits + (f"e{exponent}" if exponent else "")


NEGATIVE_NOUGHT = re.compile(r"(?:(?<![\w.)\]])-|\A-\s)0+(?:\.0*)?(?:[eE][-+]?\d+)?(?![\w.])", re.ASCII)


def has_negative_nought(text: str, task: str) -> bool:
    """Tell whether a text has a nought with a minus sign, such as `-0.0` or `- 0`, which is no form of `0`.

    Expressions have none: there the sign is an operator.
    """
    return facts(task).reads_as is not AnswerForm.EXPRESSION and NEGATIVE_NOUGHT.search(text) is not None


NO_UNITS = frozenset(
    {"not", "no", "or", "and", "is", "are", "true", "false", "wrong", "if", "unless", "except", "without", "to", "than"}
    | {"max", "min", "maximum", "minimum", "largest", "smallest", "first", "last"}
    | {"more", "less", "fewer", "least", "most", "about", "around", "between", "plus", "minus", "half", "twice"}
    | {"hundred", "thousand", "million", "dozen", "binary", "decimal", "hexadecimal", "octal", "base", "squared"}
    | {"again", "maybe", "perhaps", "probably", "possibly", "nearly", "almost", "else", "instead", "other", "another"}
    | {"incorrect", "error", "never", "none", "but", "then", "too", "also", "only", "at", "in", "off"}
)
"""Words of questions that say something about a number before them, as in `1 is false` and `19 in binary`."""


def _is_asked_for(unit: str | None, question: str) -> bool:
    """Tell whether the words after a number are the question's own, in singular or plural.

    A letter is no word, and neither is a name with a capital, such as a weekday.
    """
    if unit == "\N{DEGREE SIGN}":
        return unit in question or "degree" in question
    words = {_singular(word) for word in re.findall(r"\b[a-z]{2,}", question) if word not in NO_UNITS}
    return unit == "%" or all(_singular(word) in words for word in (unit or "").casefold().split())


def _singular(word: str) -> str:
    return word.removesuffix("s") if len(word) > 3 else word


def _without_question(said: str, question: str) -> str:
    """Return the value after the question's whole expression, or after its name for the value.

    `12` of `3 * 4 = 12` where 3 * 4 is asked, and `4` of `gcd(8, 12) = 4` where the (GCD) of 8, 12 is asked.
    """
    named = QUESTION_NAME.fullmatch(said)
    if named is not None and f"({named['name'].upper()})" in question:
        is_asked = named["of"] is None or re.findall(r"\d+", named["of"]) == re.findall(r"\d+", question)
        return named["value"].strip() if is_asked else said
    match = EQUATION.fullmatch(said)
    if match is None:
        return said
    left = _squeezed(match["left"])
    asked = next((line for line in map(_squeezed, question.split("\n")) if left in line), "")
    start = asked.find(left)
    if start < 0 or not re.search(r"\D", left[1:]):
        return said
    before = asked[start - 1 : start]
    after = asked[start + len(left) : start + len(left) + 2]
    is_whole = not re.match(r"[\d.+*/()-]", before) and re.match(r"=|\?|\.(?!\d)|$", after)
    return match["right"].strip() if is_whole else said


def _squeezed(text: str) -> str:
    return re.sub("[\u00d7\u22c5]", "*", re.sub(r"\s+", "", text)).replace("\N{DIVISION SIGN}", "/")


def _fraction(text: str) -> list[str] | None:
    """Return numerator and denominator as written, without separators; None for text that is no fraction.

    Questions ask for reduced fractions, so `6/8` is not `3/4`.
    """
    if len(text) > 1 and text[0] == text[-1] == "$":
        text = text[1:-1].strip()
    match = next(filter(None, (pattern.fullmatch(text) for pattern in FRACTIONS)), None)
    return None if match is None else [re.sub("[ ,]", "", match["up"]), re.sub("[ ,]", "", match["down"])]


def _reduced(said: str, question: str) -> str:
    """Return the fraction to which the question's fraction is reduced: `3/4` of `6/8 = 3/4` where 6/8 is asked."""
    left, _, right = said.partition("=")
    asked, reduced = _fraction(left.strip()), _fraction(right.strip())
    if asked is None or reduced is None or not set(asked) <= set(re.findall(r"-?\d+", question)):
        return said
    return right.strip() if int(asked[0]) * int(reduced[1]) == int(reduced[0]) * int(asked[1]) else said


def _digits(said: str, right: str, question: str) -> str | None:
    """Return digits without their base; None for digits in another base than the question asks for.

    Hexadecimal digits keep or get the prefix `0x` where the expected answer has a prefix.
    """
    asked = question.rpartition(" to ")[2].split()
    base = BASES.get(asked[0], asked[0].removeprefix("base-")) if asked else ""
    prefix = ""
    if "0x" in right:
        base = "16"
        prefix = "0x"
    match = DIGITS_IN_BASE.fullmatch(said)
    if match is None:
        if GROUPED_DIGITS.fullmatch(said):
            return re.sub("[ ,_'~{}]", "", said)
        signed = SIGNED_DIGITS.fullmatch(said)
        if signed is not None:
            return signed["digits"]
        return said[2:] if PREFIXES.get(said[:2]) == base and not prefix else None
    lowered = (match["lowered"] or "").translate(LOWERED)
    if base != (match["base"] or match["named"] or lowered):
        return None
    return match["sign"] + prefix + match["digits"]


def _complex(said: str) -> str:
    called = COMPLEX_CALL.fullmatch(said)
    if called is not None:
        return f"{called['real']}{called['sign'] or '+'}{called['part']}i"
    turned = TURNED_COMPLEX.fullmatch(said)
    if turned is not None:
        sign = "" if turned["imaginary"][0] in "+-" else "+"
        said = f"{turned['real'].replace(' ', '')}{sign}{turned['imaginary']}"
    return PLUS_MINUS.sub("-", IMAGINARY.sub("", COMMA_OF_THOUSANDS.sub("", said)))


# ---- lists and sequences


def _json(said: str) -> str | None:
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


def _json_string(said: str) -> str | None:
    """Return a string of Python in single quotes in JSON; None for other text."""
    try:
        text = parse_literal(said) if said[:1] == "'" else None
    except LiteralError:
        return None
    return json.dumps(text) if isinstance(text, str) else None


def _is_same_list(said: str, right: str) -> bool:
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


def _sequence(said: str, separator: str) -> str | None:
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


def _in_case_of(right: str, said: str) -> str:
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


def _pairs_of_table(said: str) -> str | None:
    """Return the rows of a table of two columns, without its head, as `a: b` on lines; None for other text."""
    head, rule, *lines = said.split("\n") if said.count("\n") > 1 else ("", "")
    if not TABLE_ROW.fullmatch(head) or not RULE.fullmatch(rule):
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


def _claims(said: str) -> str | None:
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


def _letter_values(said: str) -> str | None:
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


def _solutions(said: str) -> str | None:
    """Return the numbers of `x = 1 or x = 2`, `[1, 2]`, `{1, 2}` or lines with commas between; None for other text."""
    said = said.strip()
    said = re.sub(rf"^{SOLUTION_NAME.pattern}", "", said)
    if (said[:1], said[-1:]) in (("[", "]"), ("{", "}"), ("(", ")")):
        said = said[1:-1]
    parts = BETWEEN_SOLUTIONS.split(said.rstrip(",; \n"))
    values = [_unquoted(SOLUTION_NAME.sub("", part.strip(), count=1)) for part in parts]
    values = [re.sub(r"^-\s(?=[\d.])", "-", value) for value in values]
    return ", ".join(values) if all(NUMBER.fullmatch(value) for value in values) else None


def _point(said: str) -> str | None:
    """Return two numbers as `(x, y)`; None for other text."""
    match = POINT.fullmatch(said)
    if match is None or not all(NUMBER.fullmatch(match[number]) for number in ("x", "y")):
        return None
    return f"({match['x']}, {match['y']})"


# ---- boards


def _single_cell(said: str) -> str | None:
    """Return the cell of a matrix with one cell, such as `[[5]]`; None for other text."""
    rows = _rows(said, _Layout([1], CELL, BETWEEN))
    return rows[0][0] if rows is not None and [len(row) for row in rows] == [1] else None


def _board(said: str, right: str) -> str | None:
    """Return the cells of a board in the expected layout; None for rows of other lengths than expected."""
    expected = _layout(right)
    if expected is None:
        return None
    if not _has_signs_of(said, right):
        return None
    for text in dict.fromkeys((said, said.replace(";", "\n"))):
        rows = _rows(text, expected)
        if rows is not None and [len(row) for row in rows] == expected.lengths:
            break
    else:
        return None
    in_order = iter([cell for row in rows for cell in row])
    return re.sub(CELL, lambda match: next(in_order), right)


def _has_signs_of(said: str, right: str) -> bool:
    """Tell whether the signs between cells are those of the expected board: `1 > 2` is not `1 < 2`.

    A board may leave out its signs between columns, its signs between rows, or both.
    """
    return all(signs in ([], expected) for signs, expected in zip(_signs(said), _signs(right), strict=True))


def _signs(board: str) -> tuple[list[str], list[tuple[int, str]]]:
    """Return the signs between the columns of a board, and those between its rows, with the number of rows above."""
    between_rows = []
    rows = 0
    for line in board.split("\n"):
        if re.search(r"\d", line):
            rows += 1
        else:
            between_rows += [(rows, UPRIGHT_SIGNS.get(sign, sign)) for sign in re.findall("[\u2227\u2228^v]", line)]
    return re.findall("[<>]", board), between_rows


@dataclass(frozen=True)
class _Layout:
    """The form of an expected board: the number of cells in each row, and the patterns of a cell and between cells."""

    lengths: list[int]
    cell: str
    between: re.Pattern[str]


@lru_cache(maxsize=1)
def _layout(right: str) -> _Layout | None:
    """Return the layout of an expected board; None for an answer that is no board.

    The cache holds one board, because the answers of a group are scored one after the other.
    """
    cells = [re.findall(CELL, line) for line in right.split("\n")]
    rows = [row for row in cells if row]
    if sum(len(row) for row in rows) < 2 or not BOARD_SIGNS.fullmatch(re.sub(CELL, "", right)):
        return None
    is_short = all(len(cell) == 1 for row in rows for cell in row)
    between = BETWEEN_COMPARED if re.search("[<>\u2227\u2228]", right) else BETWEEN
    return _Layout([len(row) for row in rows], SHORT_CELL if is_short else CELL, between)


def _rows(said: str, expected: _Layout) -> list[list[str]] | None:
    """Return the rows of a board in any layout: lines, lists in a list, a LaTeX matrix.

    None for other text, and for a sign beside the board, as in `-[[1, 2], [3, 4]]`.
    """
    if sorted(BEGUN.findall(said)) != sorted(ENDED.findall(said)):
        return None
    between = "\n" if len(expected.lengths) > 1 else " "
    said = _joined_texts(ROW_END.sub("\n", MATRIX_LIMIT.sub("\n", said)), between)
    if not _has_pairs(said) or NORM.fullmatch(said):
        return None
    if re.match(r"[\[(]\s*[\[(]", said):
        lines = re.findall(r"[\[(]([^\[\]()]*)[\])]", said)
        if not EDGE.fullmatch(re.sub(r"[\[(][^\[\]()]*[\])]", "", said)):
            return None
    else:
        lines = said.split("\n")
    cell = expected.cell
    rows = []
    for line in lines:
        signs = re.sub(cell, "\0", line)
        before, first_cell, rest = signs.partition("\0")
        if first_cell:
            between, _, after = f"\0{rest}".rpartition("\0")
            if ("|" in before) != ("|" in after):
                return None  # bars around the whole board make a determinant
            is_layout = BEFORE.fullmatch(before) and AFTER.fullmatch(after) and expected.between.fullmatch(between)
        else:
            between_rows = BETWEEN_ROWS if expected.between is BETWEEN_COMPARED else EDGE
            is_layout = between_rows.fullmatch(signs) or RULE.fullmatch(signs)
        if not is_layout:
            return None
        runs = re.findall(r"\d+", line)
        if cell == SHORT_CELL and len(runs) > 1 and any(len(run) > 1 for run in runs):
            return None  # `12 1` has cells of two digits, `121` may be three cells
        cells = re.findall(cell, line)
        if cells:
            rows.append(cells)
    return rows


def _has_pairs(said: str) -> bool:
    """Tell whether brackets and quotes come in pairs: those of `[1, 2]` do, those of `1 2)` and `1 2'` do not."""
    if TWO_PRIMES.search(said):
        return False
    return are_nested(said) and said.count("'") % 2 == said.count('"') % 2 == 0


def _joined_texts(said: str, between: str) -> str:
    """Return a list of texts, such as the lines of a board, as one text; other text as it is."""
    if not re.match(r"\[\s*[\"']", said):
        return said
    try:
        lines = parse_literal(said)
    except LiteralError:
        return said
    if len(lines) < 2 or not all(isinstance(line, str) for line in lines):
        return said
    return between.join(lines)
