"""Compute the answers to questions about arithmetic, number theory and probability exactly."""

from __future__ import annotations

import ast
import datetime
import operator
import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from math import comb, gcd, lcm, prod
from typing import Any

from .contract import AmbiguousError, Solution, UnsolvedError, find, integers, near_number

BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.Pow: operator.pow,
}


def evaluate(text: str, number: Callable[[str], Any]) -> Any:
    """Return the value of an arithmetic expression. `number` converts its number literals."""
    source = text.strip()

    def value(node: ast.expr) -> Any:
        match node:
            case ast.Constant():
                return number(ast.get_source_segment(source, node) or "")
            case ast.UnaryOp(op=ast.USub()):
                return -value(node.operand)
            case ast.UnaryOp(op=ast.UAdd()):
                return value(node.operand)
            case ast.BinOp() if type(node.op) in BINARY:
                return BINARY[type(node.op)](value(node.left), value(node.right))
        raise UnsolvedError(f"no arithmetic: {text[:40]!r}")

    try:
        return value(ast.parse(source, mode="eval").body)
    except (SyntaxError, ZeroDivisionError) as error:
        raise UnsolvedError(f"no arithmetic: {text[:40]!r}") from error


def decimal_text(value: Fraction) -> str | None:
    """Return a fraction as a finite decimal number; None if its decimals never end."""
    rest = value.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    if rest != 1:
        return None
    exact = Context(prec=2000)
    text = format(exact.divide(Decimal(value.numerator), Decimal(value.denominator)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def whole(value: int) -> Solution:
    return Solution(str(value), wrong=near_number(value))


def exact(value: Fraction) -> Solution:
    """Return the solution for an exact value that a question asks for."""
    text = decimal_text(value)
    if value.denominator == 1:
        return whole(value.numerator)
    if text is None:
        return Solution(f"{value.numerator}/{value.denominator}", wrong=(str(value.numerator // value.denominator),))
    return Solution(text, wrong=(decimal_text(value + 1) or "", decimal_text(-value) or ""))


# ---------------------------------------------------------------------------- expressions


def basic_arithmetic(question: str) -> Solution:
    found = re.search(r"[-+*/() \d]*\d[-+*/() \d]*", question.replace("=", " "))
    if found is None:
        raise UnsolvedError("no expression")
    return exact(evaluate(found[0], lambda text: Fraction(int(text))))


def chain_sum(question: str) -> Solution:
    expression = find(r"([-+ \d.]*\d)\s*(?:=|\.?$|\.\s)", question.split(":")[-1])[1]
    return exact(evaluate(re.sub(r"\b0+(?=\d)", "", expression), Fraction))


def products(question: str) -> Solution:
    expression = find(r"\d[\d *]*\d", question)[0]
    return whole(prod(integers(expression)))


def bitwise_arithmetic(question: str) -> Solution:
    value = evaluate(question.strip().splitlines()[-1], lambda text: int(text, 16))
    return Solution(hex(value), wrong=(hex(value + 1), hex(-value) if value else "0x1"))


def complex_arithmetic(question: str) -> Solution:
    """Parse two numbers `(a + bi)`, in which either part may be missing, and apply one of four operations."""
    parts = re.findall(r"\(([^()]*\d[^()]*)\)", question)
    if len(parts) != 2:
        raise UnsolvedError("not two complex numbers")
    left, right = (_complex(part) for part in parts)
    sign = re.sub(r"\([^()]*\)", "", question).strip()[-1]
    a, b = left
    c, d = right
    if sign in "+":
        real, imaginary = a + c, b + d
    elif sign in "-−":
        real, imaginary = a - c, b - d
    elif sign in "×*":
        real, imaginary = a * c - b * d, a * d + b * c
    elif sign in "÷/":
        size = c * c + d * d
        real, imaginary = (a * c + b * d) / size, (b * c - a * d) / size
    else:
        raise UnsolvedError(f"the operation {sign!r}")
    near = float(real + 1 + abs(real) // 1000)
    return Solution(
        f"{float(real)} {'-' if imaginary < 0 else '+'} {abs(float(imaginary))}i",
        wrong=(f"{near} + {float(imaginary)}i", f"{float(imaginary)} + {float(real)}i")
        if real != imaginary
        else (f"{near} + {float(imaginary)}i",),
    )


def _complex(text: str) -> tuple[Fraction, Fraction]:
    terms = re.findall(r"([+-]?)\s*(\d+(?:\.\d+)?(?:e[+-]?\d+)?)(i?)", text)
    real = imaginary = Fraction(0)
    for sign, digits, unit in terms:
        value = Fraction(digits) * (-1 if sign == "-" else 1)
        if unit:
            imaginary += value
        else:
            real += value
    return real, imaginary


def decimal_arithmetic(question: str) -> Solution:
    """Compute exactly, then round once to the number of significant digits in the question."""
    digits = int(find(r"(\d+) significant", question)[1])
    expression = find(r"\n(.*?)=", question)[1]
    value = evaluate(expression, Fraction)
    context = Context(prec=digits, rounding=ROUND_HALF_UP)
    rounded = context.divide(Decimal(value.numerator), Decimal(value.denominator))
    off = format(rounded * Decimal("1.001"), "f") if rounded else "0.1"
    return Solution(format(rounded, "f"), wrong=(off, format(-rounded, "f") if rounded else "1"))


def power_function(question: str) -> Solution:
    base, exponent = find(r"Compute (-?[\d.]+)\^(-?\d+)", question).groups()
    value = Fraction(base) ** int(exponent)
    rounded = Context(prec=3, rounding=ROUND_HALF_UP).divide(Decimal(value.numerator), Decimal(value.denominator))
    off = Context(prec=3).multiply(rounded, Decimal("1.1"))
    return Solution(f"{rounded:.2e}", wrong=(f"{-rounded:.2e}", f"{off:.2e}", f"{rounded * 10:.2e}"))


# ---------------------------------------------------------------------------- number theory


def base_conversion(question: str) -> Solution:
    names = {"binary": 2, "octal": 8, "decimal": 10, "hexadecimal": 16}
    numbers = re.findall(r"base-(\d+)|\b(binary|octal|decimal|hexadecimal)\b", question)
    bases = [int(digits) if digits else names[name] for digits, name in numbers]
    digits = find(r"number ([0-9a-zA-Z]+) to", question)[1]
    value = int(digits, bases[-2])
    return Solution(in_base(value, bases[-1]), wrong=(in_base(value + 1, bases[-1]), in_base(value, bases[-1]) + "0"))


def in_base(value: int, base: int) -> str:
    digits = ""
    rest = value
    while rest:
        rest, digit = divmod(rest, base)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits or "0"


def count_bits(question: str) -> Solution:
    return whole(integers(find(r"number (\d+)", question)[1])[0].bit_count())


def is_prime(number: int) -> bool:
    return number > 1 and all(number % factor for factor in range(2, int(number**0.5) + 1))


def count_primes(question: str) -> Solution:
    low, high = map(int, find(r"between (\d+) and (\d+)", question).groups())
    return whole(sum(map(is_prime, range(low, high + 1))))


def prime_factorization(question: str) -> Solution:
    number = int(find(r"factorization of (\d+)", question)[1])
    factors: list[int] = []
    rest, factor = number, 2
    while rest > 1:
        while rest % factor == 0:
            factors.append(factor)
            rest //= factor
        factor = factor + 1 if factor * factor <= rest else rest
    text = " × ".join(map(str, factors))
    others = (" × ".join(map(str, reversed(factors))),)
    wrong = (" × ".join(map(str, [*factors, 2])), str(number) if len(factors) > 1 else str(number + 1))
    return Solution(text, others, wrong)


def greatest_common_divisor(question: str) -> Solution:
    return whole(gcd(*integers(question.split(":")[1])))


def least_common_multiple(question: str) -> Solution:
    return whole(lcm(*integers(question.split(":")[1])))


def fraction_simplification(question: str) -> Solution:
    """Reduce a fraction in plain or LaTeX notation, and keep the notation."""
    text = find(r"fraction (.*?) (?:to|in)", question)[1]
    top, bottom = integers(text)
    value = Fraction(top, bottom)
    new = f"{value.numerator}/{value.denominator}"
    wrong = [f"{value.numerator + 1}/{value.denominator}"]
    if value.denominator != bottom:
        wrong.append(f"{top}/{bottom}")
    return Solution(new, wrong=tuple(wrong))


# ---------------------------------------------------------------------------- lists of numbers


def quoted(values: list[str]) -> str:
    return "[" + ", ".join(f"'{value}'" for value in values) + "]"


def number_filtering(question: str) -> Solution:
    verb, side, limit = find(r"(Keep|Remove) all numbers (larger|smaller) than (-?[\d.]+)", question).groups()
    values = re.findall(r"'(-?[\d.]+)'", question)
    matching = [value for value in values if (Fraction(value) > Fraction(limit)) == (side == "larger")]
    equal = [value for value in values if Fraction(value) == Fraction(limit)]
    if equal:
        matching = [value for value in matching if value not in equal]
    kept = matching if verb == "Keep" else [value for value in values if value not in matching]
    rest = [value for value in values if value not in kept]
    return Solution(quoted(kept), wrong=(quoted(rest), quoted([*kept, *rest[:1]]) if rest else quoted(kept[1:])))


def number_sorting(question: str) -> Solution:
    listed = find(r"order: (.*?)\n", question)[1]
    values = re.findall(r"-?\d+(?:\.\d+)?", listed)
    descending = "descending order:" in question
    ordered = sorted(values, key=Fraction, reverse=descending)
    wrong = quoted(ordered[::-1])
    return Solution(quoted(ordered), wrong=(wrong,) if ordered[0] != ordered[-1] else (quoted(ordered[1:]),))


def number_format(question: str) -> Solution:
    words = find(r"candidates: (.*)", question)[1].split()
    choose = min if "the smallest" in question else max
    best = choose(words, key=_formatted)
    others = [word for word in words if _formatted(word) != _formatted(best)]
    return Solution(best, wrong=tuple(others[:2]))


def _formatted(word: str) -> Fraction:
    return Fraction(word.replace(",", ""))


LEGS = {
    0: "sea slug, snail, worm, leech, jellyfish, mollusk, slug, clam, octopus, squid, flatworm, fish, snake, whale",
    2: "chicken, bird, human, ostrich, duck, turkey, penguin, kangaroo",
    4: "cow, sheep, goat, horse, deer, elephant, giraffe, dog, cat, lion, tiger, pig, rabbit, bear, lizard, frog, "
    "turtle, camel, wolf, fox, rat, mouse, crocodile",
    5: "starfish, sea star, urchin",
    6: "beetle, ant, bee, wasp, grasshopper, cricket, cockroach, praying mantis, firefly, butterfly, dragonfly, "
    "mosquito, fly, moth, flea, ladybug, insect",
    8: "spider, scorpion, tick, mite",
    10: "crab, lobster, shrimp, woodlouse, crayfish",
    14: "woodlice, woodlouse",
}
"""Number of legs of each animal, from general knowledge. The questions also count arms and claws."""


def leg_counting(question: str) -> Solution:
    if "starfish" in question and "Count the arms of a starfish as legs" not in question:
        raise AmbiguousError("a starfish has arms")
    if re.search("crab|lobster", question.partition("if you have")[2]) and "Count the claws of crabs" not in question:
        raise AmbiguousError("crabs and lobsters have claws")
    animals = {name.strip(): legs for legs, names in LEGS.items() for name in names.split(",")}
    total = 0
    for count, name in re.findall(r"(\d+) ([a-z ]+?)(?:,|\?)", question):
        singular = name if name in animals else name.removesuffix("s")
        if singular not in animals:
            raise UnsolvedError(f"the legs of {name}")
        total += int(count) * animals[singular]
    return whole(total)


# ---------------------------------------------------------------------------- probability


def coin_flip(question: str) -> Solution:
    words = find(r"(exactly|at least|at most) (\d+) (heads|tails) in (\d+)", question)
    how, count, flips = words[1], int(words[2]), int(words[4])
    wanted = {
        "exactly": range(count, count + 1),
        "at least": range(count, flips + 1),
        "at most": range(count + 1),
    }[how]
    value = Fraction(sum(comb(flips, number) for number in wanted), 2**flips)
    return Solution(
        decimal_text(value) or "",
        (f"{value.numerator}/{value.denominator}",),
        (decimal_text(value * Fraction(11, 10)) or "", decimal_text(1 - value) or "")
        if value != Fraction(1, 2)
        else (decimal_text(value * Fraction(11, 10)) or "",),
    )


def dice(question: str) -> Solution:
    listed = question.split("What")[0]
    sides = [int(size) for number, size in re.findall(r"(\d+)d(\d+)", listed) for _ in range(int(number))]
    least = int(find(r"rolling (\d+) or higher", question)[1])
    ways = {0: 1}
    for size in sides:
        after: dict[int, int] = {}
        for total, number in ways.items():
            for face in range(1, size + 1):
                after[total + face] = after.get(total + face, 0) + number
        ways = after
    value = Fraction(sum(number for total, number in ways.items() if total >= least), prod(sides))
    text = f"{value.numerator}/{value.denominator}"
    return Solution(
        text, wrong=(f"{value.numerator + 1}/{value.denominator}", f"{value.denominator}/{value.numerator + 1}")
    )


# ---------------------------------------------------------------------------- the calendar

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)


def _dates(question: str) -> list[datetime.date]:
    """Return the dates in a question.

    Raises AmbiguousError if a date has a different weekday than the question says.
    """
    dates = []
    for weekday, month, day, year in re.findall(
        rf"(?:({'|'.join(WEEKDAYS)}),? )?({'|'.join(MONTHS)}) (\d+)(?:st|nd|rd|th)?, (\d+)", question
    ):
        date = datetime.date(int(year), MONTHS.index(month) + 1, int(day))
        if weekday and WEEKDAYS[date.weekday()] != weekday:
            raise AmbiguousError(f"{weekday} is not the weekday of {date}")
        dates.append(date)
    return dates


def calendar_arithmetic(question: str) -> Solution:
    if found := re.search(r"whether (\d+) is a leap|Is (\d+) a leap|(\d{4}) .*leap", question):
        year = int(next(filter(None, found.groups())))
        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        return Solution("Yes" if leap else "No", wrong=("No" if leap else "Yes",))
    month_and_day = rf"({'|'.join(MONTHS)}) (\d+)"
    for pattern in (
        rf"January 1 fell on a (\w+), which weekday occurs on {month_and_day}",
        rf"first day of the year was a (\w+), what day of the week will {month_and_day} be",
        rf"In a year where (\w+) is January 1st, name the weekday of {month_and_day}",
    ):
        if found := re.search(pattern, question):
            return _weekday_of_unknown_year(question, found[1], MONTHS.index(found[2]) + 1, int(found[3]))
    for pattern in (
        r"occurrences of (\w+day) from",
        r"how many times does (\w+day) occur",
        r"How many (\w+day)s are there",
    ):
        if found := re.search(pattern, question):
            wanted = WEEKDAYS.index(found[1])
            return whole(sum(day.weekday() == wanted for day in _span(question)))
    if "business days" in question or "excluding weekends" in question:
        return whole(sum(day.weekday() < 5 for day in _span(question)))
    if found := re.search(
        rf"(first|second|third|fourth|fifth|last) (\w+day) (?:in|of) ({'|'.join(MONTHS)}),? (\d+)", question
    ):
        return _ordinal_weekday(*found.groups())
    if found := re.search(rf"In ({'|'.join(MONTHS)}) (\d+), if an event recurs on the (\w+) (\w+day)", question):
        return _ordinal_weekday(found[3], found[4], found[1], found[2])
    if found := re.search(r"(\d+)[ -]days?\b", question):
        (date,) = _dates(question)
        days = int(found[1])
        back = re.search(r"\bbefore\b|\bprior\b|backward|\bago\b|earlier|[Ss]ubtract", question) is not None
        return _weekday(date + datetime.timedelta(days=-days if back else days))
    (date,) = _dates(question) or [_numeric_date(question)]
    return _weekday(date)


def _weekday(date: datetime.date) -> Solution:
    index = date.weekday()
    return Solution(WEEKDAYS[index], wrong=(WEEKDAYS[(index + 1) % 7], WEEKDAYS[(index + 3) % 7]))


def _weekday_of_unknown_year(question: str, first: str, month: int, day: int) -> Solution:
    answers = set()
    years = [2001, 2004]
    if "The year is not a leap year." in question:
        years = [2001]
    elif "The year is a leap year." in question:
        years = [2004]
    for year in years:
        offset = (datetime.date(year, month, day) - datetime.date(year, 1, 1)).days
        answers.add(WEEKDAYS[(WEEKDAYS.index(first) + offset) % 7])
    if len(answers) > 1:
        raise AmbiguousError("a leap year or not")
    answer = answers.pop()
    return Solution(answer, wrong=(WEEKDAYS[(WEEKDAYS.index(answer) + 1) % 7],))


def _numeric_date(question: str) -> datetime.date:
    if found := re.search(r"(\d{4})-(\d\d)-(\d\d)", question):
        return datetime.date(*map(int, found.groups()))
    first, second, year = map(int, find(r"(\d\d)/(\d\d)/(\d{4})", question).groups())
    if first <= 12 and second <= 12 and first != second and "(month/day/year)" not in question:
        raise AmbiguousError("month or day first")
    month, day = (first, second) if first <= 12 else (second, first)
    return datetime.date(year, month, day)


def _span(question: str) -> list[datetime.date]:
    """Return the number of days between the two dates of a question, including both.

    The first date may lack its year. Raises AmbiguousError if no pair of dates in order has the weekdays in the
    question.
    """
    named = re.findall(rf"({'|'.join(WEEKDAYS)}), ({'|'.join(MONTHS)}) (\d+)(?:, (\d+))?", question)
    if len(named) != 2:
        raise UnsolvedError("not two dates")
    last_year = int(named[1][3])
    first_years = [int(named[0][3])] if named[0][3] else [last_year - 1, last_year]
    spans = []
    for first_year in first_years:
        pair = []
        for (weekday, month, day, _), year in zip(named, (first_year, last_year), strict=True):
            date = datetime.date(year, MONTHS.index(month) + 1, int(day))
            if WEEKDAYS[date.weekday()] == weekday:
                pair.append(date)
        if len(pair) == 2 and pair[0] <= pair[1]:
            spans.append(pair)
    if len(spans) != 1:
        raise AmbiguousError("no two dates in order have these weekdays")
    first, last = spans[0]
    return [first + datetime.timedelta(days=offset) for offset in range((last - first).days + 1)]


def _ordinal_weekday(ordinal: str, weekday: str, month: str, year: str) -> Solution:
    days = []
    date = datetime.date(int(year), MONTHS.index(month) + 1, 1)
    while date.month == MONTHS.index(month) + 1:
        if WEEKDAYS[date.weekday()] == weekday:
            days.append(date.day)
        date += datetime.timedelta(days=1)
    if ordinal == "last":
        return whole(days[-1])
    number = ("first", "second", "third", "fourth", "fifth").index(ordinal)
    return whole(days[number] if number < len(days) else -1)


TIMES = (
    "%H:%M:%S.%f",
    "%H:%M:%S",
    "%H:%M",
)
DATES = ("%Y-%m-%d (%A)", "%A, %B %d, %Y", "%d %B %Y", "%Y-%m-%d", "%a %b %d %Y", "%B %d, %Y", "%m/%d/%Y")


def _moment(text: str) -> datetime.datetime:
    """Parse a date, a time or both, with or without a time zone."""
    formats = [*DATES, *TIMES]
    formats += [f"{date}{comma} {time}" for date in DATES for time in TIMES for comma in ("", ",", " at")]
    for layout in formats:
        for zone in ("", " %z"):
            try:
                return datetime.datetime.strptime(text.strip(), layout + zone)
            except ValueError:
                continue
    raise UnsolvedError(f"the time {text!r}")


def time_intervals(question: str) -> Solution:
    """Return the exact duration in the requested format, with a minus sign for negative durations."""
    span = find(
        r"(?:started at|began at|departed at|from|between) (.*?) "
        r"(?:and (?:completed|ended|arrived|finished) at|to|and) "
        r"(.*?)(?:\.(?: |$)|\?)",
        question,
    )
    if re.search(r"\d/\d", span[0]) and "month/day/year" not in question:
        raise AmbiguousError("month or day first")
    start, end = (_moment(text) for text in span.groups())
    milliseconds = round((end - start) / datetime.timedelta(milliseconds=1))
    if question.endswith("HH:MM.") and milliseconds % 60_000 and "Leave out the seconds" not in question:
        raise AmbiguousError("seconds left out or rounded")
    layout = find(r"(?:in|Answer in|Express the result in|Give your answer in) ([DH][^?]*?)\.?$", question)[1]
    return Solution(
        duration(milliseconds, layout),
        wrong=(duration(milliseconds + 86_400_000, layout), duration(milliseconds + 3_600_000, layout))
        if "D" in layout and "H" in layout
        else (duration(milliseconds + (86_400_000 if "D" in layout else 3_600_000), layout),),
    )


def duration(milliseconds: int, layout: str) -> str:
    sign = "-" if milliseconds < 0 else ""
    days, rest = divmod(abs(milliseconds), 86_400_000)
    text = []
    if "D" in layout:
        text.append(f"{days} days")
    else:
        rest += days * 86_400_000
    hours, rest = divmod(rest, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    seconds, milli = divmod(rest, 1000)
    clock = {
        "HH:MM:SS.mmm": f"{hours:02}:{minutes:02}:{seconds:02}.{milli:03}",
        "HH:MM:SS": f"{hours:02}:{minutes:02}:{seconds:02}",
    }
    clock["HH:MM"] = f"{hours:02}:{minutes:02}"
    text += [clock[name] for name in ("HH:MM:SS.mmm", "HH:MM:SS", "HH:MM") if layout.endswith(name)]
    return sign + ", ".join(text)
