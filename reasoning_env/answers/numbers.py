"""Types of answers that are numbers, and how their text is read: separators, units, names, rounding."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction

from .grammars.expressions import ExpressionError, evaluate_exactly, parse_expression
from .types import AnswerType, Asked, text

NUMBER = re.compile(
    r"(?!-[0.]+(?:[eE]|\Z))[-+]?(?:\d{1,400}(?:\.\d{0,400})?|\.\d{1,400})(?:[eE][-+]?\d{1,3})?", re.ASCII
)
"""A decimal number: `16`, `-1.50`, `.5`, `1.6e1`; but no nought with a minus sign, such as `-0.0`."""
THOUSANDS = r"(?P<comma>,|\{(?:,| )\}|[_'~ ]|[\u00a0\u2009\u202f])"
"""The separator in `1,234`, `1_234`, `1'234`, `1{,}234`, `1~234`, and with a blank.

There is none in `1,2345` or `0,123`.
"""
RAISED = "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"
"""The superscripts of `-0123456789`."""
TIMES = r"[*x\u00d7\u00b7\u22c5]"
NOTATION = re.compile(
    r"(?P<currency>[$\u20ac\u00a3])?(?P<sign>[-+]?)\s?"
    rf"(?P<digits>[1-9]\d{{0,2}}{THOUSANDS}\d{{3}}(?:(?P=comma)\d{{3}}){{0,60}}(?:\.\d{{0,200}})?"
    r"|\d{1,200}(?:\.\d{0,200})?|\.\d{1,200})(?:[eE](?P<exponent>[-+]?\d{1,3}))?"
    rf"(?:\s?{TIMES}\s?10(?:(?:\^|\*\*)(?P<brace>\{{)?(?P<bracket>\()?(?P<power>-?\d{{1,3}})(?(bracket)\))(?(brace)\}})"
    rf"|(?P<raised>[{RAISED}]{{1,3}})))?"
    r"(?:[^\S\n]{0,2}(?P<unit>[%\u00b0]|[A-Za-z]+(?: [A-Za-z]+){0,2}))?",
    re.ASCII,
)
"""A number with its currency, power of ten or unit: `$16`, `1.6 \u00d7 10^{1}`, `16 legs`, `16\u00b0`, `16%`."""
WHOLE_PATTERN = (
    r"\s?(?P<{name}>-?\d{{1,60}}|-?[1-9]\d{{0,2}}(?:,\d{{3}}){{1,20}}|-?[1-9]\d{{0,2}}(?: \d{{3}}){{1,20}})\s?"
)
WHOLE_NUMBER = re.compile(WHOLE_PATTERN.format(name="number"), re.ASCII)
FRACTIONS = tuple(
    re.compile(
        pattern.replace("UP", WHOLE_PATTERN.format(name="up")).replace("DOWN", WHOLE_PATTERN.format(name="down")),
        re.ASCII,
    )
    for pattern in (
        r"(?P<outer>\()?\(UP\)\s?/\s?\(DOWN\)(?(outer)\))",
        "(?P<brace>\\{)?UP(?:[/\u00f7\u2044\u2215]|\\\\over)DOWN(?(brace)\\})",
    )
)
r"""A fraction of whole numbers: `3/4`, `(3)/(4)`, `3 \u00f7 4`. `plain` has written `\frac{3}{4}` so."""
NAMED = re.compile(r"(?P<name>[A-Za-z])\s?(?P<sign>[:=])\s?(?P<value>[^=:]+)")
"""A variable and its value: `x = 5`, `x: 5`."""
ASKED_VARIABLE = re.compile(r"(?:\bvalue of|\b[Ss]olve for) (?P<name>[a-z])\b(?=:| in | that )")
"""The variable whose value a question asks for."""
ANGLE_NAME = re.compile(r"(?:\u2220|[Aa]ngle)\s?(?P<name>[A-Z](?:[A-Z]{2})?)\s?[=:]\s?")
"""The name of an angle: `\u2220ABC = `, `Angle B = `."""
CALCULATION = re.compile(r"(?:[-\d+/() .]|(?<!\*)\*(?!\*)){3,1000}")
"""A calculation without powers: `25 + 30 * (2 - 1)`."""
MAX_SIDES = 4
"""Sides of an equation such as `1/4 = 0.25 = 25%`."""
ROUNDED = re.compile(r"\s?\u2248\s?")
MONEY = re.compile(r"\b(?:dollars?|costs?|prices?|money|pay|pays|paid|earns?|earned|spends?|spent|much)\b")
"""Words of a question about money."""
COUNTED = re.compile(r"(?:[Hh]ow many|number of)(?P<one> 1)?(?: \d+)?(?P<words>(?: [a-z-]+){1,4})")
"""The words after `how many`, the first of which name what the question counts; `1 bits` are ones too."""
NO_NOUNS = frozenset(
    {"are", "is", "was", "were", "do", "does", "did", "have", "has", "had", "in", "of", "to", "will", "would", "can"}
    | {"there", "that", "the", "a", "an", "you", "he", "she", "they", "it", "on", "at", "for", "with", "if", "per"}
    | {"and", "or", "not", "than", "as", "by", "from", "left", "more", "less", "fewer", "least", "most", "half", "no"}
)
"""Words that end the noun after `how many`, or say something about a number."""


@dataclass(frozen=True)
class NumberValue:
    """The value of a text, and a plain notation: `1234.50` of `1,234.50`, and `6/8` of `\\frac{6}{8}`."""

    exact: Fraction
    notation: str


def number(said: str, asked: Asked) -> str | None:
    """The type of numbers in any notation, with the question's unit, variable or expression beside them."""
    value = value_of(said, asked)
    if value is None:
        return None
    degrees = "\N{DEGREE SIGN}" if asked.right.endswith("\N{DEGREE SIGN}") else ""
    right = Fraction(asked.right.removesuffix("\N{DEGREE SIGN}"))
    return asked.right if value.exact == right else value.notation + degrees


