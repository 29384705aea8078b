"""Types of answers that are numbers: in any notation, in a base, complex, rounded, as fractions, factors or roots."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
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
QUESTION_NAME = re.compile(r"\\?(?P<name>[A-Za-z]{2,10})\s?(?:\((?P<of>[-\d,. ]{1,1000})\))?\s?[=:](?P<value>[^=:]+)")
r"""A name for the value that is asked for: `GCD = 4`, `GCD: 4`, `\gcd(8, 12) = 4`."""
EQUATION = re.compile(r"(?P<left>[-\d.+*/^() \u00d7\u00f7\u22c5]{3,1000})=(?P<right>[^=]+)")
"""An expression of numbers and its value: `3 * 4 = 12`."""
CALCULATION = re.compile(r"(?:[-\d+/() .]|(?<!\*)\*(?!\*)){3,1000}")
"""A calculation without powers: `25 + 30 * (2 - 1)`."""
MAX_PARTS = 300
MAX_SIDES = 4
"""Sides of an equation such as `1/4 = 0.25 = 25%`."""
ROUNDED = re.compile(r"\s?\u2248\s?")
COUNTED = re.compile(r"(?:[Hh]ow many|number of)(?P<one> 1)?(?: \d+)?(?P<words>(?: [a-z-]+){1,4})")
"""The words after `how many`, the first of which name what the question counts; `1 bits` are ones too."""
NO_NOUNS = frozenset(
    {"are", "is", "was", "were", "do", "does", "did", "have", "has", "had", "in", "of", "to", "will", "would", "can"}
    | {"there", "that", "the", "a", "an", "you", "he", "she", "they", "it", "on", "at", "for", "with", "if", "per"}
    | {"and", "or", "not", "than", "as", "by", "from", "left", "more", "less", "fewer", "least", "most", "half", "no"}
)
"""Words that end the noun after `how many`, or say something about a number."""
MONEY = re.compile(r"\b(?:dollars?|costs?|prices?|money|pay|pays|paid|earns?|earned|spends?|spent|much)\b")
"""Words of a question about money."""


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
    said = _without_name(said, asked.question)
    *before, end = said.split("=", MAX_SIDES)
    last = _plain_value(end.strip(), asked.question)
    if last is None or any(_value_of_side(side.strip(), asked.question) != last.exact for side in before):
        return None
    parts = fraction_parts(end)
    if parts is not None and (parts[1] < 2 or math.gcd(*parts) != 1):
        return None  # 12/2 is a calculation, and 6/8 is not reduced
    return last


def _value_of_side(side: str, question: str) -> Fraction | None:
    """Return the value of a number or a calculation before an equals sign; None for other text."""
    value = _plain_value(side, question)
    if value is not None:
        return value.exact
    try:
        return evaluate_exactly(parse_expression(side, MAX_PARTS)) if CALCULATION.fullmatch(side) else None
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
        value = value_of(_without_rounding_sign(said), asked)
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


def probability(said: str, asked: Asked) -> str | None:
    """The type of probabilities: an exact fraction in any terms, or a number with three right digits or more."""
    said = _without_chance(_without_rounding_sign(said), asked.question)
    terms = asked.metadata["rational"]
    right = Fraction(terms["numerator"], terms["denominator"])
    *exact, last = _without_name(said, asked.question).split("=", MAX_SIDES)
    if any(_side_value(side, asked.question) != right for side in exact):
        return None
    parts = fraction_parts(last)
    if parts is not None:
        if parts[1] == 0:
            return None
        return asked.right if parts[1] > 0 and Fraction(*parts) == right else f"{parts[0]}/{parts[1]}"
    value = _plain_value(last.strip(), asked.question)
    if value is None:
        return None
    is_right = value.exact == Fraction(asked.right) or has_digits(value.notation, right, 3)
    return asked.right if is_right else value.notation


def _side_value(side: str, question: str) -> Fraction | None:
    value = _plain_value(side.strip(), question)
    return None if value is None else value.exact


def _without_rounding_sign(said: str) -> str:
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


def _plain_value(said: str, question: str) -> NumberValue | None:
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


def _without_name(said: str, question: str) -> str:
    """Return the value after the question's variable, angle, expression or name for the value.

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
    of_question = QUESTION_NAME.fullmatch(said)
    if of_question is not None and f"({of_question['name'].upper()})" in question:
        numbers = of_question["of"]
        is_asked = numbers is None or re.findall(r"\d+", numbers) == re.findall(r"\d+", question)
        return of_question["value"].strip() if is_asked else said
    equation = EQUATION.fullmatch(said)
    return equation["right"].strip() if equation is not None and _asks_for(equation["left"], question) else said


