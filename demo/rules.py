"""The rules of the scripted policy: read the question of a task, and compute the answer.

Questions come over HTTP, so every rule does a limited amount of work on any text. A rule raises ValueError if a
matching question has no answer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping

MAX_PRIME_CANDIDATE = 10**9
MAX_NUMBER_DIGITS = 100
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
BASES_WITH_NAMES = {"binary": 2, "octal": 8, "decimal": 10, "hexadecimal": 16}
ANIMALS_BY_LEGS = {
    0: ("snake", "sea slug", "jellyfish", "flatworm", "leech"),
    2: ("chicken", "bird", "human", "duck"),
    4: ("dog", "cat", "cow", "horse", "lion", "elephant", "giraffe", "tiger", "deer", "sheep"),
    5: ("starfish",),
    6: ("insect", "ant", "butterfly", "beetle", "bee", "wasp", "grasshopper", "cricket", "cockroach", "firefly"),
    8: ("spider", "scorpion"),
    10: ("crab", "lobster", "shrimp"),
    14: ("woodlouse",),
}
LEGS = {animal: legs for legs, animals in ANIMALS_BY_LEGS.items() for animal in animals} | {"praying mantis": 6}


def solve(question: str) -> str | None:
    """Return the right answer to a question of a task in RULES; None for any other text."""
    for pattern, answer in RULES.values():
        if match := re.search(pattern, question.strip()):
            try:
                return answer(match)
            except ValueError:
                return None
    return None


def _integers(text: str) -> list[int]:
    numbers = re.findall(r"-?\d+", text)
    if any(len(number) > MAX_NUMBER_DIGITS for number in numbers):
        raise ValueError("a number is too long")
    return [int(number) for number in numbers]


def _ordered(match: re.Match[str], key: Callable[[str], object] = str) -> list[str]:
    return sorted(match[2].split(", "), key=key, reverse=match[1] == "descending")  # type: ignore[arg-type]


def _prime_factors(match: re.Match[str]) -> str:
    (remaining,) = _integers(match[1])
    if not 2 <= remaining <= MAX_PRIME_CANDIDATE:
        raise ValueError("the number is out of bounds")
    factors = []
    divisor = 2
    while divisor * divisor <= remaining:
        while remaining % divisor == 0:
            factors.append(divisor)
            remaining //= divisor
        divisor += 1
    if remaining > 1:
        factors.append(remaining)
    return " × ".join(map(str, factors))  # noqa: RUF001 (the sign that the question asks for)


def _simplified_fraction(match: re.Match[str]) -> str:
    opening, numerator, between, denominator, closing = match.groups()
    above, below = _integers(f"{numerator} {denominator}")
    divisor = math.gcd(above, below)
    if divisor == 0:
        raise ValueError("the fraction is 0/0")
    return f"{opening}{above // divisor}{between}{below // divisor}{closing}"


def _legs(match: re.Match[str]) -> str:
    total = 0
    for entry in match[1].split(", "):
        count, _, animal = entry.partition(" ")
        legs = LEGS.get(animal, LEGS.get(animal.removesuffix("s")))
        if legs is None:
            raise ValueError(f"an unknown animal: {animal}")
        total += sum(_integers(count)) * legs
    return str(total)


def _converted(match: re.Match[str]) -> str:
    source, target = (BASES_WITH_NAMES.get(name) or int(name.removeprefix("base-")) for name in (match[1], match[3]))
    if not 2 <= target <= len(DIGITS) or len(match[2]) > MAX_NUMBER_DIGITS:
        raise ValueError("a base or a number is out of bounds")
    value = int(match[2], source)
    digits = ""
    while value:
        value, digit = divmod(value, target)
        digits = DIGITS[digit] + digits
    return digits or "0"


_BASE = r"(binary|octal|decimal|hexadecimal|base-\d{1,2})"
RULES: Mapping[str, tuple[str, Callable[[re.Match[str]], str]]] = {
    "base_conversion": (rf"convert the {_BASE} number ([0-9a-z]+) to {_BASE}", _converted),
    "chain_sum": (
        r"following arithmetic problem: ([-+ \d]+) =",
        lambda match: str(sum(_integers(match[1].replace(" ", "")))),
    ),
    "count_bits": (
        r"binary representation of the number (\d+)\?",
        lambda match: str(sum(number.bit_count() for number in _integers(match[1]))),
    ),
    "fraction_simplification": (
        r"Simplify the fraction ((?:\$\\d?frac\{)|\$?)(\d+)(/|\}\{)(\d+)(\}?\$?) to its lowest terms",
        _simplified_fraction,
    ),
    "gcd": (
        r"Greatest Common Divisor \(GCD\) of these numbers: ([\d, ]+)",
        lambda match: str(math.gcd(*_integers(match[1]))),
    ),
    "lcm": (
        r"Least Common Multiple \(LCM\) of these numbers: ([\d, ]+)",
        lambda match: str(math.lcm(*_integers(match[1]))),
    ),
    "leg_counting": (r"how many legs are there in total if you have ([^?]+)\?", _legs),
    "letter_counting": (
        r'does the letter "(\w)" appear in the text: "(.*)"\?',
        lambda match: str(match[2].lower().count(match[1].lower())),
    ),
    "number_sorting": (
        r"Sort these numbers in (ascending|descending) order: ([-\d., ]+)",
        lambda match: str(_ordered(match, float)),
    ),
    "prime_factorization": (r"Find the prime factorization of (\d+)\.", _prime_factors),
    "products": (
        r"Solve the following multiplication: ([* \d]+)\.",
        lambda match: str(math.prod(_integers(match[1]))),
    ),
    "spell_backward": (r"Spell this word backward \(example: sun -> nus\): (\w+)", lambda match: match[1][::-1]),
    "word_sequence_reversal": (
        r"Reverse this list of words: ([^\n]+)",
        lambda match: ", ".join(reversed(match[1].split(", "))),
    ),
    "word_sorting": (
        r"sort these words in (ascending|descending) order [^:\n]*: ([^\n]+)",
        lambda match: ", ".join(_ordered(match)),
    ),
}
"""For each task: a pattern that matches the task's questions, and a function that returns the answer for a match."""