def number_or_text(said: str, asked: Asked) -> str | None:
    """The type of answers that are a number where the expected answer is one, and else words in any case."""
    return number(said, asked) if NUMBER.fullmatch(asked.right) else ANY_WORDS(said, asked)


ANY_WORDS = text()


def value_of(said: str, asked: Asked) -> NumberValue | None:
    """Return the value of a number or a reduced fraction; None for other text.

    Of an equation such as `1/32 = 0.03125` or `2 * 4 + 3 = 8 + 3 = 11` the last side counts, if the others have the
    same value.
    """
    said = without_name(said, asked.question)
    *before, end = said.split("=", MAX_SIDES)
    last = plain_value(end.strip(), asked.question)
    if last is None or any(value_of_side(side.strip(), asked.question) != last.exact for side in before):
        return None
    parts = fraction_parts(end)
    if parts is not None and (parts[1] < 2 or math.gcd(*parts) != 1):
        return None  # 12/2 is a calculation, and 6/8 is not reduced
    return last


def value_of_side(side: str, question: str) -> Fraction | None:
    """Return the value of a number or a calculation before an equals sign; None for other text."""
    value = plain_value(side, question)
    if value is not None:
        return value.exact
    try:
        return evaluate_exactly(parse_expression(side, len(side))) if CALCULATION.fullmatch(side) else None
    except ExpressionError:
        return None


def rounds(said: str, right: Fraction, *, places: int, error: Fraction = Fraction(0)) -> bool:
    """Tell whether a decimal number is the right value, rounded to `places` decimals or to more.

    All digits of the number count: 2.674 is no rounding of 2.67. A rounded number may leave out noughts at its end.
    Half a unit is rounded up or to the even digit: 0.9375 to 0.938 and no 0.937, 0.03125 to 0.0313 or 0.0312.
    `error` is the relative error of the right value.
    """
    if not NUMBER.fullmatch(said):
        return False
    mantissa, _, power = said.lower().partition("e")
    said_places = len(mantissa.partition(".")[2]) - int(power or 0)
    unit = Fraction(1) / Fraction(10) ** max(places, said_places)
    number = Fraction(said)
    if abs(number - right) <= abs(right) * error:
        return True
    if abs(number - right) == unit / 2:
        return abs(number) > abs(right) or number / unit % 2 == 0
    return abs(number - right) < unit / 2


def rounded(*, digits: int) -> AnswerType:
    """The type of numbers of which a question asks for so many significant digits at least."""

    def read(said: str, asked: Asked) -> str | None:
        value = value_of(without_rounding_sign(said), asked)
        if value is None:
            return None
        is_right = has_digits(value.notation, Fraction(asked.right), digits)
        return asked.right if is_right else value.notation

    return read


def has_digits(said: str, right: Fraction, digits: int) -> bool:
    """Tell whether a number is the right value, rounded to at least so many significant digits."""
    if right == 0:
        return NUMBER.fullmatch(said) is not None and Fraction(said) == 0
    return rounds(said, right, places=digits - 1 - math.floor(math.log10(abs(right))))


def without_rounding_sign(said: str) -> str:
    """Return `3/4 = 0.75` for `3/4 \u2248 0.75`, and `0.5` for `\u2248 0.5`."""
    return ROUNDED.sub("=", said).removeprefix("=").strip()


