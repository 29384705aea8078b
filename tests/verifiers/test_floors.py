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


def test_right_answer_is_no_floor_nor_one_on_which_the_verifier_fails() -> None:
    def fail(answer: str) -> float:
        raise SystemExit

    assert _credit(1.0).rebase(0.8) == PartialCredit(ENTRY, fail).rebase(0.8) == 0.8


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


def test_board_that_is_right_but_for_one_cell_still_earns_much() -> None:
    def nearly(entry: Any) -> list[str]:
        return ["1" + entry["answer"][1:] if entry["answer"][0] != "1" else "2" + entry["answer"][1:]]

    assert max(_scores("sudoku", nearly)) > 0.6


def _everybody_alike(entry: Any) -> list[str]:
    names, terms = entry["metadata"]["names"], entry["metadata"]["knight_knave_terms"]
    return [", ".join(f"{name} is {terms[role]}" for name in names) for role in ("a_knight", "a_knave")]


def _one_of_each(entry: Any) -> list[str]:
    (one, other), terms = entry["metadata"]["names"], entry["metadata"]["knight_knave_terms"]
    return [f"{one} is {terms['a_knight']}, {other} is {terms['a_knave']}"]


def _filled(entry: Any) -> Any:
    return filled_boards(entry["question"]).values()


EMPTY_BOARD = str([[0] * 10] * 10)
GUESSES: dict[str, tuple[str, Any, dict[str, int], set[float]]] = {
    "a filled board": ("sudoku", _filled, {}, {FORM_PAY}),
    "a filled board with signs": ("futoshiki", _filled, {}, {FORM_PAY}),
    "an empty board": ("game_of_life", lambda _: [EMPTY_BOARD, EMPTY_BOARD.replace("0", "0.0")], {}, {FORM_PAY}),
    "letters exchanged one by one": (
        "word_ladder",
        lambda entry: ladders(entry["metadata"]["start_word"], entry["metadata"]["end_word"]),
        {},
        {FORM_PAY},
    ),
    "one button over and over": (
        "quantum_lock",
        lambda entry: pressed_alone(entry["metadata"]["buttons"], entry["metadata"]["target_value"]),
        {"difficulty": 3},
        {FORM_PAY},
    ),
    "everybody alike": ("knights_knaves", _everybody_alike, {"n_people": 3}, {0.0, 1.0}),
    "one of each": ("knights_knaves", _one_of_each, {"n_people": 2}, {0.0, 1.0}),
    "quoting somebody": ("knights_knaves", lambda entry: quotations(entry["question"]), {"n_people": 3}, {0.0}),
}


@pytest.mark.parametrize("guess", GUESSES)
def test_guess_earns_what_form_pays_at_most_unless_it_is_right(guess: str) -> None:
    task, answers, params, earned = GUESSES[guess]
    scores = set(_scores(task, answers, **params))
    assert earned <= scores
    assert all(score <= FORM_PAY or score in earned for score in scores)
