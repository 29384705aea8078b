"""Partial credit starts where the best answer without reasoning ends."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import reasoning_gym

from reasoning_env.verifiers import PartialCredit, find_flaw, verify
from reasoning_env.verifiers.floors import FORM_PAY
from reasoning_env.verifiers.lazy import filled_boards, ladders, pressed_alone, quotations

ENTRY = {"question": "Repeat after me: a b c d", "answer": "d c b a", "metadata": {}}


def _credit(floor: float, entry: Any = ENTRY) -> PartialCredit:
    return PartialCredit(entry, lambda answer: floor if answer == "a b c d" else 0.0)


@pytest.mark.parametrize(
    ("score", "rebased"), [(0.0, 0.0), (0.05, 0.05), (0.1, 0.1), (0.5, 0.1), (0.6, 0.1), (0.8, 0.5), (1.0, 1.0)]
)
def test_credit_is_rebased_between_the_floor_and_full_marks(score: float, rebased: float) -> None:
    assert _credit(0.6).rebase(score) == pytest.approx(rebased)


@pytest.mark.parametrize("floor", [0.0, 0.05, 0.3, 0.65, 0.97])
def test_higher_score_never_earns_less_than_a_lower_one(floor: float) -> None:
    earned = [_credit(floor).rebase(score / 100) for score in range(101)]
    assert earned == sorted(earned)


def test_right_answer_is_no_floor() -> None:
    assert _credit(1.0).rebase(0.8) == 0.8


def test_verifier_that_fails_on_a_copy_leaves_the_score() -> None:
    def fail(answer: str) -> float:
        raise SystemExit

    assert PartialCredit(ENTRY, fail).rebase(0.8) == 0.8


def _scores(task: str, answers: Any, **params: Any) -> list[float]:
    """What answers to some problems earn, re-based; `answers` makes them from an entry."""
    dataset = reasoning_gym.create_dataset(task, seed=5, size=10, **params)
    scores = []
    for entry in (dataset[number] for number in range(10)):
        if find_flaw(task, entry) is not None:
            continue

        def score(answer: str, entry: Any = entry) -> float:
            return verify(task, dataset, answer, copy.deepcopy(entry), strict=True)

        credit = PartialCredit(entry, score)
        scores += [credit.rebase(score(answer)) for answer in answers(entry)]
    return scores


@pytest.mark.parametrize("task", ["sudoku", "futoshiki"])
def test_filled_boards_earn_what_form_pays(task: str) -> None:
    assert max(_scores(task, lambda entry: filled_boards(entry["question"]).values())) == FORM_PAY


def test_board_that_is_right_but_for_one_cell_still_earns_much() -> None:
    def nearly(entry: Any) -> list[str]:
        return ["1" + entry["answer"][1:] if entry["answer"][0] != "1" else "2" + entry["answer"][1:]]

    assert max(_scores("sudoku", nearly)) > 0.6


def test_empty_board_of_life_earns_what_form_pays() -> None:
    empty = [[0] * 10] * 10
    assert max(_scores("game_of_life", lambda entry: [str(empty), str(empty).replace("0", "0.0")])) == FORM_PAY


def test_letters_exchanged_one_by_one_earn_what_form_pays_unless_all_words_are_known() -> None:
    scores = _scores(
        "word_ladder", lambda entry: ladders(entry["metadata"]["start_word"], entry["metadata"]["end_word"])
    )
    assert FORM_PAY in scores
    assert all(score <= FORM_PAY or score == 1.0 for score in scores)


def test_one_button_of_a_lock_pressed_over_and_over_earns_what_form_pays() -> None:
    def presses(entry: Any) -> list[str]:
        return pressed_alone(entry["metadata"]["buttons"], entry["metadata"]["target_value"])

    assert set(_scores("quantum_lock", presses, difficulty=3)) == {FORM_PAY}


def _everybody_alike(entry: Any) -> list[str]:
    names, terms = entry["metadata"]["names"], entry["metadata"]["knight_knave_terms"]
    return [", ".join(f"{name} is {terms[role]}" for name in names) for role in ("a_knight", "a_knave")]


def _one_of_each(entry: Any) -> list[str]:
    (one, other), terms = entry["metadata"]["names"], entry["metadata"]["knight_knave_terms"]
    return [f"{one} is {terms['a_knight']}, {other} is {terms['a_knave']}"]


@pytest.mark.parametrize(
    ("answers", "people", "earned"),
    [
        (_everybody_alike, 3, {0.0}),
        (_one_of_each, 2, {0.0, 1.0}),
        (lambda entry: quotations(entry["question"]), 3, {0.0}),
    ],
    ids=["everybody alike", "one of each", "quoting somebody"],
)
def test_guess_about_people_earns_form_pay_unless_right(answers: Any, people: int, earned: set[float]) -> None:
    assert earned <= set(_scores("knights_knaves", answers, n_people=people)) <= {0.0, FORM_PAY, 1.0}
