"""What an answer earns: the best of its forms, as a number in [0, 1], with partial credit above guessing."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from reasoning_env.verifiers import Scorer
from reasoning_env.verifiers.scoring import CORRECTIONS, GUARDS

ENTRY = {"question": "Repeat after me: a b c d", "answer": "d c b a", "metadata": {}}


class FakeDataset:
    """A verifier of one's own."""

    config = None

    def __init__(self, score: Callable[[str], float]) -> None:
        self.score_answer = lambda answer, entry: score(answer)


def scored(answer: str, score: Callable[[str], float], **options: Any) -> float:
    dataset: Any = FakeDataset(score)
    settings = {"strict": True, "with_tags": False, **options}
    return Scorer("a task without rows", dataset, pickle.dumps(ENTRY), **settings).score(answer)


def test_partial_credit_starts_at_what_a_copy_earns() -> None:
    scores = {"a b c d": 0.6, "d c b": 0.8}
    assert scored("d c b", lambda answer: scores.get(answer, 0.0)) == pytest.approx(0.5)


@pytest.mark.parametrize("score", [0.0, 0.05, 0.1, 1.0])
def test_full_marks_and_what_form_earns_stay(score: float) -> None:
    assert scored("d c b", lambda answer: 0.6 if answer == "a b c d" else score) == score


def test_plain_scores_stay() -> None:
    assert scored("d c b", lambda answer: 0.6, strict=False) == 0.6


def test_right_answer_is_no_guess() -> None:
    scores = {"a b c d": 1.0, "d c b": 0.8}
    assert scored("d c b", lambda answer: scores.get(answer, 0.0)) == 0.8


def test_guess_on_which_the_verifier_fails_earns_nothing() -> None:
    def score(answer: str) -> float:
        if answer != "d c b":
            raise SystemExit
        return 0.8

    assert scored("d c b", score) == 0.8


def test_best_of_the_forms_counts() -> None:
    assert scored("**d**", lambda answer: len(answer) / 10, full_stop=True, strict=False) == 0.5
    assert scored("**d**", lambda answer: float(answer == "d"), full_stop=True) == 1.0
    assert scored("d", lambda answer: float(answer.startswith("<answer>")), with_tags=True) == 1.0


def test_form_on_which_the_verifier_fails_leaves_the_others() -> None:
    assert scored("`5`", lambda answer: float(answer) / 10, full_stop=True) == 0.5


def test_right_answer_is_scored_once() -> None:
    asked = []

    def score(answer: str) -> float:
        asked.append(answer)
        return 1.0

    scored("`d`", score, full_stop=True)
    assert asked == ["`d`"]


def test_failure_on_every_form_is_raised() -> None:
    with pytest.raises(ValueError, match="five"):
        scored("five", float, full_stop=True)


@pytest.mark.parametrize(("value", "score"), [(7.0, 1.0), (-1.0, 0.0)])
def test_score_lies_between_nought_and_one(value: float, score: float) -> None:
    assert scored("d", lambda answer: value) == score


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_score_that_is_no_finite_number_is_a_failure(value: float) -> None:
    with pytest.raises(ValueError, match="returned"):
        scored("d", lambda answer: value)


def test_exhausted_memory_is_raised_at_once() -> None:
    def score(answer: str) -> float:
        if answer == "d":
            return 1.0
        raise MemoryError

    with pytest.raises(MemoryError):
        scored("`d`", score, full_stop=True)


def test_tables_are_in_order() -> None:
    assert list(GUARDS) == sorted(GUARDS)
    assert list(CORRECTIONS) == sorted(CORRECTIONS)