def _asks_for_angle(name: str, question: str) -> bool:
    """Tell whether a question asks for the angle with this name: `B` and `ABC` are the angle at B."""
    vertex = name[len(name) // 2]
    if re.search(rf"\bangle at {vertex}\b", question):
        return True
    asked = re.findall(r"(?:\bangle |\u2220)([A-Z]{3})\b", question)
    return any(name in (vertex, angle, angle[::-1]) and angle[1] == vertex for angle in asked)


def _asks_for(expression: str, question: str) -> bool:
    """Tell whether an expression of numbers is the whole expression that the question asks for."""
    left = _squeezed(expression)
    line = next((line for line in map(_squeezed, question.split("\n")) if left in line), "")
    start = line.find(left)
    if start < 0 or not re.search(r"\D", left[1:]):
        return False
    after = line[start + len(left) : start + len(left) + 2]
    return not re.match(r"[\d.+*/()-]", line[start - 1 : start]) and bool(re.match(r"=|\?|\.(?!\d)|$", after))


def _squeezed(said: str) -> str:
    return re.sub("[\u00d7\u22c5]", "*", re.sub(r"\s+", "", said)).replace("\N{DIVISION SIGN}", "/")


def fraction_parts(said: str) -> tuple[int, int] | None:
    """Return numerator and denominator as written; None for text that is no fraction."""
    match = next(filter(None, (pattern.fullmatch(said) for pattern in FRACTIONS)), None)
    if match is None:
        return None
    return int(re.sub("[ ,]", "", match["up"])), int(re.sub("[ ,]", "", match["down"]))


THROWN = (
    r"(?i:[a-z](?:_\{?[a-z]{1,5}\}?)?"
    r"|(?:(?:the|of|all|these|sum|total|score|value|outcome|rolls?|rolling|dice|result|heads|tails|number) ?)+)"
)
"""What is thrown, as a random variable or in words: `X`, `sum of dice`."""
CHANCE = re.compile(
    r"(?:\\?(?:Pr|P)|\\mathbb\{P\})"
    rf"(?:\((?:{THROWN}\s?(?P<relation>\u2265|>=|\\geq?(?![a-z])|=)\s?(?P<number>\d{{1,9}})"
    r"|(?P<words>(?:(?:at least|exactly) )?\d{1,9}(?: or higher| heads| tails)?))\))?\s?=\s?(?P<value>[^=]+(?:=[^=]+)*)"
)
r"""The name of a chance: `P = `, `P(X \geq 23) = `, `\Pr(at least 3 heads) = `."""
ASKED_CHANCE = re.compile(
    r"\b(?P<words>(?P<number>\d+) or higher|(?P<relation>at least|exactly) (?P<count>\d+) (?:heads|tails))\b"
)
"""The event whose chance a question asks for."""
IN_PARENTHESES = re.compile(r"(?P<exact>[^()]+|\(.*\))\s?\((?P<rounded>\u2248[^()]+)\)")
"""A value with its rounding behind it in parentheses: `3/4 (\u2248 0.75)`."""


def fraction(said: str, asked: Asked) -> str | None:
    """The type of reduced fractions: also after fractions of the same value, and before a rounded value of it.

    The name of the chance that a question asks for may stand before it. Questions ask for reduced fractions, so `6/8`
    is not `3/4`.
    """
    said = _without_chance(said, asked.question)
    rounded = IN_PARENTHESES.fullmatch(said)
    if rounded is not None:
        said = rounded["exact"].strip() + rounded["rounded"]
    exact, sign, decimal = said.partition("\N{ALMOST EQUAL TO}")
    sides = [fraction_parts(side.strip()) for side in exact.split("=", MAX_SIDES)]
    last = sides[-1]
    if last is None or last[1] == 0 or any(not side or side[0] * last[1] != last[0] * side[1] for side in sides):
        return None
    if sign and not _is_rounding(decimal.strip(), Fraction(*last)):
        return None
    right = fraction_parts(asked.right.strip("$").strip())
    if right is None:  # LaTeX of the expected answer
        match = re.search(r"\{(\d+)\}\{(\d+)\}", asked.right)
        right = (int(match[1]), int(match[2])) if match else None
    return asked.right if last == right else f"{last[0]}/{last[1]}"


def _without_chance(said: str, question: str) -> str:
    """Return the value after the name of the chance that a question asks for; another text as it is."""
    chance, asked = CHANCE.fullmatch(said), ASKED_CHANCE.search(question)
    if chance is None or asked is None:
        return said
    if chance["number"] is not None:
        is_asked = chance["number"] == (asked["number"] or asked["count"])
        is_asked = is_asked and (chance["relation"] == "=") == (asked["relation"] == "exactly")
    else:
        is_asked = chance["words"] is None or chance["words"] == asked["words"]
    return chance["value"].strip() if is_asked else said


def _is_rounding(decimal: str, exact: Fraction) -> bool:
    """Tell whether a decimal number or a percentage is a value that is rounded or cut to its places."""
    if decimal.endswith("%"):
        decimal, exact = decimal[:-1].strip(), exact * 100
    if not re.fullmatch(r"-?\d{0,9}\.\d{1,9}", decimal, re.ASCII):
        return False
    return abs(Fraction(decimal) - exact) < Fraction(1, 10 ** len(decimal.partition(".")[2]))


LOWERED = str.maketrans("\u2080\u2081\u2082\u2083\u2084\u2085\u2086\u2087\u2088\u2089", "0123456789")
DIGITS_IN_BASE = re.compile(
    r"(?P<bracket>\()?(?P<sign>[-+]?)(?P<prefix>0[xbo])?(?P<digits>[0-9a-zA-Z]{1,400})(?(bracket)\))"
    r"(?:_(?P<brace>\{)?(?P<base>\d{1,2})(?(brace)\})|(?P<lowered>[\u2080-\u2089]{1,2})"
    r"|\s?(?P<round>\()?(?:in )?base[- ]?(?P<named>\d{1,2})(?(round)\)))?"
)
"""Digits with their base or without: `651_7`, `(651)_{7}`, `651\u2087`, `651 (base 7)`, `0x28b`."""
GROUPED_DIGITS = re.compile(
    r"-?(?:[0-9a-zA-Z]{1,3}(?P<three>[ ,_'~]|\{,\})[0-9a-zA-Z]{3}(?:(?P=three)[0-9a-zA-Z]{3}){0,100}"
    r"|[0-9a-zA-Z]{1,4}(?P<four>[ ,_'~]|\{,\})[0-9a-zA-Z]{4}(?:(?P=four)[0-9a-zA-Z]{4}){0,100})",
    re.ASCII,
)
"""Digits in groups of three or four: `1,275`, `1{,}275`, `1010 0110`."""
BASES: Mapping[str, str] = {"binary": "2", "hexadecimal": "16"}
PREFIXES: Mapping[str, str] = {"0b": "2", "0o": "8", "0x": "16"}


BASE_NAME = re.compile(
    r"(?i:(?:the )?(?:final )?(?:(?:in )?base[- ]?(?P<base>\d{1,2})|(?P<word>binary|octal|hex(?:[ai]?decimal)?))"
    r"(?: (?:number|value|result|form|representation|notation))?(?:\s?[:=]| is[ :]))\s?(?P<digits>\S.*)"
)
"""The name of a base before digits: `Hexadecimal: f1`, `Base 5: 121`, `In base-5: 121`, `Hex value = f1`."""


def digits(said: str, asked: Asked) -> str | None:
    """The type of digits in the base that the question asks for; another base beside them makes another number."""
    target = asked.question.rpartition(" to ")[2].split()
    base = BASES.get(target[0], target[0].removeprefix("base-")) if target else ""
    named = BASE_NAME.fullmatch(said)
    if named is None:
        return _digits_in(said, base)
    return _digits_in(named["digits"], base) if _named_base(named) == base else None


def _named_base(name: re.Match[str]) -> str:
    return name["base"] or {"b": "2", "o": "8", "h": "16"}[name["word"][0].lower()]


def _digits_in(said: str, base: str) -> str | None:
    if GROUPED_DIGITS.fullmatch(said):
        said = re.sub("[ ,_'~{}]", "", said)
    match = DIGITS_IN_BASE.fullmatch(said)
    if match is None:
        return None
    if match["prefix"] and PREFIXES[match["prefix"]] != base:
        # In a base of letters, 0b1 may be three digits.
        return said if not (match["base"] or match["lowered"] or match["named"]) else None
    named = match["base"] or match["named"] or (match["lowered"] or "").translate(LOWERED)
    return match["sign"].replace("+", "") + match["digits"] if named in ("", base) else None


BASE_16 = r"(?:_\{?16\}?|\s?\(?(?:in )?base[- ]16\)?)"
HEXADECIMAL = re.compile(
    rf"(?P<sign>[-+]?)(?:0[xX]|(?=[0-9a-fA-F]{{1,400}}{BASE_16}\Z))(?P<digits>[0-9a-fA-F][0-9a-fA-F_]{{0,400}}?){BASE_16}?"
)
"""A hexadecimal number with its prefix, its base or both: `-0x3f`, `0X3F_{16}`, `3f (base 16)`."""


def hexadecimal(said: str, asked: Asked) -> str | None:
    """The type of hexadecimal numbers with their prefix or their base."""
    named = BASE_NAME.fullmatch(said)
    if named is not None:
        said = named["digits"] if re.search("[xX_(]", named["digits"]) else f"{named['digits']} base 16"
    match = HEXADECIMAL.fullmatch(said) if named is None or _named_base(named) == "16" else None
    if match is None:
        return None
    value = int(match["sign"] + match["digits"].replace("_", ""), 16)
    return asked.right if value == int(asked.right, 16) else hex(value)


PART_OF_COMPLEX = r"[-+]?\s?\d{1,50}(?:,\d{3})*(?:\.\d{0,50})?(?:[eE][-+]?\d{1,2})?"
COMPLEX = re.compile(
    rf"(?:[a-z]\s?=\s?)?(?:(?P<real>{PART_OF_COMPLEX})(?![\d.])\s?(?=[-+]|\Z))?(?:\+\s?(?=-))?"
    rf"(?P<imaginary>(?:[-+]\s?)?(?:{PART_OF_COMPLEX})?)(?:\s?[*\u22c5\u00b7\u00d7]?\s?(?P<unit>[ijIJ]))?(?:\s?(?P<last>[-+]\s?{PART_OF_COMPLEX}))?"
)
"""A complex number: `4 - 7i`, `4 + -7*j`, `-7i + 4`, `i`, `4`."""
COMPLEX_CALL = re.compile(rf"complex\((?P<real>{PART_OF_COMPLEX}),\s?(?P<imaginary>{PART_OF_COMPLEX})\)")


def complex_number(said: str, asked: Asked) -> str | None:
    """The type of complex numbers: a real part, an imaginary part before i or j, or both, in either order."""
    match = COMPLEX_CALL.fullmatch(said)
    is_call = match is not None
    match = match or COMPLEX.fullmatch(said)
    if match is None:
        return None
    parts = {name: re.sub(r"[\s,]", "", match[name] or "") for name in match.re.groupindex if name != "unit"}
    if is_call or match["unit"]:
        imaginary = parts["imaginary"]
        real = parts["real"] or parts.get("last", "")
        if parts["real"] and parts.get("last"):
            return None
        if imaginary in ("", "+", "-"):
            imaginary += "1"
        if parts["real"] and not is_call and imaginary[0] not in "+-":
            return None  # two numbers side by side
    else:
        if (parts["real"] and parts["imaginary"]) or parts["last"] or not (parts["real"] or parts["imaginary"]):
            return None
        real, imaginary = parts["real"] or parts["imaginary"], "0"
    if real in ("+", "-"):
        return None
    values = [Fraction(real or "0"), Fraction(imaginary)]
    if values == [Fraction(part) for part in asked.metadata["result"]]:
        return asked.right
    return f"{real or '0'}{'' if imaginary[0] in '+-' else '+'}{imaginary}i"


POINT = re.compile(
    r"(?:[A-Za-z]\s?=?\s?)?(?:(?P<round>\()|(?P<square>\[))?\s?(?:x\s?=\s?)?(?P<x>[^\s,()\[\]]{1,100})\s?,\s?(?:y\s?=\s?)?"
    r"(?P<y>[^\s,()\[\]]{1,100})\s?(?(round)\))(?(square)\])"
)
"""A point with its name: `H = (1.5, -2)`, `[1.5, -2]`, `x = 1.5, y = -2`."""
FLOAT_ERROR = Fraction(1, 10**9)
"""Relative error of right values that are calculated with floating-point numbers, far below the digits asked for."""


def measure(said: str, asked: Asked) -> str | None:
    """The type of an angle, a point or a length, right to the decimals that the question asks for."""
    kind = asked.metadata["task_type"]
    if kind == "orthocenter":
        point = POINT.fullmatch(said)
        expected = POINT.fullmatch(asked.right)
        if point is None or expected is None or not all(map(NUMBER.fullmatch, point.group("x", "y"))):
            return None
        exact = map(Fraction, asked.metadata["ortho"])
        pairs = zip(point.group("x", "y"), expected.group("x", "y"), exact, strict=True)
        is_right = all(_is_measured(part, shown, value, places=3) for part, shown, value in pairs)
        return asked.right if is_right else f"({point['x']}, {point['y']})"
    value = value_of(_without_rounding_sign(said), asked)
    if value is None:
        return None
    is_angle = kind == "angle_measure"
    exact_value = Fraction(asked.metadata["angle_ABC_degrees" if is_angle else "incircle_radius_approx"])
    shown = asked.right.rstrip("\N{DEGREE SIGN}")
    if not is_angle and re.search("\N{DEGREE SIGN}|deg", said):
        return None
    # The question asks for three decimals; of an angle, the library expects two.
    is_right = _is_measured(value.notation, shown, exact_value, places=2 if is_angle else 3)
    return asked.right if is_right else value.notation + ("\N{DEGREE SIGN}" if is_angle else "")


def _is_measured(said: str, shown: str, exact: Fraction, places: int) -> bool:
    """Tell whether a number is the expected one, or the exact value rounded to so many places or more."""
    if not NUMBER.fullmatch(said):
        return False
    return Fraction(said) == Fraction(shown) or rounds(said, exact, places=places, error=FLOAT_ERROR)


BETWEEN_FACTORS = re.compile(rf"\s?{TIMES}\s?")


def factors(said: str, asked: Asked) -> str | None:
    """The type of `2 x 2 x 3`: whole numbers with signs of multiplication, also after their product."""
    product, equals, right_side = said.rpartition("=")
    numbers = [_whole(part) for part in BETWEEN_FACTORS.split(right_side.strip())]
    found = [number for number in numbers if number is not None]
    if len(found) < len(numbers) or len(found) > 200:
        return None
    if equals and _whole(product.strip()) != math.prod(found):
        return None
    written = " \N{MULTIPLICATION SIGN} ".join(map(str, found))
    right = [int(part) for part in re.findall(r"\d+", asked.right)]
    return asked.right if sorted(found) == sorted(right) else written


def _whole(said: str) -> int | None:
    return int(re.sub("[, ]", "", said)) if WHOLE_NUMBER.fullmatch(said) and said[:1] != "-" else None


TERM = re.compile(r"(?P<sign>[-+]?)(?P<factor>\d*)\*?(?P<name>[A-Za-z]?)(?:\*\*(?P<power>\d+))?")
"""A term of a polynomial without blanks: `-69*m**2`, `m`, `140`."""
ROOT_NAME = re.compile(
    r"(?P<name>[A-Za-z])(?:_\{?\d{1,2}\}?|\d{1,2}|[\u2080-\u2089]{1,2})?\s?(?:[:=\u2248]|\u2208(?=\s?\{))\s?|\u2248\s?"
)
"""The name before a root: `x = `, `x_1: `, `x \u2208 ` before a set; roots are rounded, so also `x \u2248 `."""
BETWEEN_ROOTS = re.compile(r"[,;]\s*(?:(?:and|or)\b)?|[,;]?\n|\b(?:and|or)\b")


def roots(said: str, asked: Asked) -> str | None:
    """The type of all roots of a polynomial, in any order, each rounded or cut to four decimals.

    The question asks to round, and to round down where the fifth decimal is 5 or more.
    """
    names: set[str | None] = set()
    said = _without_root_name(said, names)
    if (said[:1], said[-1:]) in (("[", "]"), ("{", "}"), ("(", ")")):
        said = said[1:-1]
    values = []
    for part in BETWEEN_ROOTS.split(said.rstrip(",; \n")):
        value = _without_root_name(part.strip(), names)
        quoted = re.fullmatch(r"([\"'])(.*)\1", value)
        values.append(re.sub(r"^-\s(?=[\d.])", "-", quoted[2] if quoted else value))
    if len(names - {None}) > 1 or not all(map(NUMBER.fullmatch, values)):
        return None
    expected = sorted(Fraction(str(root)) for root in asked.metadata["real_solutions"])
    if len(values) == len(expected):
        terms = _terms(str(asked.metadata["polynomial_expr"]))
        pairs = zip(sorted(values, key=Fraction), expected, strict=True)
        if all(Fraction(value) == root or _is_root(value, root, terms) for value, root in pairs):
            return asked.right
    return ", ".join(values)


def _without_root_name(said: str, names: set[str | None]) -> str:
    match = ROOT_NAME.match(said)
    if match is None:
        return said
    names.add(match["name"])
    return said[match.end() :]


def _terms(polynomial: str) -> dict[int, Fraction]:
    """Return the coefficients of a polynomial by power."""
    terms: dict[int, Fraction] = {}
    for match in TERM.finditer(polynomial.replace(" ", "")):
        if match["factor"] or match["name"]:
            power = int(match["power"] or 1) if match["name"] else 0
            terms[power] = terms.get(power, Fraction(0)) + Fraction(match["sign"] + (match["factor"] or "1"))
    return terms


def _is_root(said: str, expected: Fraction, terms: Mapping[int, Fraction]) -> bool:
    """Tell whether a number is an expected root, rounded or cut. Newton's steps make the expected root exact."""
    root = float(expected)
    for _ in range(3):
        value = sum(float(factor) * root**power for power, factor in terms.items())
        slope = sum(power * float(factor) * root ** (power - 1) for power, factor in terms.items() if power)
        if slope == 0.0:
            return False
        root -= value / slope
    exact = Fraction(root)
    places = 4  # that the questions ask for
    unit = Fraction(1, 10**places)
    if abs(exact - expected) > unit:
        return False
    cut = math.trunc(exact / unit) * unit
    return Fraction(said) == cut or rounds(said, exact, places=places, error=FLOAT_ERROR)


DAYS = re.compile(r"(?P<days>\d{1,9})(?:\s+days?|\s?d)?", re.IGNORECASE)
CLOCK = re.compile(
    r"(?:(?P<days>\d{1,9})(?:(?:\s+days?|\s?d)(?:,? and|,)?\s{0,2}|\s))?"
    r"(?P<hours>\d{1,9}):(?P<minutes>\d\d)(?::(?P<seconds>\d\d(?:\.\d{1,9})?))?",
    re.IGNORECASE,
)


def duration(said: str, asked: Asked) -> str | None:
    """The type of `3 days`, `04:05` and `3 days, 04:05:06.789`; days may be `3D`, as questions call them, or `3`."""
    match = DAYS.fullmatch(said) or CLOCK.fullmatch(said)
    if match is None:
        return None
    if _seconds(match) == _seconds(DAYS.fullmatch(asked.right) or CLOCK.fullmatch(asked.right)):
        return asked.right
    if match.re is DAYS:
        return f"{match['days']} days"
    clock = said[match.start("hours") :]
    return f"{match['days']} days, {clock}" if match["days"] else clock


def _seconds(match: re.Match[str] | None) -> Fraction:
    if match is None:
        raise ValueError("the expected answer is no duration")
    days = 86_400 * int(match["days"] or 0)
    if match.re is DAYS:
        return Fraction(days)
    return days + 3600 * int(match["hours"]) + 60 * int(match["minutes"]) + Fraction(match["seconds"] or 0)


def numbers(said: str, asked: Asked) -> str | None:
    """The type of lists of numbers, quoted or not, in brackets or not, compared by their values in order."""
    found = _listed(said)
    if found is None:
        return None
    right = _listed(asked.right)
    if right is not None and [Fraction(item) for item in found] == [Fraction(item) for item in right]:
        return asked.right
    return json.dumps(found)


def _listed(said: str) -> list[str] | None:
    """Return the numbers of a list as they are written; None for other text."""
    match = re.fullmatch(r"(?s)\[(?P<square>[^\[\]()]*)\]|\((?P<round>[^\[\]()]*)\)|(?P<bare>[^\[\]()]+)", said)
    if match is None:
        return None
    inner = next((group for group in match.groups() if group is not None), "").strip()
    if not inner:
        return [] if match["bare"] is None else None
    inner = inner.removesuffix(",")
    items = [item.strip() for item in (inner.split(",") if "," in inner else inner.split())]
    values = [item[1:-1] if len(item) > 2 and item[0] == item[-1] and item[0] in "\"'`" else item for item in items]
    return values if all(map(NUMBER.fullmatch, values)) else None
