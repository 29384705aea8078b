"""What levels of difficulty change: the work of a problem, by task, and the tasks whose levels change little.

The work is a proxy that reads the problem and no model: the moves of a solution, the blanks of a board, the digits of a
number. Where nothing else is named, the work is the number of characters to read and to write.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, pairwise
from statistics import fmean, stdev
from typing import Any

LEVELS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""The levels that are compared: the steps of the audit and of the docs."""
LEAST_GROWTH = 1.25
"""The work at level 1 over the work at level 0, at least."""
LEAST_DIFFERENT = 0.5
"""Share of different questions among 200 draws of a level, at least. Long answers, which a model could learn by heart,
must be as different."""
LONG_ANSWER = 20
"""Characters of an answer that has to be as different as the questions."""


@dataclass(frozen=True)
class Drawn:
    """A problem of a level, as far as its work is concerned; `answer` is "" where many answers are right."""

    question: str
    answer: str
    metadata: Mapping[str, Any]


@dataclass(frozen=True)
class LevelTally:
    """The mean work of the problems of a level, its standard error, and the share that is different.

    `different` is the share of different questions or, if it is less, of different answers where these are long.
    """

    work: float
    error: float
    different: float


def tally(task: str, drawn: Sequence[Drawn]) -> LevelTally:
    """Return the tally of the problems of a task at a level."""
    work = [work_of(task, problem) for problem in drawn]
    different = len({problem.question for problem in drawn})
    if fmean(len(problem.answer) for problem in drawn) > LONG_ANSWER:
        different = min(different, len({problem.answer for problem in drawn}))
    error = stdev(work) / math.sqrt(len(work)) if len(work) > 1 else 0.0
    return LevelTally(fmean(work), error, different / len(drawn))


def faults_of(tallies: Sequence[LevelTally]) -> list[str]:
    """Return what is wrong with the levels of a task, given from the easiest to the hardest; chance is allowed for."""
    faults = []
    for easier, harder in pairwise(tallies):
        chance = 3 * math.hypot(easier.error, harder.error)
        if harder.work < easier.work - chance:
            faults.append(f"the work falls from {easier.work:.1f} to {harder.work:.1f}")
    first = tallies[0]
    last = tallies[-1]
    if last.work + 3 * last.error < LEAST_GROWTH * (first.work - 3 * first.error):
        faults.append(f"the work grows from {first.work:.1f} to {last.work:.1f} only")
    return faults


def repetition_of(tallies: Sequence[LevelTally], levels: Sequence[float]) -> list[str]:
    """Return the levels whose problems repeat each other; there is a tally for each level."""
    return [
        f"{tally.different:.2f} of the problems at level {level:g} are different"
        for level, tally in zip(levels, tallies, strict=True)
        if tally.different < LEAST_DIFFERENT
    ]


def work_of(task: str, problem: Drawn) -> float:
    """Return the work of a problem of a task."""
    return float(WORK.get(task, characters)(problem))


def characters(problem: Drawn) -> int:
    return len(problem.question) + len(problem.answer)


def answer_characters(problem: Drawn) -> int:
    return len(problem.answer)


def digits(problem: Drawn) -> int:
    return sum(map(str.isdigit, problem.question))


def value(key: str) -> Callable[[Drawn], float]:
    """Return the work that is a number of the metadata."""
    return lambda problem: float(problem.metadata[key])


def size(key: str) -> Callable[[Drawn], int]:
    """Return the work that is the length of a list or text of the metadata."""
    return lambda problem: len(problem.metadata[key])


def blanks(problem: Drawn) -> int:
    """Count the empty cells of the metadata's board."""
    return sum(int(row.count(0)) for row in problem.metadata["puzzle"])


def missing_queens(problem: Drawn) -> int:
    board: list[list[str]] = problem.metadata["puzzle"]
    return len(board) - sum(row.count("Q") for row in board)


def trial_divisors(problem: Drawn) -> int:
    return math.isqrt(int(problem.metadata["number"]))


def expressions_for_a_hit(problem: Drawn) -> float:
    """Return how many ways to join four numbers there are for each way that makes 24."""
    numbers = tuple(sorted(map(float, problem.metadata["numbers"])))
    return _ways(4) / max(1, _hits(numbers, 24.0))


