"""Solve word problems.

A phrase identifies the story, and the numbers of the text are used in order. Each story has a formula. `gsm_symbolic`
has 85 stories with different names and numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction

from .contract import AmbiguousError, Solution, UnsolvedError, find

NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?(?:/\d+)?")
Numbers = list[Fraction]
DAYS = {"week": 7, "month of 30 days": 30}
WEEK = 7
MONTHS = 12
HOUR = 60
DOZEN = 12


def _percent(part: Fraction) -> Fraction:
    return part / 100


def _same_story_twice(n: Numbers) -> Fraction:
    """Count the letters of full and partial alphabets, twice. Questions give no number for the Latin alphabet."""
    n = [Fraction(26), *n] if len(n) == 2 else n
    return 2 * n[0] * (n[1] + n[2])


def _popcorn(n: Numbers) -> Fraction:
    first, second, third = n[0], n[2], n[4]
    last = third / 2
    return first * (1 + second + third + last + last / 4)


def _television(n: Numbers) -> Fraction:
    monday, minutes, thursday, short, friday, total = n[:6]
    on_wednesday = total - 2 * monday - thursday - short / HOUR - 2 * friday
    return on_wednesday * HOUR / minutes


def _fundraiser(n: Numbers) -> Fraction:
    first, fewer, more, others, price, other_price = n
    return (first + first + more) * price + (others - fewer + others) * other_price


def _walk(n: Numbers) -> Fraction:
    whole, beach, sidewalk, minutes = n[:4]
    assert whole == beach + sidewalk
    return minutes + sidewalk * minutes / beach / 2


def _collection(n: Numbers) -> Fraction:
    _, first, apartments, bigger, others, times, price = n
    assert first == others
    return first * apartments * (2 + _percent(bigger)) * times * price


def _hunt(n: Numbers) -> Fraction:
    dozens, first, times, less, part = n
    third = first * times - less
    return dozens * DOZEN - first - first * times - third - third * part


STORIES: dict[str, Callable[[Numbers], Fraction]] = {
    "to peel and saute": lambda n: n[3] / n[0] + n[3] * n[2] / n[1],
    "tube of bouncy balls": lambda n: n[3] - n[0] - n[1] - n[2],
    "need to leave early today": lambda n: n[0] * (_percent(n[1]) + (1 - _percent(n[1])) * _percent(n[2])),
    "was a pen pal": lambda n: (n[0] - n[1]) * n[2] * n[3] * n[4] / HOUR,
    "can decorate": lambda n: n[0] * n[1] / n[2],
    "collecting signatures": lambda n: n[4] - n[1] - n[2],
    "girls in .* times (?:the number of|as many) boys": lambda n: n[0] * (1 + n[1]),
    "avid gardener": lambda n: n[0] + (n[1] - n[3]) * n[2],
    "using teaspoons of sugar and cups": lambda n: n[2] * n[0] / (n[0] + n[1]),
    "bills. He buys": lambda n: n[0] * n[1] - n[2] * n[3] - n[4] * n[5],
    "times as old as": lambda n: n[0] * n[2] - n[1],
    "combined total of": lambda n: n[1] * n[0] + n[1] + n[2] + n[2] - n[3],
    "playing these games": lambda n: n[0] * n[2] + n[1] * n[3],
    "biggest waterslide": lambda n: n[0] / n[1] - n[2] / n[3],
    "wants to exercise for": lambda n: n[0] * (n[1] + n[2]),
    "shopping for some athletic gear": lambda n: n[0] + n[0] + n[1] + n[2] / 2 + n[4] - n[3],
    "times as many .* friends": lambda n: n[2] / n[0] * n[1],
    "patients are admitted": lambda n: n[0] * (1 - n[1]) - n[2] * WEEK * n[3],
    "points in one game": lambda n: n[0] + n[1] + _percent(n[2]) * n[0],
    "popping popcorn": _popcorn,
    "won't .* be able to place": lambda n: n[1] - n[0] * n[2],
    "has a flower bed": lambda n: (n[0] / n[1] - n[2]) * n[3],
    "will not go beyond": lambda n: n[1] * (1 + _percent(n[2]) + _percent(n[3])) - n[0],
    "trying to decide whether to do her": lambda n: n[0] * n[1] - n[2],
    "saw the Comet": lambda n: n[1] * n[2] - n[0],
    "calories per serving": lambda n: (n[3] - n[4]) / n[0] * n[1] / n[2],
    "juggler can juggle": lambda n: n[0] * _percent(n[1]) * _percent(n[2]),
    "collects garbage": _collection,
    "more expensive brand": lambda n: n[0] * (1 + _percent(n[1])) * WEEK * n[2] + n[3],
    "percentage of all the puppies": lambda n: 100 * (n[1] + n[3]) / (n[0] + n[2]),
    "has various hobbies": lambda n: n[0] - n[1] - 3 * n[2],
    "slices of .* did they all eat": lambda n: n[1] + n[1] + n[2] + n[1] + n[2] + n[3],
    "operates the cash register": lambda n: n[1] * (1 + n[0]) * WEEK,
    "twins each found": lambda n: n[0] - 2 * n[1] - n[2],
    "is she sure to get": lambda n: n[0] * (_percent(n[1]) * _percent(n[2]) + (1 - _percent(n[1])) / 2),
    "is knitting winter wear": lambda n: n[0] * sum(n[1:], Fraction(0)),
    "grade boys were at": lambda n: n[0] - n[1] - n[3],
    "cards of all mentioned colors": lambda n: 2 * n[0] * (2 + _percent(n[1])),
    "is raising money": lambda n: n[2] * (1 - n[0]) - n[1],
    "net proceeds": lambda n: n[0] * (1 - _percent(n[1]) - _percent(n[2])) - n[3],
    "fewer .* than he has": lambda n: 2 * n[0] - n[1],
    "after all the balls are sold": lambda n: n[0] * n[3] + n[1] * n[4] + n[2] * n[5],
    "was preparing for a": lambda n: n[2] - n[0] + n[1],
    "How much water is in the remaining": lambda n: (n[0] - n[4]) * n[1] + n[2] * n[3],
    "rim of bond paper": lambda n: n[0] * n[1] + n[2] * n[3] + n[4],
    "A loaf of": lambda n: n[2] * n[0] - n[3] * n[1],
    "vending machines sell": lambda n: (100 * n[2] * (1 - _percent(n[4])) - n[3] * n[0]) / n[1],
    "piece puzzle": lambda n: n[0] / 2 + n[1],
    "How many friends can she invite": lambda n: n[0] / (n[1] + n[3] + n[2] * n[4]) - 1,
    "re-writing the": _same_story_twice,
    "more likely is it": lambda n: 100 * ((n[0] - n[1]) / n[0] - Fraction(1, 4)),
    "without being late": lambda n: n[0] - n[1] - n[2],
    "total number of insects": lambda n: n[0] * Fraction(3, 2),
    "family is busy making": lambda n: n[0] - n[1] - n[2],
    "If each student only participates": lambda n: 3 * n[0] + n[1] + n[2],
    "calories did he consume": lambda n: n[0] * n[1] * n[2],
    "fog bank": lambda n: n[0] * n[2] / n[1],
    "favorite walking trail": _walk,
    "how many days will the \\w+ last": lambda n: n[0] / (n[1] * (1 + n[2])),
    "how many dozens of eggs": lambda n: (n[0] * n[1] + n[2] * n[3]) / DOZEN,
    "watches TV after he finishes": _television,
    "times the number of .* he did on": lambda n: n[0] * (1 + n[2]) + n[1],
    "people are infected after": lambda n: n[0] * (1 + n[1]) ** int(n[2]),
    "-page .* already finished writing": lambda n: n[0] * (1 - n[1]),
    "He tripped over": lambda n: n[0] - n[1] + n[2] - n[3],
    "bought various types of": lambda n: n[0] * n[1] + n[2] * n[3] + n[4] * n[5],
    "is made out of": lambda n: n[2] - n[0] * (1 + n[1]),
    "for a fundraiser": _fundraiser,
    "tubes of paint does": lambda n: n[0] / 2 + 3 * n[1],
    "average of their ages": lambda n: n[1] + n[0] / 2,
    "spools of thread": lambda n: 100 * (n[0] + n[1]) / sum(n, Fraction(0)),
    "if he works for a year": lambda n: n[0] * n[1] * n[2] * MONTHS,
    "emails a day": lambda n: n[0] * (1 - _percent(n[1])) * n[2],
    "of fence between them": lambda n: (n[0] - n[1]) / 2,
    "than a cold day": lambda n: (n[0] * n[2] + n[1] - n[0]) * n[3],
    "perimeter of the room": lambda n: 2 * (n[1] + n[0] / n[1]),
    "is holding graduation": lambda n: (n[0] - n[1] - n[2]) / n[1],
    "Easter egg hunt": _hunt,
    "harvest within a year": lambda n: n[0] * n[1] * MONTHS / n[2],
    "to the nearest dollar": lambda n: sum((_rounded(n[i]) * n[i + 3] for i in range(3)), Fraction(0)),
    "has .* slain": lambda n: n[0] * n[1] * n[2] * n[3],
    "shares of a stock": lambda n: n[0] * n[1] * (1 + _percent(n[2])) * (1 - _percent(n[3])),
    "does this family eat in one": lambda n: n[0] + n[1] + n[2],
    "is feeding his livestock": lambda n: n[0] * n[2] + (2 * n[0] - n[1]) * n[3],
    "money does .* have left after paying": lambda n: n[0] - n[1] * n[2],
}
"""For each story, a pattern that only its questions match, and a function from the question's numbers to the answer."""


