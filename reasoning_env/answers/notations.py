"""Answer types with a special notation: probabilities, bases, complex numbers, measures, factors, roots, durations.

`types.py` explains answer types, and `numbers.py` parses the numbers inside these notations.
"""

from __future__ import annotations

import cmath
import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from .calculations import MAX_SIDES, calculate_complex
from .markup import without_markup
from .numbers import (
    NUMBER,
    TIMES,
    NumberValue,
    fraction_parts,
    has_digits,
    number_value,
    rounds,
    side_value,
    simple_number,
    whole_number,
    without_degrees,
    without_rounding_sign,
)
from .types import ProblemData, sequence, unquoted


def probability(answer: str, problem: ProblemData) -> str | None:
    """Read a probability: an exact fraction, reduced or not, or a number correct to at least three digits."""
    terms = problem.metadata["rational"]
    right = Fraction(terms["numerator"], terms["denominator"])
    *exact, last = without_rounding_sign(answer).split("=", MAX_SIDES)
    if any(side_value(side.strip()) != right for side in exact):
        return None
    parts = fraction_parts(last)
    if parts is not None:
        if parts[1] == 0:
            return None
        return problem.expected if parts[1] > 0 and Fraction(*parts) == right else f"{parts[0]}/{parts[1]}"
    value = simple_number(last.strip()) or _percentage(last.strip())
    if value is None:
        return None
    is_right = value.exact == Fraction(problem.expected) or has_digits(value.notation, right, 3)
    return problem.expected if is_right else value.notation


def _percentage(answer: str) -> NumberValue | None:
    """Parse a percentage above 0 and up to 100; None for any other string."""
    value = simple_number(answer[:-1].rstrip()) if answer.endswith("%") else None
    if value is None or not 0 < value.exact <= 100:
        return None
    mantissa, _, exponent = value.notation.partition("e")
    return NumberValue(value.exact / 100, f"{mantissa}e{int(exponent or 0) - 2}")


def fraction(answer: str, problem: ProblemData) -> str | None:
    """Read a fraction, or the fraction after the last `=`, as in `6/8 = 3/4`. Only the reduced fraction is right."""
    sides = [fraction_parts(side.strip()) for side in answer.split("=", MAX_SIDES)]
    last = sides[-1]
    if last is None or last[1] == 0 or any(not side or side[0] * last[1] != last[0] * side[1] for side in sides):
        return None
    right = fraction_parts(without_markup(problem.expected.strip("$")))
    return problem.expected if last == right else f"{last[0]}/{last[1]}"


SUBSCRIPTS = str.maketrans("\u2080\u2081\u2082\u2083\u2084\u2085\u2086\u2087\u2088\u2089", "0123456789")
DIGITS_IN_BASE = re.compile(
    r"(?P<bracket>\()?(?P<sign>[-+]?)(?P<prefix>0[xX]|0[bo])?(?P<digits>[0-9a-zA-Z]{1,400})(?(bracket)\))"
    r"(?:_(?P<brace>\{)?(?P<base>\d{1,2})(?(brace)\})|(?P<lowered>[\u2080-\u2089]{1,2})"
    r"|\s?(?P<round>\()?(?:in )?base[- ]?(?P<named>\d{1,2})(?(round)\)))?"
)
"""Digits with or without their base: `651_7`, `(651)_{7}`, `651\u2087`, `651 (base 7)`, `0x28b`."""
PREFIXES: Mapping[str, str] = {"0b": "2", "0o": "8", "0x": "16"}


def digits(answer: str, problem: ProblemData) -> str | None:
    """Read digits in the problem's base; None if the answer names another base.

    In base 10, a calculation may come first: `4*15^2 + 5*15 = 975`.
    """
    base = str(problem.metadata["target_base"])
    value = number_value(answer) if base == "10" else None
    if value is not None and value.exact.denominator == 1:
        return str(value.exact)
    return _digits_without_base(answer, base)