@lru_cache(maxsize=100_000)
def _hits(numbers: tuple[float, ...], target: float) -> int:
    """Count the orders of joining numbers, two by two, that end at a target."""
    if len(numbers) == 1:
        return int(abs(numbers[0] - target) < 1e-9)
    hits = 0
    for first, second in combinations(range(len(numbers)), 2):
        rest = [number for place, number in enumerate(numbers) if place not in (first, second)]
        for joined in _joined(numbers[first], numbers[second]):
            hits += _hits(tuple(sorted([*rest, round(joined, 9)])), target)
    return hits


def _joined(first: float, second: float) -> list[float]:
    results = [first + second, first - second, second - first, first * second]
    if second:
        results.append(first / second)
    if first:
        results.append(second / first)
    return results


def _ways(numbers: int) -> int:
    return 1 if numbers == 1 else math.comb(numbers, 2) * 6 * _ways(numbers - 1)


WORK: Mapping[str, Callable[[Drawn], float]] = {
    "advanced_geometry": digits,
    "base_conversion": lambda problem: math.log2(problem.metadata["decimal_value"] + 1),
    "coin_flip": value("num_trials"),
    "count_bits": lambda problem: math.log2(problem.metadata["number"]),
    "count_primes": lambda problem: problem.metadata["end"] - problem.metadata["start"],
    "countdown": size("numbers"),
    "cryptarithm": lambda problem: sum(map(len, problem.metadata["words_letters"])),
    "dice": digits,
    "emoji_mystery": answer_characters,
    "fraction_simplification": digits,
    "gcd": digits,
    "intermediate_integration": answer_characters,
    "jugs": lambda problem: problem.metadata["puzzle"]["min_moves"],
    "knight_swap": lambda problem: len(json.loads(problem.answer)) if problem.answer != "No" else 0,
    "mini_sudoku": blanks,
    "n_queens": missing_queens,
    "polynomial_equations": size("polynomial_expr"),
    "power_function": lambda problem: abs(problem.metadata["exponent"]),
    "prime_factorization": trial_divisors,
    "propositional_logic": lambda problem: sum(map(len, problem.metadata["premises"])),
    "puzzle24": expressions_for_a_hit,
    "quantum_lock": size("solution_path"),
    "rectangle_count": lambda problem: int(problem.answer),
    "rotten_oranges": lambda problem: int(problem.answer),
    "rubiks_cube": value("scramble_steps"),
    "rush_hour": value("min_moves"),
    "simple_geometry": value("n_sides"),
    "simple_integration": answer_characters,
    "sokoban": answer_characters,
    "spell_backward": answer_characters,
    "string_splitting": size("states"),
    "string_synthesis": size("states"),
    "sudoku": blanks,
    "survo": blanks,
    "time_intervals": answer_characters,
    "tower_of_hanoi": lambda problem: len(problem.answer.splitlines()),
    "word_ladder": lambda problem: len(problem.answer.split(",")),
}

HARDLY_HARDER: Mapping[str, str] = {
    "arc_agi": "levels rotate and mirror whole puzzles, including their examples",
    "codeio": "levels are difficulty ratings by a model; programs with higher ratings are shorter",
    "puzzle24": "in every number range up to the library's largest (10), about 1 expression in 200 equals 24",
    "rearc": "levels follow two measures by the puzzles' authors; a puzzle's length does not show how hard its rule is",
    "syllogism": "questions have three statements at every level; those about one premise become rarer",
}
"""Tasks whose levels change little that can be measured, with the reason."""
FEW_QUESTIONS: Mapping[str, str] = {
    "caesar_cipher": "from level 0.5 on, the library's text has at most a hundred sentences of the required length",
    "coin_flip": "at level 0, there are 68 pairs of a number of throws and a number of heads",
    "jugs": "the library's answer is one of many right plans; at level 0, there are about forty different answers",
    "knight_swap": "at level 0, one plan of eight moves solves several boards",
    "modulo_grid": "at level 0, the answer is one of about forty grids, one for each divisor and remainder",
    "n_queens": "at level 0, the answer is one of the 40 solutions on a board of size seven",
    "products": "at level 0, both factors have one digit",
    "sentence_reordering": "at level 1, only about a hundred sentences of the library's texts are long enough",
}
"""Tasks whose questions, or long answers, repeat at some level, with the reason."""
