"""Read an answer as a number, a fraction, digits in a base, a complex number, a point, factors or an expression."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import gcd

from ...library_facts import FACTS, READ_AS_VALUES, AnswerForm
from ..decoration.brackets import are_nested

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
    r"(?:\\?(?P<currency>[$\u20ac\u00a3]))?(?P<sign>[-+]?)\s?"
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
ANGLE_NAME = re.compile(r"(?:\u2220|\\angle|[Aa]ngle)\s?(?P<name>[A-Z](?:[A-Z]{2})?)\s?=\s?")
r"""The name of an angle: `\u2220ABC = `, `\angle B = `, `Angle B = `."""
VARIABLE_NAME = re.compile(r"(?P<name>[A-Za-z])\s?:\s?")
"""The name of a variable that the question asks for: `x: `."""
ASKED_VARIABLE = re.compile(r"(?:\bvalue of|\b[Ss]olve for) (?P<name>[a-z])\b(?=:| in | that )")
"""The variable whose value a question asks for."""
NAMED_VARIABLE = re.compile(r"(?:[a-z]\()?(?P<name>[a-wyz])\)?(?:_\d{1,2})?\s?=(?!=)")
"""A variable before its value: `h = `, `f(h) = `. Any value may be called x."""
ROUNDED = re.compile(r"\s?(?:\u2248|\\approx(?![a-z]))\s?")
"""The sign before a rounded number."""
NAME_OF_VALUE = re.compile(r"\A(?:[A-Za-z](?:_?\d|\([A-Za-z]\))?\s?)?=\s?")
"""What stands before a single value: `r = ` and `= `, but no word."""
DIGITS_IN_BASE = re.compile(
    r"(?P<bracket>\()?(?P<sign>-?)(?P<prefix>0[xbo])?(?P<digits>[0-9a-zA-Z]{1,400})(?(bracket)\))"
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
NUMBERED_POINT = re.compile(
    r"(?:[A-Za-z]\s?=?\s?)?(?:(?P<round>\()|(?P<square>\[))?\s?(?:x\s?=\s?)?(?P<x>[^\s,()\[\]]{1,100})\s?,\s?(?:y\s?=\s?)?(?P<y>[^\s,()\[\]]{1,100})\s?"
    r"(?(round)\))(?(square)\])"
)
"""A point with its name: `H = (1.5, -2)`, `[1.5, -2]`, `x = 1.5, y = -2`."""


def as_expression(said: str) -> str:
    if not are_nested(said):
        return said
    said = LATEX_FRACTION.sub(r"((\1)/(\2))", said)
    if ARITHMETIC.fullmatch(said):
        said = said.replace("x", "*")
    for sign, python in SIGNS.items():
        said = said.replace(sign, python)
    return said


def as_factors(said: str) -> str | None:
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


def as_number(said: str, right: str, question: str) -> str | None:
    """Return the expected answer for a number of the same value, else the number in a plain notation.

    The verifier may accept the plain notation of a number that is not exactly the expected one. Of `1/32 = 0.03125` the
    last side counts, if the others are right. None for other text.
    """
    said = _without_question(said, question)
    angle = ANGLE_NAME.match(said)
    if angle is not None and _asks_for_angle(angle["name"], question):
        said = said[angle.end() :]
    variable = VARIABLE_NAME.match(said)
    if variable is not None and re.search(rf"\b(?:for|of) {variable['name']}\b", question):
        said = said[variable.end() :]
    *equal, last = said.split("=") if said.count("=") < MAX_SIDES else (said,)
    if equal and all(_equals(side.strip(), right, question) for side in equal):
        said = last.strip()
    degrees = "\N{DEGREE SIGN}" if right.endswith("\N{DEGREE SIGN}") else ""
    value = Fraction(right.removesuffix("\N{DEGREE SIGN}"))
    parts = fraction_parts(said)
    if parts is not None:
        above, below = map(int, parts)
        if below < 2 or gcd(above, below) != 1:
            return None
        return right if Fraction(above, below) == value else f"{above}/{below}"
    plain = _plain_number(said, question)
    if plain is None:
        return None
    return right if Fraction(plain) == value else plain + degrees


def names_other_variable(said: str, question: str) -> bool:
    """Tell whether an answer gives a value to another variable than the one that the question asks for."""
    asked = ASKED_VARIABLE.search(question)
    named = NAMED_VARIABLE.match(said)
    return asked is not None and named is not None and not re.match(rf"{asked['name']}\s?=", said)


def _asks_for_angle(name: str, question: str) -> bool:
    """Tell whether a question asks for the angle with this name: `B` and `ABC` are the angle at B."""
    vertex = name[len(name) // 2]
    if re.search(rf"\bangle at {vertex}\b", question):
        return True
    asked = re.findall(r"(?:\bangle |\u2220)([A-Z]{3})\b", question)
    return any(name in (vertex, angle, angle[::-1]) and angle[1] == vertex for angle in asked)


def _equals(side: str, right: str, question: str) -> bool:
    """Tell whether a side of an equation has the right value: a number, or a fraction in any terms but no `12/2`."""
    parts = fraction_parts(side)
    if parts is not None:
        above, below = map(int, parts)
        value = Fraction(right.removesuffix("\N{DEGREE SIGN}"))
        return below > 0 and above % below != 0 and Fraction(above, below) == value
    return as_number(side, right, question) == right


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
    if match["currency"] and not _asks_for_money(match["currency"], question):
        return None
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
    return (
        FACTS.get(task, READ_AS_VALUES).reads_as is not AnswerForm.EXPRESSION
        and NEGATIVE_NOUGHT.search(text) is not None
    )


NO_UNITS = frozenset(
    {"not", "no", "or", "and", "is", "are", "true", "false", "wrong", "if", "unless", "except", "without", "to", "than"}
    | {"max", "min", "maximum", "minimum", "largest", "smallest", "first", "last"}
    | {"more", "less", "fewer", "least", "most", "about", "around", "between", "plus", "minus", "half", "twice"}
    | {"hundred", "thousand", "million", "dozen", "binary", "decimal", "hexadecimal", "octal", "base", "squared"}
    | {"again", "maybe", "perhaps", "probably", "possibly", "nearly", "almost", "else", "instead", "other", "another"}
    | {"the", "there", "of", "as", "what", "who", "how", "your", "their", "his", "her", "its", "it", "that", "this"}
    | {"do", "does", "did", "has", "have", "will", "answer", "result", "final"}
    | {"incorrect", "error", "never", "none", "but", "then", "too", "also", "only", "at", "in", "off"}
)
"""Words of questions that say something about a number before them, as in `1 is false` and `19 in binary`."""


ASKED_FOR = re.compile(r"(?:[Hh]ow many|number of)((?: \w+){1,4})")
"""The words after `how many`, among which is what the question counts."""


MONEY = re.compile(r"\b(?:dollars?|costs?|prices?|money|pay|pays|paid|earns?|earned|spends?|spent|much)\b")
"""Words of a question about money."""


def _asks_for_money(currency: str, question: str) -> bool:
    """Tell whether a question is about money of this currency, and does not count things."""
    if currency in question:
        return True
    return currency == "$" and MONEY.search(question) is not None and not ASKED_FOR.search(question)


UNITS = frozenset(
    {"second", "minute", "hour", "day", "weekday", "week", "month", "year", "cent", "dollar", "percent", "point"}
    | {"inch", "inches", "feet", "foot", "yard", "mile", "meter", "metre", "kilometer", "km", "cm", "mm", "degree"}
    | {"pound", "ounce", "gram", "kg", "kilogram", "ton", "liter", "litre", "gallon", "cup", "unit", "time"}
)
"""Units of measure in singular. A question without `how many` has other words that are no units, as in `7 sides`."""


def _is_asked_for(unit: str | None, question: str) -> bool:
    """Tell whether the words after a number are the question's own, in singular or plural.

    A letter is no word, and neither is a name with a capital, such as a weekday.
    """
    if not unit or unit == "%":
        return True
    if unit in ("\N{DEGREE SIGN}", "deg"):
        return "\N{DEGREE SIGN}" in question or "degree" in question
    asked = " ".join(ASKED_FOR.findall(question))
    words = {_singular(word) for word in re.findall(r"\b[a-z]{2,}", asked or question) if word not in NO_UNITS}
    if not asked:
        words &= UNITS
        if "$" in question:
            words.add("dollar")
    return all(_singular(word) in words for word in unit.casefold().split())


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


def fraction_parts(text: str) -> list[str] | None:
    """Return numerator and denominator as written, without separators; None for text that is no fraction.

    Questions ask for reduced fractions, so `6/8` is not `3/4`.
    """
    if len(text) > 1 and text[0] == text[-1] == "$":
        text = text[1:-1].strip()
    match = next(filter(None, (pattern.fullmatch(text) for pattern in FRACTIONS)), None)
    return None if match is None else [re.sub("[ ,]", "", match["up"]), re.sub("[ ,]", "", match["down"])]


def reduced_side(said: str) -> str:
    """Return the fraction to which another is reduced, without a rounded value: `3/4` of `6/8 = 3/4 \u2248 0.75`."""
    exact, sign, rounded = said.partition("\N{ALMOST EQUAL TO}")
    if sign:
        parts = fraction_parts(exact.rpartition("=")[2].strip())
        if parts is None or not _is_rounding(rounded.strip(), parts):
            return said
        said = exact.strip()
    left, _, right = said.partition("=")
    whole, reduced = fraction_parts(left.strip()), fraction_parts(right.strip())
    if whole is None or reduced is None:
        return said
    return right.strip() if int(whole[0]) * int(reduced[1]) == int(reduced[0]) * int(whole[1]) else said


def _is_rounding(decimal: str, parts: Sequence[str]) -> bool:
    """Tell whether a decimal number is a fraction that is rounded or cut to its places."""
    if not re.fullmatch(r"-?\d{0,9}\.\d{1,9}", decimal, re.ASCII) or int(parts[1]) == 0:
        return False
    places = len(decimal.partition(".")[2])
    return abs(Fraction(decimal) - Fraction(int(parts[0]), int(parts[1]))) < Fraction(1, 10**places)


def as_digits(said: str, right: str, question: str) -> str | None:
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
    if base != (match["base"] or match["named"] or lowered) or PREFIXES.get(match["prefix"], base) != base:
        return None
    return match["sign"] + prefix + match["digits"]


def as_complex(said: str) -> str:
    called = COMPLEX_CALL.fullmatch(said)
    if called is not None:
        return f"{called['real']}{called['sign'] or '+'}{called['part']}i"
    turned = TURNED_COMPLEX.fullmatch(said)
    if turned is not None:
        sign = "" if turned["imaginary"][0] in "+-" else "+"
        said = f"{turned['real'].replace(' ', '')}{sign}{turned['imaginary']}"
    return PLUS_MINUS.sub("-", IMAGINARY.sub("", COMMA_OF_THOUSANDS.sub("", said)))


def as_point(said: str) -> str | None:
    """Return two numbers as `(x, y)`; None for other text."""
    match = NUMBERED_POINT.fullmatch(said)
    if match is None or not all(NUMBER.fullmatch(match[number]) for number in ("x", "y")):
        return None
    return f"({match['x']}, {match['y']})"