def _digits_without_base(answer: str, base: str) -> str | None:
    """Remove a mark of `base`, such as `0x` or `_16`. Return None if the answer names another base or is not digits."""
    match = DIGITS_IN_BASE.fullmatch(answer)
    if match is None:
        return None
    named = match["base"] or match["named"] or (match["lowered"] or "").translate(SUBSCRIPTS)
    if named not in ("", base):
        return None
    prefix = match["prefix"] or ""
    is_mark = PREFIXES.get(prefix.lower()) == base  # otherwise, the prefix is digits: 0b1 is a number in base 16
    return match["sign"].replace("+", "") + ("" if is_mark else prefix) + match["digits"]


HEXADECIMAL = re.compile("-?[0-9a-fA-F]+")


def hexadecimal(answer: str, problem: ProblemData) -> str | None:
    """Read a hexadecimal number with its prefix or base: `-0x3f`, `0X3F_{16}`, `3f (base 16)`."""
    found = _digits_without_base(answer, "16")
    if found is None or not HEXADECIMAL.fullmatch(found) or found == answer.strip("()+"):
        return None  # without a mark of the base, 12 may be decimal
    value = int(found, 16)
    return problem.expected if value == int(problem.expected, 16) else hex(value)


COMPLEX_PART = (
    r"[-+]?\s?(?:\d{1,50}(?:,\d{3})*(?:\.\d{0,50})?(?:[eE][-+]?\d{1,2})?)?(?:\s?[*\u22c5\u00b7\u00d7]?\s?[ijIJ])?"
)
COMPLEX = re.compile(rf"(?P<first>{COMPLEX_PART})(?:\s?(?:\+\s?(?=-))?(?P<second>(?=[-+]){COMPLEX_PART}))?")
"""A complex number: `4 - 7i`, `4 + -7*j`, `-7i + 4`, `i`, `4`."""


def complex_number(answer: str, problem: ProblemData) -> str | None:
    """Read a complex number, such as `4 + i`. A calculation may come first: `(1 + 2i) + (3 - i) = 4 + i`."""
    *before, end = answer.split("=", MAX_SIDES)
    value = _complex_value(end.strip())
    if value is None:
        return None
    real, imaginary = value
    for side in map(calculate_complex, before):
        if side is None or not cmath.isclose(side, complex(float(real), float(imaginary)), abs_tol=1e-9):
            return None
    if [real, imaginary] == [Fraction(part) for part in problem.metadata["result"]]:
        return problem.expected
    return f"{float(real)} {'-' if imaginary < 0 else '+'} {abs(float(imaginary))}i"


def _complex_value(answer: str) -> tuple[Fraction, Fraction] | None:
    match = COMPLEX.fullmatch(answer)
    if match is None:
        return None
    values: dict[str, Fraction] = {}
    for part in filter(None, match.group("first", "second")):
        digits = re.sub(r"[\s,*\u22c5\u00b7\u00d7]", "", part)
        number = digits.rstrip("ijIJ")
        unit = "i" if number != digits else ""
        if unit in values or not (unit or number.strip("+-")):
            return None
        values[unit] = Fraction(number if number.strip("+-") else f"{number}1")
    return values.get("", Fraction(0)), values.get("i", Fraction(0))


POINT = re.compile(
    r"(?:[A-Za-z]\s?=?\s?)?(?:(?P<round>\()|(?P<square>\[))?\s?(?:x\s?=\s?)?(?P<x>[^\s,()\[\]]{1,100})\s?,\s?(?:y\s?=\s?)?"
    r"(?P<y>[^\s,()\[\]]{1,100})\s?(?(round)\))(?(square)\])"
)
"""A point, possibly with names: `H = (1.5, -2)`, `[1.5, -2]`, `x = 1.5, y = -2`."""
FLOAT_DIGITS = 9
FLOAT_ERROR = Fraction(1, 10**FLOAT_DIGITS)
"""Expected values have up to this relative rounding error, because the library calculates them as floats."""