def _rounded(price: Fraction) -> int:
    if price % 1 == Fraction(1, 2):
        raise AmbiguousError("half a dollar is rounded")
    return int(price + Fraction(1, 2))


def gsm_symbolic(question: str) -> Solution:
    stories = [tell for phrase, tell in STORIES.items() if re.search(phrase, question, re.DOTALL)]
    if len(stories) != 1:
        raise UnsolvedError(f"{len(stories)} stories fit the question")
    numbers = [Fraction(text.replace(",", "")) for text in NUMBER.findall(question)]
    try:
        value = stories[0](numbers)
    except (IndexError, ValueError, AssertionError):
        raise UnsolvedError("other numbers than the story has") from None
    if "does this family eat" in question:
        period = find(r"in one ([\w ]+)\?", question)[1]
        if period not in DAYS:
            raise AmbiguousError(f"a {period} has no fixed number of days")
        value *= DAYS[period]
    if re.search(r"room is \d+ yards.* in feet", question):
        value = 2 * (3 * numbers[1] + numbers[0] / (3 * numbers[1]))
    if "spools of thread" in question:
        asked = find(r"spools are (\w+)", question)[1]
        value = 100 * Fraction(
            sum(int(n) for n in re.findall(rf"(\d+) (?:light|dark) {asked}", question)), int(sum(numbers))
        )
    return Solution(_written(value), wrong=(_written(value + 1), _written(-value) if value else "1"))


def _written(value: Fraction) -> str:
    """Return an integer, or a decimal number with 9 places, because some questions contain rounded numbers."""
    rounded = round(value * 10**6)
    return str(Fraction(rounded, 10**6)) if rounded % 10**6 == 0 else str(float(value))