def candidate(said: str, asked: Asked) -> str | None:
    """The type of numbers to pick: a candidate as the question shows it or as the library holds it, to three decimals.

    A candidate that comes several times may be shown with more digits in one place: 791,044.979, 7.910449790000001e+05.
    """
    solution = asked.metadata["solution"]
    shown = zip(asked.metadata["candidates"], asked.metadata["formatted_candidates"], strict=True)
    right = {form.replace(",", "") for candidate, form in shown if candidate == solution} | {str(solution)}
    value = value_of(said, asked)
    if value is None:
        return None
    is_right = any(rounds(value.notation, Fraction(form), places=3) for form in right)
    return asked.right if is_right else value.notation


def plain_value(said: str, question: str) -> NumberValue | None:
    """Return the value of a number with separators, currency, power of ten and unit, or of a fraction."""
    parts = fraction_parts(said)
    if parts is not None:
        return NumberValue(Fraction(*parts), f"{parts[0]}/{parts[1]}") if parts[1] else None
    match = NOTATION.fullmatch(said)
    if match is None:
        return None
    exponent = int(match["exponent"] or 0) + int(match["power"] or 0)
    if match["raised"]:
        raised = "".join("-0123456789"[RAISED.index(digit)] for digit in match["raised"])
        if not re.fullmatch(r"-?\d+", raised):
            return None
        exponent += int(raised)
    digits = re.sub(r"[^\d.]", "", match["digits"])
    if match["currency"] and not _asks_for_money(match["currency"], question):
        return None
    if match["unit"] == "%" and "percent" not in question:
        exponent -= 2
        if not 0 < Fraction(f"{digits}e{exponent}") <= 1:
            return None
    elif not _is_unit(match["unit"], question):
        return None
    notation = match["sign"] + digits + (f"e{exponent}" if exponent else "")
    return NumberValue(Fraction(notation), notation) if NUMBER.fullmatch(notation) else None


def _asks_for_money(currency: str, question: str) -> bool:
    """Tell whether a question is about money of this currency, and does not count things."""
    if currency in question:
        return True
    return currency == "$" and MONEY.search(question) is not None and not COUNTED.search(question)


def _is_unit(unit: str | None, question: str) -> bool:
    """Tell whether the words after a number are what the question counts, in singular or plural, or its unit."""
    if not unit or unit == "%":
        return True
    if unit in ("\N{DEGREE SIGN}", "deg", "degrees", "degree"):
        return "\N{DEGREE SIGN}" in question or "degree" in question
    if unit in ("dollars", "dollar"):
        return _asks_for_money("$", question)
    return {_singular(word) for word in unit.casefold().split()} <= _counted_nouns(question)


def _counted_nouns(question: str) -> set[str]:
    """Return the words of what the question counts, in the singular."""
    nouns: set[str] = set()
    for phrase in COUNTED.finditer(question):
        if phrase["one"]:
            nouns.add("one")
        for word in phrase["words"].split():
            if word in NO_NOUNS:
                break
            nouns.add(_singular(word))
    return nouns


def _singular(word: str) -> str:
    return word.removesuffix("s") if len(word) > 3 else word


def without_name(said: str, question: str) -> str:
    """Return the value after the question's variable or angle.

    Any value may be called x, and by another letter where the question asks for no variable and does not give that one.
    """
    asked = ASKED_VARIABLE.search(question)
    named = NAMED.fullmatch(said)
    if named is not None:
        name = named["name"]
        is_given = re.search(rf"\b{name}\s?=", question) is not None
        is_asked = name == asked["name"] if asked is not None else named["sign"] != ":" and not is_given
        return named["value"] if is_asked or (name == "x" and named["sign"] != ":") else said
    angle = ANGLE_NAME.match(said)
    if angle is not None and _asks_for_angle(angle["name"], question):
        return said[angle.end() :]
    return said


def _asks_for_angle(name: str, question: str) -> bool:
    """Tell whether a question asks for the angle with this name: `B` and `ABC` are the angle at B."""
    vertex = name[len(name) // 2]
    if re.search(rf"\bangle at {vertex}\b", question):
        return True
    asked = re.findall(r"(?:\bangle |\u2220)([A-Z]{3})\b", question)
    return any(name in (vertex, angle, angle[::-1]) and angle[1] == vertex for angle in asked)


def fraction_parts(said: str) -> tuple[int, int] | None:
    """Return numerator and denominator as written; None for text that is no fraction."""
    match = next(filter(None, (pattern.fullmatch(said) for pattern in FRACTIONS)), None)
    if match is None:
        return None
    return int(re.sub("[ ,]", "", match["up"])), int(re.sub("[ ,]", "", match["down"]))