def measure(answer: str, problem: ProblemData) -> str | None:
    """Read an angle, which must be correct to two decimals, or a point or a length, which must be correct to three."""
    kind = problem.metadata["task_type"]
    if kind == "orthocenter":
        point = POINT.fullmatch(answer)
        expected = POINT.fullmatch(problem.expected)
        if point is None or expected is None or not all(map(NUMBER.fullmatch, point.group("x", "y"))):
            return None
        exact = map(Fraction, problem.metadata["ortho"])
        pairs = zip(point.group("x", "y"), expected.group("x", "y"), exact, strict=True)
        is_right = all(_is_right_measure(part, shown, value, places=3) for part, shown, value in pairs)
        return problem.expected if is_right else f"({point['x']}, {point['y']})"
    is_angle = kind == "angle_measure"
    value = number_value(without_rounding_sign(without_degrees(answer) if is_angle else answer))
    if value is None:
        return None
    exact_value = Fraction(problem.metadata["angle_ABC_degrees" if is_angle else "incircle_radius_approx"])
    shown = problem.expected.rstrip("\N{DEGREE SIGN}")
    # The question asks for three decimals, but the library rounds angles to two.
    is_right = _is_right_measure(value.notation, shown, exact_value, places=2 if is_angle else 3)
    return problem.expected if is_right else value.notation + ("\N{DEGREE SIGN}" if is_angle else "")


def _is_right_measure(answer: str, shown: str, exact: Fraction, places: int) -> bool:
    """Return True if a number equals `shown`, or is `exact` rounded to `places` or more decimals."""
    if not NUMBER.fullmatch(answer):
        return False
    return Fraction(answer) == Fraction(shown) or rounds(answer, exact, places=places, error=FLOAT_ERROR)


BETWEEN_FACTORS = re.compile(rf"\s?{TIMES}\s?")


def factors(answer: str, problem: ProblemData) -> str | None:
    """Read factors such as `2 x 2 x 3`. The product and an equals sign may come first: `12 = 2 x 2 x 3`."""
    product, equals, right_side = answer.rpartition("=")
    numbers = [whole_number(part) for part in BETWEEN_FACTORS.split(right_side.strip())]
    found = [number for number in numbers if number is not None and number >= 0]
    if len(found) < len(numbers) or len(found) > 200:
        return None
    if equals and whole_number(product) != math.prod(found):
        return None
    written = " \N{MULTIPLICATION SIGN} ".join(map(str, found))
    right = [int(part) for part in re.findall(r"\d+", problem.expected)]
    return problem.expected if sorted(found) == sorted(right) else written


TERM = re.compile(r"(?P<sign>[-+]?)(?P<factor>\d*)\*?(?P<name>[A-Za-z]?)(?:\*\*(?P<power>\d+))?")
"""A term of a polynomial without spaces: `-69*m**2`, `m`, `140`."""
ROOT_NAME = re.compile(
    r"(?P<name>[A-Za-z])(?:_\{?\d{1,2}\}?|\d{1,2}|[\u2080-\u2089]{1,2})?\s?(?:[:=\u2248]|\u2208(?=\s?\{))\s?"
)
"""The name before a root: `x = `, `x_1: `, `x \u2208 ` before a set, `x \u2248 ` before a rounded root."""
MINUS_ZERO = re.compile(r"^-(?=[0.]+$)")
"""The minus sign of a root that is rounded to zero: `-0.0000`."""
BETWEEN_ROOTS = re.compile(r"[,;]\s*(?:(?:and|or)\b)?|[,;]?\n|\b(?:and|or)\b")


def roots(answer: str, problem: ProblemData) -> str | None:
    """Read a list of all real roots of a polynomial, in any order, each rounded or truncated to four decimals.

    A double root may be listed twice.
    """
    names: set[str | None] = set()
    answer = _without_root_name(answer, names)
    if (answer[:1], answer[-1:]) in (("[", "]"), ("{", "}"), ("(", ")")):
        answer = answer[1:-1]
    values = []
    for part in BETWEEN_ROOTS.split(answer.rstrip(",; \n")):
        value = _without_root_name(part.strip(), names)
        value = re.sub(r"^-\s(?=[\d.])", "-", unquoted(value))
        values.append(MINUS_ZERO.sub("", value))
    if len(names - {None}) > 1 or not all(map(NUMBER.fullmatch, values)):
        return None
    right = sorted(_real_roots(problem.metadata), key=lambda root: root.shown)
    different = {Fraction(value): value for value in values}
    counts = Counter(map(Fraction, values))
    if len(counts) == len(right) and all(
        counts[value] <= root.multiplicity and root.equals(different[value])
        for value, root in zip(sorted(counts), right, strict=True)
    ):
        return problem.expected
    return ", ".join(values)


