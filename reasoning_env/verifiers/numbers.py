"""Guards and corrections of tasks whose answers are numbers."""

from __future__ import annotations

import itertools
import json
import re
from fractions import Fraction

from .entries import Dataset, Entry
from .grammars.expressions import parse_list

MAX_NUMBER_CHARACTERS = 100
MAX_FLOAT_EXPONENT = 99
NEAR = 0.1
"""The relative error, as a share of the right number, from which an answer earns nothing."""


def score_bitwise_arithmetic(answer: str, entry: Entry, dataset: Dataset) -> float:
    """Compare with the expected answer; the library evaluates the text of the problem again."""
    try:
        return float(int(answer, 0) == int(entry["answer"], 0))
    except ValueError:
        return 0.0


def score_short_number(answer: str, entry: Entry, dataset: Dataset) -> float:
    return dataset.score_answer(answer, entry) if len(answer) <= MAX_NUMBER_CHARACTERS else 0.0


def correct_complex(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Pay nothing for nan and inf, whose distance from any number counts as none."""
    return 0.0 if re.search("nan|inf", re.sub(r"\s", "", answer), re.IGNORECASE) else score


def score_coin_flip(answer: str, entry: Entry, dataset: Dataset) -> float:
    # The verifier drops commas, and Python's numbers may have underscores.
    exponent = re.search(r"[eE][+-]?(\d+)", re.sub("[,_]", "", answer))
    if len(answer) > MAX_NUMBER_CHARACTERS or (exponent and int(exponent[1]) > MAX_FLOAT_EXPONENT):
        return 0.0
    return dataset.score_answer(answer, entry)


def correct_coin_flip(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Pay a probability by its share of right digits; the library pays prefixes such as 0, and errors below .0001."""
    if score == 0.0:
        return 0.0
    said = float(Fraction(answer.replace(",", "")))
    right = float(Fraction(entry["answer"].replace(",", "")))
    if not 0.0 < said <= 1.0:
        return 0.0
    if said == right:
        return score
    digits, exponent = _significant(said)
    right_digits, right_exponent = _significant(right)
    if exponent != right_exponent:
        return 0.0
    shared = sum(
        1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(digits, right_digits, strict=False))
    )
    return min(score, shared / max(len(digits), len(right_digits)))


def _significant(value: float) -> tuple[str, int]:
    """Return at most ten significant digits, as the verifier writes them, and the power of ten."""
    mantissa, exponent = f"{value:.9e}".split("e")
    return mantissa.replace(".", "").rstrip("0"), int(exponent)


def score_number_sorting(answer: str, entry: Entry, dataset: Dataset) -> float:
    """Pass the expected answer as JSON, because the library would evaluate it as Python."""
    oracle = json.dumps(parse_list(entry["answer"]))
    return dataset.score_answer(answer, {**entry, "answer": oracle})


def correct_prime_factorization(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Pay the floor for factors that are not prime: any divisor gives two such factors."""
    return score if score == 1.0 else min(score, 0.01)


def correct_time_intervals(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Pay a duration by its relative error: in absolute terms any duration is near most others."""
    if score in (0.0, 1.0):
        return score
    return min(score, nearness(_seconds(answer), _seconds(entry["answer"])))


def _seconds(text: str) -> float:
    """Return the seconds of a duration in the verifier's form: `d days`, `h:m:s`, or both."""
    days = re.search(r"(-?\d+)\s*days?", text)
    clock = re.search(r"-?\d+(?::\d+(?:\.\d+)?)+", text)
    parts = [float(part) for part in clock[0].split(":")] if clock else []
    seconds = sum(part * unit for part, unit in zip(parts, (3600, 60, 1), strict=False))
    return (86_400 * int(days[1]) if days else 0) + seconds


def correct_rectangle_count(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Pay a count by its relative error: in absolute terms any small number is near most counts."""
    return score if score in (0.0, 1.0) else min(score, nearness(float(answer), float(entry["answer"])))


def nearness(said: float, right: float) -> float:
    """Return 1 for the right number, falling linearly to 0 at a relative error of NEAR."""
    return max(0.0, 1.0 - abs(said - right) / (NEAR * abs(right))) if right else 0.0
