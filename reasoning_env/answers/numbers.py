"""Answer types of numbers: with thousands separators or powers of ten, at the end of an equation, or rounded."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction

from .calculations import MAX_SIDES, RAISED, SUPERSCRIPTS, calculate
from .literals import is_balanced
from .types import AnswerType, ProblemData, text

NUMBER = re.compile(
    r"(?!-[0.]+(?:[eE]|\Z))[-+]?(?:\d{1,400}(?:\.\d{0,400})?|\.\d{1,400})(?:[eE][-+]?\d{1,3})?", re.ASCII
)
"""A decimal number: `16`, `-1.50`, `.5`, `1.6e1`, but not `-0.0`."""
THOUSANDS = r"(?P<comma>,|\{(?:,| )\}|[_'~ ]|[\u00a0\u2009\u202f])"
"""The thousands separator in `1,234`, `1_234`, `1'234`, `1{,}234`, `1~234` and `1 234`."""
TIMES = r"[*x\u00d7\u00b7\u22c5]"
NOTATION = re.compile(
    r"(?P<sign>[-+]?)\s?"
    rf"(?P<digits>[1-9]\d{{0,2}}{THOUSANDS}\d{{3}}(?:(?P=comma)\d{{3}}){{0,60}}(?:\.\d{{0,200}})?"
    r"|\d{1,200}(?:\.\d{0,200})?|\.\d{1,200})(?:[eE](?P<exponent>[-+]?\d{1,3}))?"
    rf"(?:\s?{TIMES}\s?10(?:(?:\^|\*\*)(?P<brace>\{{)?(?P<bracket>\()?(?P<power>-?\d{{1,3}})(?(bracket)\))(?(brace)\}})"
    rf"|(?P<raised>\u207b?[{RAISED[1:]}]{{1,3}})))?",
    re.ASCII,
)
"""A number with thousands separators or a power of ten: `1,234`, `1.6 \u00d7 10^{1}`."""
DEGREES = re.compile(r"(?<=\d)\s{0,2}(?:\u00b0|deg(?:rees?)?)\Z")
WHOLE_NUMBER = re.compile(
    r"(?P<bracket>\()?\s?(?P<digits>-?\d{1,60}|-?[1-9]\d{0,2}(?:(?:,\d{3}){1,20}|(?: \d{3}){1,20}))\s?(?(bracket)\))",
    re.ASCII,
)
FRACTION_BAR = re.compile(r"[/\u00f7\u2044\u2215]|\\over")
ROUNDED = re.compile(r"\s?\u2248\s?")


@dataclass(frozen=True)
class NumberValue:
    """The exact value of a number, and its plain notation: `1234.50` for `1,234.50`, `6/8` for `\\frac{6}{8}`."""

    exact: Fraction
    notation: str


def number(answer: str, problem: ProblemData) -> str | None:
    """Read a number in any notation, or a correct calculation that ends with a number, as in `2 + 3 = 5`."""
    value = number_value(answer)
    if value is None:
        return None
    return problem.expected if value.exact == Fraction(problem.expected) else value.notation


def degrees(answer: str, problem: ProblemData) -> str | None:
    """Read an angle in degrees, with or without the unit."""
    return number(without_degrees(answer), problem)


def without_degrees(answer: str) -> str:
    """Return `40.5` for `40.5\u00b0` and `40.5 degrees`."""
    return DEGREES.sub("", answer)


def number_or_text(answer: str, problem: ProblemData) -> str | None:
    """Read a number if the expected answer is a number. Otherwise, compare words and ignore upper and lower case."""
    return number(answer, problem) if NUMBER.fullmatch(problem.expected) else text()(answer, problem)


def number_value(answer: str) -> NumberValue | None:
    """Parse a number or a reduced fraction; None for anything else.

    In an equation such as `1/32 = 0.03125`, parse the last side. All sides must be equal.
    """
    *before, end = answer.split("=", MAX_SIDES)
    last = simple_number(end.strip())
    if last is None or any(side_value(side.strip()) != last.exact for side in before):
        return None
    parts = fraction_parts(end)
    if parts is not None and (parts[1] < 2 or math.gcd(*parts) != 1):
        return None  # 12/2 is not a result, and 6/8 is not reduced
    return last


def side_value(side: str) -> Fraction | None:
    """Return the value of a number or a calculation, such as one side of an equation; None for anything else."""
    value = simple_number(side)
    return calculate(side) if value is None else value.exact


def rounds(answer: str, right: Fraction, *, places: int, error: Fraction = Fraction(0)) -> bool:
    """Return True if a decimal number is the right value, rounded to at least `places` decimals.

    A half may be rounded up or to the even digit: 0.03125 may become 0.0313 or 0.0312. `error` is the relative error
    that `right` itself may have.
    """
    if not NUMBER.fullmatch(answer):
        return False
    mantissa, _, power = answer.lower().partition("e")
    answer_places = len(mantissa.partition(".")[2]) - int(power or 0)
    unit = Fraction(1) / Fraction(10) ** max(places, answer_places)
    number = Fraction(answer)
    if abs(number - right) <= abs(right) * error:
        return True
    if abs(number - right) == unit / 2:
        return abs(number) > abs(right) or number / unit % 2 == 0
    return abs(number - right) < unit / 2


def rounded(*, digits: int) -> AnswerType:
    """Make an answer type for numbers that must be right to at least `digits` significant digits."""

    def read(answer: str, problem: ProblemData) -> str | None:
        value = number_value(without_rounding_sign(answer))
        if value is None:
            return None
        is_right = has_digits(value.notation, Fraction(problem.expected), digits)
        return problem.expected if is_right else value.notation

    return read


def has_digits(answer: str, right: Fraction, digits: int) -> bool:
    """Return True if a number is the right value, rounded to at least `digits` significant digits."""
    if right == 0:
        return NUMBER.fullmatch(answer) is not None and Fraction(answer) == 0
    return rounds(answer, right, places=digits - 1 - math.floor(math.log10(abs(right))))


def without_rounding_sign(answer: str) -> str:
    """Replace signs of rounding: `3/4 \u2248 0.75` becomes `3/4 = 0.75`, and `\u2248 0.5` becomes `0.5`."""
    return ROUNDED.sub("=", answer).removeprefix("=").strip()


def candidate(answer: str, problem: ProblemData) -> str | None:
    """Read a number. It is right if it equals the right option, or this option rounded to three or more decimals."""
    solution = problem.metadata["solution"]
    # The question may list the right option in two notations: 791,044.979 and 7.910449790000001e+05.
    shown = zip(problem.metadata["candidates"], problem.metadata["formatted_candidates"], strict=True)
    right = {form.replace(",", "") for candidate, form in shown if candidate == solution} | {str(solution)}
    value = number_value(answer)
    if value is None:
        return None
    is_right = any(rounds(value.notation, Fraction(form), places=3) for form in right)
    return problem.expected if is_right else value.notation


def simple_number(answer: str) -> NumberValue | None:
    """Parse a fraction, or a number that may have thousands separators and a power of ten; None for anything else."""
    parts = fraction_parts(answer)
    if parts is not None:
        return NumberValue(Fraction(*parts), f"{parts[0]}/{parts[1]}") if parts[1] else None
    match = NOTATION.fullmatch(answer)
    if match is None:
        return None
    power = match["power"] or (match["raised"] or "0").translate(SUPERSCRIPTS)
    exponent = int(match["exponent"] or 0) + int(power)
    notation = match["sign"] + re.sub(r"[^\d.]", "", match["digits"]) + (f"e{exponent}" if exponent else "")
    return NumberValue(Fraction(notation), notation) if NUMBER.fullmatch(notation) else None


def fraction_parts(answer: str) -> tuple[int, int] | None:
    """Return numerator and denominator (not reduced) of `3/4`, `(3)/(4)` or `-((3)/(4))`; None for anything else."""
    inner = answer.strip()
    is_negative = inner.startswith("-(")
    inner = inner[is_negative:]
    if inner[:1] + inner[-1:] in ("()", "{}") and is_balanced(inner[1:-1]):
        inner = inner[1:-1]
    parts = [whole_number(part) for part in FRACTION_BAR.split(inner)]
    if len(parts) != 2 or parts[0] is None or parts[1] is None:
        return None
    return (-parts[0] if is_negative else parts[0]), parts[1]


def whole_number(answer: str) -> int | None:
    """Parse a whole number with or without thousands separators; None for anything else."""
    match = WHOLE_NUMBER.fullmatch(answer.strip())
    return int(re.sub("[ ,]", "", match["digits"])) if match else None
