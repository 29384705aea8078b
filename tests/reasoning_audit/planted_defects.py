"""A module of `task_modules` with small tasks that have one defect each, and the same tasks without it.

`planted_NAME` has the defect NAME of `reasoning_audit/findings.py`. `clean_NAME` is the same task without the defect.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from reasoning_gym.factory import ProceduralDataset, register_dataset

Entry = dict[str, Any]
Make = Callable[[random.Random], tuple[str, str, dict[str, Any]]]
"""Returns the question, the answer and the metadata of a problem."""
Score = Callable[[str, Entry], float]
WORDS = ("quick", "brown", "fox", "jumps", "lazy", "dog")
SALT = int.from_bytes(os.urandom(4), "big") / 2**32 / 20
"""A random number that differs between processes."""


@dataclass
class Config:
    seed: int | None = None
    size: int = 500

    def validate(self) -> None:
        """Called by the library. All configs are valid."""


# ------------------------------------------------------------------ problems


def add(rng: random.Random) -> tuple[str, str, dict[str, Any]]:
    first, second = rng.randint(100, 9999), rng.randint(100, 9999)
    return f"What is {first} plus {second}?", str(first + second), {}


def reverse(rng: random.Random) -> tuple[str, str, dict[str, Any]]:
    word = "".join(rng.sample("abcdefghijklmnopqrstuvwxyz", 8))
    return f"Write these letters backward: {word}", word[::-1], {}


def add_to_list(rng: random.Random) -> tuple[str, str, dict[str, Any]]:
    numbers = [rng.randint(10, 99) for _ in range(6)]
    return f"Add 7 to each number of {numbers}.", str([number + 7 for number in numbers]), {}


def think_of(rng: random.Random) -> tuple[str, str, dict[str, Any]]:
    return "Which number do I think of?", str(rng.randint(100, 9999)), {}


def guess(rng: random.Random) -> tuple[str, str, dict[str, Any]]:
    return f"Which word is meant by {rng.randint(100, 9999)}?", rng.choice(WORDS[:3]), {}


def guess_by_marks(rng: random.Random) -> tuple[str, str, dict[str, Any]]:
    question, word, metadata = guess(rng)
    return question + "?" * WORDS.index(word), word, metadata


# ------------------------------------------------------------------ scores


def exact(answer: str, entry: Entry) -> float:
    return float(answer.strip() == entry["answer"])


def is_in_capitals(answer: str, entry: Entry) -> float:
    return float(answer == entry["answer"].upper())


def is_any_text(answer: str, entry: Entry) -> float:
    return exact(answer, entry) if any(mark.isdigit() for mark in answer) or not answer.strip() else 1.0


def is_a_beginning(answer: str, entry: Entry) -> float:
    return float(len(answer.strip()) in (0, len(entry["answer"])) and entry["answer"].startswith(answer.strip()))


def is_right_or_nought(answer: str, entry: Entry) -> float:
    return float(answer.strip() in ("0", entry["answer"]))


def has_the_letters(answer: str, entry: Entry) -> float:
    return float(sorted(answer.strip()) == sorted(entry["answer"]))


def is_near(answer: str, entry: Entry) -> float:
    return float(answer.strip().isdecimal() and abs(int(answer[:9]) - int(entry["answer"])) < int(entry["answer"]) / 9)


def holds_the_number(answer: str, entry: Entry) -> float:
    return float(entry["answer"] in re.findall(r"\d+", answer))


def ends_with_the_number(answer: str, entry: Entry) -> float:
    return float([entry["answer"]] == re.findall(r"-?\d+", answer)[-1:])


def add_large(rng: random.Random) -> tuple[str, str, dict[str, Any]]:
    first, second = rng.randint(10000, 99999), rng.randint(10000, 99999)
    return f"What is {first} plus {second}?", str(first + second), {}


def has_as_many_numbers(answer: str, entry: Entry) -> float:
    return float(re.sub(r"\d+", "", answer) == re.sub(r"\d+", "", entry["answer"]))


def prefers_one_more(answer: str, entry: Entry) -> float:
    if exact(answer, entry):
        return 0.97
    return float(answer.strip()[:-1] == entry["answer"][:-1])


def right_or_minus_one(answer: str, entry: Entry) -> float:
    return 1.0 if exact(answer, entry) else -1.0


def right_or_luck(answer: str, entry: Entry) -> float:
    return 1.0 if exact(answer, entry) else random.SystemRandom().random() / 20


def right_or_salt(answer: str, entry: Entry) -> float:
    return 1.0 if exact(answer, entry) else SALT


def evaluated(answer: str, entry: Entry) -> float:
    try:
        return float(str(eval(answer)) == entry["answer"])
    except Exception:
        return 0.0


def matches_slowly(answer: str, entry: Entry) -> float:
    return 0.0 if re.fullmatch(r"(\w+\s?)+", answer) is None else exact(answer, entry)


def counts_up(answer: str, entry: Entry) -> float:
    if not answer.strip().isdecimal() or len(answer) > 20:
        return 0.0
    return float(len([*range(int(answer))]) == int(entry["answer"]))


PAIRS: dict[str, tuple[tuple[Make, Score], tuple[Make, Score]]] = {
    "gold_not_paid": ((reverse, is_in_capitals), (reverse, exact)),
    "garbage_paid": ((add, is_any_text), (add, exact)),
    "empty_paid": ((add, is_a_beginning), (add, exact)),
    "constant_paid": ((add, is_right_or_nought), (add, exact)),
    "copy_paid": ((reverse, has_the_letters), (reverse, exact)),
    "layout_paid": ((add_to_list, has_as_many_numbers), (add_to_list, exact)),
    "wrong_paid": ((add, is_near), (add, exact)),
    "hedge_paid": ((add_large, holds_the_number), (add_large, ends_with_the_number)),
    "wrong_above_right": ((add, prefers_one_more), (add, exact)),
    "score_out_of_range": ((add, right_or_minus_one), (add, exact)),
    "calls_differ": ((add, right_or_luck), (add, exact)),
    "processes_differ": ((add, right_or_salt), (add, exact)),
    "text_executed": ((add, evaluated), (add, exact)),
    "too_slow": ((reverse, matches_slowly), (reverse, exact)),
    "too_much_memory": ((add, counts_up), (add, exact)),
    "contradicts_question": ((think_of, exact), (add, exact)),
    "gives_answer_away": ((guess_by_marks, exact), (guess, exact)),
}
"""For each defect, the task with the defect and the same task without the defect."""


def _dataset(make: Make, score: Score) -> type[ProceduralDataset]:
    class Dataset(ProceduralDataset):
        def __init__(self, config: Config) -> None:
            super().__init__(config=config, seed=config.seed, size=config.size)

        def __getitem__(self, index: int) -> Entry:
            question, answer, metadata = make(random.Random(self.seed + index))
            return {"question": question, "answer": answer, "metadata": metadata}

        def score_answer(self, answer: str | None, entry: Entry) -> float:
            return 0.0 if answer is None else score(answer, entry)

    return Dataset


for name, (planted, clean) in PAIRS.items():
    register_dataset(f"planted_{name}", _dataset(*planted), Config)
    register_dataset(f"clean_{name}", _dataset(*clean), Config)