def _without_root_name(answer: str, names: set[str | None]) -> str:
    match = ROOT_NAME.match(answer)
    if match is None:
        return answer
    names.add(match["name"])
    return answer[match.end() :]


@dataclass(frozen=True)
class _Root:
    """A real root of a polynomial: the number in the expected answer (`shown`), and a more exact value."""

    shown: Fraction
    exact: Fraction
    multiplicity: int

    def equals(self, answer: str) -> bool:
        """Return True if a number is this root, rounded or truncated to four decimals."""
        # The question contradicts itself: it says to round, and to round down if the fifth decimal is 5 or more.
        unit = Fraction(1, 10**4)
        truncated = math.trunc(self.exact / unit) * unit
        is_exact = Fraction(answer) == truncated or rounds(answer, self.exact, places=4, error=FLOAT_ERROR)
        return is_exact or Fraction(answer) == self.shown


def _real_roots(metadata: Mapping[str, Any]) -> list[_Root]:
    """Return each real root of a polynomial once: merge double roots, which numpy finds as two nearly equal roots."""
    import numpy as np

    terms = Counter[int]()
    for match in TERM.finditer(str(metadata["polynomial_expr"]).replace(" ", "")):
        if match["factor"] or match["name"]:
            power = int(match["power"] or 1) if match["name"] else 0
            terms[power] += int(match["sign"] + (match["factor"] or "1"))
    complex_roots = np.roots([float(terms[power]) for power in range(max(terms), -1, -1)])
    found = []
    for shown in metadata["real_solutions"]:
        near = [root.real for root in complex_roots if abs(root - shown) < 2e-4]
        exact = Fraction(float(np.mean(near))) if near else Fraction(str(shown))
        found.append(_Root(Fraction(str(shown)), round(exact, FLOAT_DIGITS), len(near)))
    return found


DAYS = re.compile(r"(?P<days>\d{1,9})(?:\s+days?|\s?d)?", re.IGNORECASE)
CLOCK = re.compile(
    r"(?:(?P<days>\d{1,9})(?:(?:\s+days?|\s?d)(?:,? and|,)?\s{0,2}|\s))?"
    r"(?P<hours>\d{1,9}):(?P<minutes>[0-5]\d)(?::(?P<seconds>[0-5]\d(?:\.\d{1,9})?))?",
    re.IGNORECASE,
)


def duration(answer: str, problem: ProblemData) -> str | None:
    """Read a duration: `3 days`, `04:05`, `3 days, 04:05:06.789`. `3D` and `3` also mean `3 days`."""
    match = DAYS.fullmatch(answer) or CLOCK.fullmatch(answer)
    if match is None:
        return None
    if seconds(answer) == seconds(problem.expected):
        return problem.expected
    if match.re is DAYS:
        return f"{match['days']} days"
    clock = answer[match.start("hours") :]
    return f"{match['days']} days, {clock}" if match["days"] else clock


def seconds(text: str) -> Fraction:
    """Parse a duration and return its seconds. Raises ValueError if `text` is no duration."""
    match = DAYS.fullmatch(text) or CLOCK.fullmatch(text)
    if match is None:
        raise ValueError("not a duration")
    days = 86_400 * int(match["days"] or 0)
    if match.re is DAYS:
        return Fraction(days)
    return days + 3600 * int(match["hours"]) + 60 * int(match["minutes"]) + Fraction(match["seconds"] or 0)


NUMBER_LIST = sequence(f"(?a:{NUMBER.pattern})", joint=r"\s*,\s*|\s+", write=",")


def numbers(answer: str, problem: ProblemData) -> str | None:
    """Read a list of numbers, with or without quotes and brackets. Equal values in the same order are right."""
    found, right = NUMBER_LIST(answer, problem), NUMBER_LIST(problem.expected, problem)
    if found is None:
        return None
    if right is not None and [*map(Fraction, found.split(","))] == [*map(Fraction, right.split(","))]:
        return problem.expected
    return json.dumps(found.split(","))
