"""What the scripted policy knows: for each of its tasks, how to read the question and how to work out the answer.

A rule is a pattern for the library's question text and a function from the match to the answer. Questions come over
HTTP, so every rule does a bounded amount of work on any text; one that cannot deal with its match raises ValueError.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .arithmetic import evaluate

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
LEGS: Mapping[str, int] = {animal: legs for legs, animals in ANIMALS_BY_LEGS.items() for animal in animals} | {
    "praying mantis": 6
}


@dataclass(frozen=True)
class Rule:
    """How to answer the questions of one task: a pattern that finds them, and what the match's answer is."""

    task: str
    pattern: re.Pattern[str]
    solve: Callable[[re.Match[str]], str]


def solve(question: str) -> str | None:
    """Return the right answer to a question of a task in `RULES`, or None for any other text."""
    for rule in RULES:
        if match := rule.pattern.search(question.strip()):
            try:
                return rule.solve(match)
            except ValueError:
                return None
    return None


def _integers(text: str) -> list[int]:
    numbers = re.findall(r"-?\d+", text)
    if any(len(number) > MAX_NUMBER_DIGITS for number in numbers):
        raise ValueError("a number is too long")
    return [int(number) for number in numbers]


def _value(match: re.Match[str]) -> str:
    return str(evaluate(match[1]))


def _hexadecimal(match: re.Match[str]) -> str:
    return hex(evaluate(match[1]))


def _gcd(match: re.Match[str]) -> str:
    return str(math.gcd(*_integers(match[1])))


def _lcm(match: re.Match[str]) -> str:
    return str(math.lcm(*_integers(match[1])))


def _count_bits(match: re.Match[str]) -> str:
    (number,) = _integers(match[1])
    return str(bin(number).count("1"))


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


def _simplify_fraction(match: re.Match[str]) -> str:
    opening, numerator, between, denominator, closing = match.groups()
    above, below = _integers(f"{numerator} {denominator}")
    divisor = math.gcd(above, below)
    if divisor == 0:
        raise ValueError("the fraction is 0/0")
    return f"{opening}{above // divisor}{between}{below // divisor}{closing}"


def _count_legs(match: re.Match[str]) -> str:
    total = 0
    for entry in match[1].split(", "):
        count, _, animal = entry.partition(" ")
        animal = animal if animal in LEGS else animal.removesuffix("s")
        if animal not in LEGS:
            raise ValueError(f"an unknown animal: {animal}")
        total += sum(_integers(count)) * LEGS[animal]
    return str(total)


def _count_letter(match: re.Match[str]) -> str:
    return str(match[2].lower().count(match[1].lower()))


def _spell_backward(match: re.Match[str]) -> str:
    return match[1][::-1]


def _reverse_words(match: re.Match[str]) -> str:
    return ", ".join(reversed(match[1].split(", ")))


def _sort_words(match: re.Match[str]) -> str:
    return ", ".join(sorted(match[2].split(", "), reverse=match[1] == "descending"))


def _sort_numbers(match: re.Match[str]) -> str:
    return str(sorted(match[2].split(", "), key=float, reverse=match[1] == "descending"))


def _convert_base(match: re.Match[str]) -> str:
    source, target = (BASES_WITH_NAMES.get(name) or int(name.removeprefix("base-")) for name in (match[1], match[3]))
    if not 2 <= target <= len(DIGITS) or len(match[2]) > MAX_NUMBER_DIGITS:
        raise ValueError("a base or a number is out of bounds")
    value, digits = int(match[2], source), ""
    while value:
        value, digit = divmod(value, target)
        digits = DIGITS[digit] + digits
    return digits or "0"


def _solve_equation(match: re.Match[str]) -> str:
    variable, left_side, right_side = match.groups()
    constant = evaluate(left_side, {variable: 0})
    slope = evaluate(left_side, {variable: 1}) - constant
    if slope == 0:
        raise ValueError("the variable has no effect")
    return str((evaluate(right_side) - constant) // slope)


_BASE = r"(binary|octal|decimal|hexadecimal|base-\d{1,2})"
RULES: tuple[Rule, ...] = tuple(
    Rule(task, re.compile(pattern), solver)
    for task, pattern, solver in (
        ("base_conversion", rf"convert the {_BASE} number ([0-9a-z]+) to {_BASE}", _convert_base),
        ("basic_arithmetic", r"^Calculate ([-+*/() \d]+)\.$", _value),
        ("bitwise_arithmetic", r"final hexidecimal value\.\n([-+*/()<>&|^ x0-9a-f]+)$", _hexadecimal),
        ("chain_sum", r"following arithmetic problem: ([-+ \d]+) =", _value),
        ("count_bits", r"binary representation of the number (\d+)\?", _count_bits),
        (
            "fraction_simplification",
            r"Simplify the fraction ((?:\$\\d?frac\{)|\$?)(\d+)(/|\}\{)(\d+)(\}?\$?) to its lowest terms",
            _simplify_fraction,
        ),
        ("gcd", r"Greatest Common Divisor \(GCD\) of these numbers: ([\d, ]+)", _gcd),
        ("lcm", r"Least Common Multiple \(LCM\) of these numbers: ([\d, ]+)", _lcm),
        ("leg_counting", r"how many legs are there in total if you have ([^?]+)\?", _count_legs),
        ("letter_counting", r'does the letter "(\w)" appear in the text: "(.*)"\?', _count_letter),
        ("number_sorting", r"Sort these numbers in (ascending|descending) order: ([-\d., ]+)", _sort_numbers),
        ("prime_factorization", r"Find the prime factorization of (\d+)\.", _prime_factors),
        ("products", r"Solve the following multiplication: ([* \d]+)\.", _value),
        (
            "simple_equations",
            r"^(?:Find the|Determine the|Solve) (?:value of|for) ([a-z])(?: in the equation| that satisfies)?:"
            r" ([^=\n]+) = (-?\d+)$",
            _solve_equation,
        ),
        ("spell_backward", r"Spell this word backward \(example: sun -> nus\): (\w+)", _spell_backward),
        ("word_sequence_reversal", r"Reverse this list of words: ([^\n]+)", _reverse_words),
        ("word_sorting", r"sort these words in (ascending|descending) order [^:\n]*: ([^\n]+)", _sort_words),
    )
)
TASKS: tuple[str, ...] = tuple(rule.task for rule in RULES)
