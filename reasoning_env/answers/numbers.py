"""Types of answers that are numbers, and how their text is read: separators, powers of ten, calculations, rounding."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction

from .calculations import MAX_SIDES, RAISED, calculated
from .types import AnswerType, Asked, text

NUMBER = re.compile(
    r"(?!-[0.]+(?:[eE]|\Z))[-+]?(?:\d{1,400}(?:\.\d{0,400})?|\.\d{1,400})(?:[eE][-+]?\d{1,3})?", re.ASCII
)
"""A decimal number: `16`, `-1.50`, `.5`, `1.6e1`; but no nought with a minus sign, such as `-0.0`."""
THOUSANDS = r"(?P<comma>,|\{(?:,| )\}|[_'~ ]|[\u00a0\u2009\u202f])"
"""The separator in `1,234`, `1_234`, `1'234`, `1{,}234`, `1~234`, and with a blank.

There is none in `1,2345` or `0,123`.
"""
TIMES = r"[*x\u00d7\u00b7\u22c5]"
NOTATION = re.compile(
    r"(?P<sign>[-+]?)\s?"
    rf"(?P<digits>[1-9]\d{{0,2}}{THOUSANDS}\d{{3}}(?:(?P=comma)\d{{3}}){{0,60}}(?:\.\d{{0,200}})?"
    r"|\d{1,200}(?:\.\d{0,200})?|\.\d{1,200})(?:[eE](?P<exponent>[-+]?\d{1,3}))?"
    rf"(?:\s?{TIMES}\s?10(?:(?:\^|\*\*)(?P<brace>\{{)?(?P<bracket>\()?(?P<power>-?\d{{1,3}})(?(bracket)\))(?(brace)\}})"
    rf"|(?P<raised>[{RAISED}]{{1,3}})))?",
    re.ASCII,
)
"""A number with separators of thousands, or with a power of ten: `1,234`, `1.6 \u00d7 10^{1}`."""
DEGREES = re.compile(r"(?<=\d)\s{0,2}(?:\u00b0|deg(?:rees?)?)\Z")
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
ROUNDED = re.compile(r"\s?\u2248\s?")


@dataclass(frozen=True)
class NumberValue:
    """The value of a text, and a plain notation: `1234.50` of `1,234.50`, and `6/8` of `\\frac{6}{8}`."""

    exact: Fraction
    notation: str


def number(said: str, asked: Asked) -> str | None:
    """The type of numbers in any notation, also after a calculation that has their value."""
    value = value_of(said)
    if value is None:
        return None
    return asked.right if value.exact == Fraction(asked.right) else value.notation


def degrees(said: str, asked: Asked) -> str | None:
    """The type of numbers of degrees, with the unit or without it."""
    return number(without_degrees(said), asked)


def without_degrees(said: str) -> str:
    """Return `40.5` for `40.5\u00b0` and `40.5 degrees`."""
    return DEGREES.sub("", said)


def number_or_text(said: str, asked: Asked) -> str | None:
    """The type of answers that are a number where the expected answer is one, and else words in any case."""
    return number(said, asked) if NUMBER.fullmatch(asked.right) else ANY_WORDS(said, asked)


ANY_WORDS = text()


def value_of(said: str) -> NumberValue | None:
    """Return the value of a number or a reduced fraction; None for other text.

    The last side of an equation such as `1/32 = 0.03125` or `2^2 * 4 = 4 * 4 = 16` counts if the others have its value.
    """
    *before, end = said.split("=", MAX_SIDES)
    last = plain_value(end.strip())
    if last is None or any(value_of_side(side.strip()) != last.exact for side in before):
        return None
    parts = fraction_parts(end)
    if parts is not None and (parts[1] < 2 or math.gcd(*parts) != 1):
        return None  # 12/2 is a calculation, and 6/8 is not reduced
    return last


def value_of_side(side: str) -> Fraction | None:
    """Return the value of a number or a calculation before an equals sign; None for other text."""
    value = plain_value(side)
    if value is not None:
        return value.exact
    found = calculated(side)
    return None if found is None or found.imaginary else found.real


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
        value = value_of(without_rounding_sign(said))
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
    value = value_of(said)
    if value is None:
        return None
    is_right = any(rounds(value.notation, Fraction(form), places=3) for form in right)
    return asked.right if is_right else value.notation


def plain_value(said: str) -> NumberValue | None:
    """Return the value of a number with separators of thousands or a power of ten, or of a fraction."""
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
    notation = match["sign"] + re.sub(r"[^\d.]", "", match["digits"]) + (f"e{exponent}" if exponent else "")
    return NumberValue(Fraction(notation), notation) if NUMBER.fullmatch(notation) else None


def fraction_parts(said: str) -> tuple[int, int] | None:
    """Return numerator and denominator as written; None for text that is no fraction."""
    match = next(filter(None, (pattern.fullmatch(said) for pattern in FRACTIONS)), None)
    if match is None:
        return None
    return int(re.sub("[ ,]", "", match["up"])), int(re.sub("[ ,]", "", match["down"]))
